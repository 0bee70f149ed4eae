//! The state of a miner, as a person reads it.

use std::path::Path;

use assay_program::lock::LockHolder;
use assay_program::render::units::{self, duration};
use assay_program::render::{Screen, short_ids, table};
use assay_program::utc;
use assay_work::text::{printable, quoted};

use crate::health::MAX_STATUS_AGE_S;
use crate::status::{
    DeviceStatus, LimitsStatus, MinerStatus, RunningStatus, TimedReason, ValidatorStatus, VerdictStatus,
};

/// Digits of a challenge's id.
const SHORT_ID: usize = 16;

/// The facts of the miner with a key file.
#[derive(Debug)]
pub struct KeyStatus {
    /// The process that holds the key, where one runs.
    pub holder: Option<LockHolder>,
    /// The status that it wrote last, or, when it does not run, that of the last process.
    pub status: Option<MinerStatus>,
    /// When a miner wrote its status last, or could not, in seconds since 1970.
    pub touched: Option<u64>,
}

impl KeyStatus {
    /// How long the process that runs has written nothing, where that is too long.
    pub fn silent(&self, now_s: u64) -> Option<u64> {
        let since = self.touched.filter(|_| self.holder.is_some() && self.status.is_some())?;
        Some(now_s.saturating_sub(since)).filter(|silent| *silent > MAX_STATUS_AGE_S)
    }
}

/// The facts of a miner as text, at the moment `now_s`.
pub fn text(found: &KeyStatus, key_file: &Path, now_s: u64, screen: &Screen) -> String {
    let mut lines = vec![headline(found, key_file, now_s)];
    let Some(status) = &found.status else { return lines.remove(0) };
    let is_running = found.holder.is_some();
    lines.push(field("miner key", &status.miner_key));
    lines.extend(status.validators.iter().flat_map(|v| validator(v, status.validators.len(), is_running, now_s)));
    match &status.challenge {
        Some(challenge) if is_running => {
            lines.push(field("challenge", &running(challenge, status.validators.len(), now_s)))
        }
        _ if is_running => lines.push(field("challenge", "none runs")),
        _ => {}
    }
    match &status.last_verdict {
        None => lines.push(field("last verdict", "none")),
        Some(verdict) => {
            lines.push(field("last verdict", &verdict_line(verdict, now_s)));
            let reason = |reason: &crate::status::ReasonStatus| {
                field("", &format!("{} ({}): {}", reason.code, reason.class, quoted(&reason.detail)))
            };
            lines.extend(verdict.reasons.iter().map(reason));
        }
    }
    if let Some(stop) = &status.last_stop {
        let at = moment(stop.at, now_s);
        let challenge = short(&stop.challenge_id);
        lines.push(field("last stop", &format!("challenge {challenge}, {at}: {}", printable(&stop.why, usize::MAX))));
    }
    let counts = status.verdicts;
    let counts = format!("{} pass, {} fail, {} inconclusive", counts.pass, counts.fail, counts.inconclusive);
    lines.push(field("verdicts", &format!("{counts}, since its start")));
    lines.extend(limits(&status.limits).map(|limits| field("limits", &limits)));
    lines.extend(devices(&status.devices, is_running, screen));
    lines.join("\n")
}

fn headline(found: &KeyStatus, key_file: &Path, now_s: u64) -> String {
    match (&found.holder, &found.status) {
        (Some(holder), None) => {
            format!(
                "running: process {} since {}; it has written no status yet",
                holder.pid,
                moment(holder.started, now_s)
            )
        }
        (Some(holder), Some(_)) => {
            let silent = found.silent(now_s).map(|silent| {
                format!("; it hangs, or its disk takes no writes: it has written no status for {}", duration(silent))
            });
            format!(
                "running: process {} since {}{}",
                holder.pid,
                moment(holder.started, now_s),
                silent.unwrap_or_default()
            )
        }
        (None, None) => format!("not running: no miner with the key file {} has written a status", key_file.display()),
        (None, Some(MinerStatus { ended: Some(ended), .. })) => {
            format!("not running since {}: {}", moment(ended.at, now_s), printable(&ended.why, usize::MAX))
        }
        (None, Some(status)) => format!(
            "not running since about {}: process {} ended without a word (killed, or the machine stopped)",
            moment(status.written, now_s),
            status.pid
        ),
    }
}

/// One validator of the count `of`; the last verdict of a single validator has a line of its own elsewhere.
fn validator(status: &ValidatorStatus, of: usize, is_running: bool, now_s: u64) -> Vec<String> {
    let ValidatorStatus { address, connection, last_verdict, ended, .. } = status;
    let how = match (connection.connected_since, connection.next_attempt, ended) {
        _ if !is_running => String::new(),
        (_, _, Some(ended)) => format!(", not served since {}", moment(ended.at, now_s)),
        (Some(since), ..) => format!(", connected since {}", moment(since, now_s)),
        (None, Some(next), _) if next > now_s => format!(", not connected; next attempt in {}", duration(next - now_s)),
        _ => ", not connected; connecting".to_owned(),
    };
    let mut lines = vec![field("validator", &format!("{}{how}", printable(address, usize::MAX)))];
    lines.extend(connection.validator_key.iter().map(|key| field("", &format!("key {key}"))));
    match (ended, connection.connected_since, &connection.last_error) {
        (Some(ended), ..) => lines.push(field("", &printable(&ended.why, usize::MAX))),
        (None, None, Some(error)) => lines.push(field("last error", &happened(error, now_s))),
        _ => {}
    }
    let verdict = last_verdict.as_ref().filter(|_| of > 1);
    lines.extend(verdict.map(|last| field("", &format!("last verdict {}", verdict_line(last, now_s)))));
    lines
}

fn running(challenge: &RunningStatus, of: usize, now_s: u64) -> String {
    let RunningStatus { validator, n, iterations, devices, stage, done_slots, all_slots, since, .. } = challenge;
    let id = short(&challenge.challenge_id);
    let percent = done_slots * 100 / (*all_slots).max(1);
    let progress = format!("{stage}, {done_slots} of {all_slots} slots ({percent} %)");
    let taken = duration(now_s.saturating_sub(*since));
    let of = if of > 1 { format!(" of {}", printable(validator, usize::MAX)) } else { String::new() };
    format!("{id}{of}, n = {n}, iterations {iterations}, devices {devices}: {progress}, for {taken}")
}

fn verdict_line(verdict: &VerdictStatus, now_s: u64) -> String {
    let VerdictStatus { challenge_id, at, outcome, tops, .. } = verdict;
    let rate = if *tops > 0.0 { format!(", {} TOPS", units::figures(*tops)) } else { String::new() };
    format!("{outcome}{rate}, challenge {}, {}", short(challenge_id), moment(*at, now_s))
}

fn limits(limits: &LimitsStatus) -> Option<String> {
    let LimitsStatus { max_memory_percent, max_challenge_s } = limits;
    let mut parts = Vec::new();
    if *max_memory_percent < 100 {
        parts.push(format!("{max_memory_percent} % of the free memory"));
    }
    parts.extend(max_challenge_s.map(|limit_s| format!("challenges of at most {}", duration(limit_s))));
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn devices(devices: &[DeviceStatus], is_running: bool, screen: &Screen) -> Vec<String> {
    if devices.is_empty() {
        return Vec::new();
    }
    let header = ["#", "device", "name", "memory GiB", "offered GiB", "worker", "restarts", "state"];
    let mut table = table::new(screen, &header);
    for (device, id) in devices.iter().zip(short_ids(devices.iter().map(|device| &device.device_id))) {
        table.add_row(vec![
            table::figure(device.index.map_or_else(|| "–".to_owned(), |index| index.to_string())),
            id.into(),
            printable(&device.name, usize::MAX).into(),
            table::figure(units::gib(device.total_bytes)),
            table::figure(units::gib(device.offered_bytes)),
            table::figure(
                device.worker_pid.filter(|_| is_running).map_or_else(|| "–".to_owned(), |pid| pid.to_string()),
            ),
            table::figure(device.worker_restarts),
            match &device.fault {
                _ if !is_running => "–",
                Some(_) => "fault",
                None => "ok",
            }
            .into(),
        ]);
    }
    let fault = |device: &DeviceStatus| {
        let fault = device.fault.as_ref().filter(|_| is_running)?;
        Some(format!("device {} cannot be used now: {}", short(&device.device_id), printable(fault, usize::MAX)))
    };
    std::iter::once(table::text(&table)).chain(devices.iter().filter_map(fault)).collect()
}

fn happened(ended: &TimedReason, now_s: u64) -> String {
    format!("{}, {}", printable(&ended.why, usize::MAX), moment(ended.at, now_s))
}

fn field(name: &str, value: &str) -> String {
    format!("{name:<13} {value}")
}

fn short(id: &str) -> String {
    id.chars().take(SHORT_ID).collect()
}

/// A moment with how long ago it was.
fn moment(at_s: u64, now_s: u64) -> String {
    format!("{} ({} ago)", utc::text(at_s), duration(now_s.saturating_sub(at_s)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::ConnectionStatus;

    const NOW_S: u64 = 1_795_392_000;

    fn holder() -> Option<LockHolder> {
        Some(LockHolder { pid: 42, program: "assay-miner".into(), started: NOW_S - 3700, who: "key".into() })
    }

    fn shown(holder: Option<LockHolder>, status: Option<MinerStatus>) -> String {
        let found = KeyStatus { holder, status, touched: Some(NOW_S - 3) };
        text(&found, Path::new("/state/miner.key"), NOW_S, &Screen::FILE)
    }

    #[test]
    fn a_miner_that_writes_nothing_hangs() {
        let found = |touched| KeyStatus { holder: holder(), status: Some(status()), touched };
        let first = |found: &KeyStatus| {
            text(found, Path::new("/state/miner.key"), NOW_S, &Screen::FILE).lines().next().unwrap().to_owned()
        };
        let silent = found(Some(NOW_S - 90));
        assert_eq!(silent.silent(NOW_S), Some(90));
        assert!(first(&silent).contains("; it hangs, or its disk takes no writes"), "{}", first(&silent));
        assert!(found(Some(NOW_S - 40)).silent(NOW_S).is_none() && !first(&found(Some(NOW_S - 40))).contains("hangs"));
        // Neither one that runs no more, nor one that has not written yet.
        assert!(KeyStatus { holder: None, ..found(Some(0)) }.silent(NOW_S).is_none());
        assert!(KeyStatus { status: None, ..found(Some(0)) }.silent(NOW_S).is_none());
    }

    fn status() -> MinerStatus {
        let device = DeviceStatus {
            device_id: "ab".repeat(16),
            index: Some(0),
            name: "NVIDIA H200".into(),
            backend: "cuda".into(),
            total_bytes: 140 << 30,
            free_bytes: 138 << 30,
            offered_bytes: 69 << 30,
            fault: None,
            worker_pid: Some(43),
            worker_restarts: 2,
        };
        let reason = crate::status::ReasonStatus {
            code: "audit_leaf".into(),
            class: "forged".into(),
            detail: "slot 3\n\u{1b}[2J".into(),
        };
        MinerStatus {
            pid: 42,
            written: NOW_S - 3,
            miner_key: "cd".repeat(32),
            validator: "127.0.0.1:7400".into(),
            validators: vec![ValidatorStatus {
                address: "127.0.0.1:7400".into(),
                connection: ConnectionStatus {
                    connected_since: Some(NOW_S - 90),
                    validator_key: Some("ef".repeat(32)),
                    ..ConnectionStatus::default()
                },
                ..ValidatorStatus::default()
            }],
            challenge: Some(RunningStatus {
                challenge_id: "01".repeat(16),
                validator: "127.0.0.1:7400".into(),
                n: 2048,
                iterations: 2,
                devices: 1,
                stage: "work".into(),
                since: NOW_S - 12,
                done_slots: 30,
                all_slots: 120,
            }),
            last_verdict: Some(VerdictStatus {
                challenge_id: "02".repeat(16),
                at: NOW_S - 7200,
                outcome: "fail".into(),
                tops: 1.5,
                reasons: vec![reason],
            }),
            devices: vec![device],
            ..MinerStatus::default()
        }
    }

    #[test]
    fn a_running_miner_is_shown_with_all_that_it_does() {
        let text = shown(holder(), Some(status()));
        for part in [
            "running: process 42 since 2026-11-22 22:58:20 UTC (1 h 1 min ago)",
            "127.0.0.1:7400, connected since 2026-11-22 23:58:30 UTC (1 min 30 s ago)",
            &format!("key {}", "ef".repeat(32)),
            "n = 2048, iterations 2, devices 1: work, 30 of 120 slots (25 %), for 12 s",
            "fail, 1.50 TOPS, challenge 0202020202020202, 2026-11-22 22:00:00 UTC (2 h 0 min ago)",
            "audit_leaf (forged): ",
            "abababab",
            "NVIDIA H200",
            "69.0",
            "43",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_miner_that_does_not_run_says_since_when() {
        let killed = shown(None, Some(status()));
        assert!(
            killed.starts_with("not running since about 2026-11-22 23:59:57 UTC (3 s ago): process 42"),
            "{killed}"
        );
        assert!(!killed.contains("connected since") && !killed.contains("slots ("), "{killed}");
        let ended = Some(TimedReason { at: NOW_S - 60, why: "drained".into() });
        let drained = shown(None, Some(MinerStatus { ended, ..status() }));
        assert!(drained.starts_with("not running since 2026-11-22 23:59:00 UTC (1 min 0 s ago): drained"), "{drained}");
        assert_eq!(shown(None, None), "not running: no miner with the key file /state/miner.key has written a status");
        assert!(shown(holder(), None).contains("it has written no status yet"));
    }

    #[test]
    fn an_error_is_shown_until_the_miner_is_connected_again() {
        let last_error = Some(TimedReason { at: NOW_S - 5, why: "no connection: refused".into() });
        let mut status = status();
        status.validators[0].connection = ConnectionStatus {
            last_error,
            next_attempt: Some(NOW_S + 7),
            connected_since: None,
            ..ConnectionStatus::default()
        };
        let waiting = shown(holder(), Some(status.clone()));
        assert!(waiting.contains("not connected; next attempt in 7 s"), "{waiting}");
        assert!(waiting.contains("no connection: refused, 2026-11-22 23:59:55 UTC (5 s ago)"), "{waiting}");
        status.validators[0].connection.connected_since = Some(NOW_S);
        assert!(!shown(holder(), Some(status)).contains("refused"));
    }

    #[test]
    fn each_of_several_validators_is_shown_with_its_last_verdict() {
        let mut status = status();
        let ended = Some(TimedReason { at: NOW_S - 60, why: "this key is not on its list".into() });
        let refused = ValidatorStatus { address: "v2:7400".into(), ended, ..ValidatorStatus::default() };
        let mut waiting = ValidatorStatus { address: "v3:7400".into(), ..ValidatorStatus::default() };
        waiting.last_verdict = status.last_verdict.clone();
        status.validators.extend([refused, waiting]);
        let text = shown(holder(), Some(status));
        for part in [
            "127.0.0.1:7400, connected since",
            "v2:7400, not served since 2026-11-22 23:59:00 UTC (1 min 0 s ago)\n",
            "this key is not on its list",
            "v3:7400, not connected; connecting\n",
            "last verdict fail, 1.50 TOPS, challenge 0202020202020202",
            "0101010101010101 of 127.0.0.1:7400, n = 2048",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn the_devices_fit_a_terminal() {
        let screen = Screen { width: Some(80), colour: false };
        let device = DeviceStatus { name: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".into(), ..status().devices.remove(0) };
        let lines = devices(&vec![device; 3], true, &screen).join("\n");
        assert!(lines.lines().all(|line| line.chars().count() <= 80), "{lines}");
    }

    #[test]
    fn limits_are_shown_where_there_are_any() {
        let limited = LimitsStatus { max_memory_percent: 50, max_challenge_s: Some(90) };
        assert_eq!(limits(&limited).unwrap(), "50 % of the free memory; challenges of at most 1 min 30 s");
        assert_eq!(limits(&LimitsStatus { max_memory_percent: 100, max_challenge_s: None }), None);
    }
}
