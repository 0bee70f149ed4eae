//! `assay-validator status`: what a running validator does.

use std::fmt::Write;

use anyhow::Context;
use assay_program::exit::{Exit, print};
use assay_program::render::{Screen, short_ids, table};
use assay_program::utc;
use assay_protocol::wire::v1::{self, GetStatusRequest};
use assay_work::text::quoted;
use assay_work::{ChallengeId, PublicKey};
use serde::Serialize;

use super::control;
use crate::cli::running::StatusArgs;
use crate::config::ValidatorConfig;

/// What a validator does, and what it has done since its start.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Report {
    validator_key: PublicKey,
    agent: String,
    process_id: u32,
    /// Where miners connect to.
    address: String,
    /// What a miner needs to dial.
    target: String,
    /// When the certificate of an authority ends.
    tls_certificate_expires_unix_seconds: Option<u64>,
    started_unix_seconds: u64,
    uptime_seconds: u64,
    /// `serving` or `draining`.
    state: &'static str,
    miners: u32,
    max_miners: u32,
    /// The validator's own, for replays.
    devices: u32,
    /// Machines that replay for it.
    replay_workers: Vec<WorkerRow>,
    verdicts: Counts,
    /// The file that verdicts are added to.
    verdict_log: Option<String>,
    /// Why verdicts cannot be written there.
    verdict_log_problem: Option<String>,
    /// Where all records are kept.
    records: String,
    /// Why nothing can be written there.
    records_problem: Option<String>,
    challenges: Vec<ChallengeRow>,
}

/// A machine that replays for validators.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct WorkerRow {
    name: String,
    machine: String,
    devices: u32,
    macs_per_s: f64,
}

/// Verdicts since the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Counts {
    pass: u64,
    fail: u64,
    inconclusive: u64,
}

/// A challenge that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChallengeRow {
    /// The challenge.
    pub challenge_id: ChallengeId,
    /// Its miner.
    pub miner_key: PublicKey,
    /// What happens now.
    pub phase: String,
    /// Slots filled, by what the miner says.
    pub done_slots: u64,
    /// Of so many.
    pub all_slots: u64,
    /// Since its start.
    pub seconds: u64,
}

/// Shows what a running validator does.
///
/// # Errors
/// No validator answers on the socket.
pub fn execute(config: &ValidatorConfig, args: &StatusArgs) -> anyhow::Result<Exit> {
    let report = control::block_on(async {
        let client = control::connect(&config.control_socket).await?;
        let status = client.ask(|mut rpc| async move { rpc.get_status(GetStatusRequest {}).await }).await?;
        Report::try_from(status)
    })?;
    if args.json {
        print(&serde_json::to_string_pretty(&report)?)?;
    } else {
        print(&report.text(&Screen::stdout()))?;
    }
    Ok(Exit::Done)
}

impl TryFrom<v1::GetStatusResponse> for Report {
    type Error = anyhow::Error;

    fn try_from(status: v1::GetStatusResponse) -> anyhow::Result<Self> {
        let said = |text: String| Some(text).filter(|text| !text.is_empty());
        Ok(Self {
            validator_key: PublicKey::try_from(&status.validator_key[..]).context("the validator sent no key")?,
            agent: status.agent,
            process_id: status.process_id,
            address: status.address,
            target: status.target,
            tls_certificate_expires_unix_seconds: Some(status.tls_certificate_expires_unix_seconds)
                .filter(|expires| *expires > 0),
            started_unix_seconds: status.started_unix_seconds,
            uptime_seconds: status.uptime_seconds,
            state: if status.draining { "draining" } else { "serving" },
            miners: status.miners,
            max_miners: status.max_miners,
            devices: status.devices,
            replay_workers: status.replay_workers.into_iter().map(WorkerRow::from).collect(),
            records: status.records,
            records_problem: said(status.records_problem),
            verdicts: Counts { pass: status.passed, fail: status.failed, inconclusive: status.inconclusive },
            verdict_log: said(status.verdict_log),
            verdict_log_problem: said(status.verdict_log_problem),
            challenges: status.challenges.into_iter().map(ChallengeRow::try_from).collect::<Result<_, _>>()?,
        })
    }
}

impl From<v1::ReplayWorker> for WorkerRow {
    fn from(worker: v1::ReplayWorker) -> Self {
        let v1::ReplayWorker { name, address, devices, macs_per_s } = worker;
        Self { name, machine: address, devices, macs_per_s }
    }
}

impl TryFrom<v1::RunningChallenge> for ChallengeRow {
    type Error = anyhow::Error;

    fn try_from(challenge: v1::RunningChallenge) -> anyhow::Result<Self> {
        let v1::RunningChallenge { challenge_id, miner_key, phase, done_slots, all_slots, seconds } = challenge;
        Ok(Self {
            challenge_id: ChallengeId::try_from(&challenge_id[..]).context("the validator sent no challenge's id")?,
            miner_key: PublicKey::try_from(&miner_key[..]).context("the validator sent no miner's key")?,
            phase,
            done_slots,
            all_slots,
            seconds,
        })
    }
}

impl ChallengeRow {
    /// The phase, with how much of the work is done.
    #[must_use]
    pub fn progress(&self) -> String {
        if self.phase != "work" || self.all_slots == 0 {
            return self.phase.clone();
        }
        format!("work {} %", u128::from(self.done_slots.min(self.all_slots)) * 100 / u128::from(self.all_slots))
    }
}

impl Report {
    fn text(&self, screen: &Screen) -> String {
        let mut out = format!("validator {}\n", self.validator_key);
        let mut line = |name: &str, value: String| {
            // Writing into memory cannot fail.
            let _ = writeln!(out, "  {name:<10} {value}");
        };
        line("program", format!("{}, process {}", quoted(&self.agent), self.process_id));
        line("listening", self.address.clone());
        if let Some(expires) = self.tls_certificate_expires_unix_seconds {
            line("tls_cert", format!("expires on {}", utc::text(expires)));
        }
        line("since", format!("{}, for {}", utc::text(self.started_unix_seconds), duration(self.uptime_seconds)));
        line(
            "state",
            match self.state {
                "draining" => "draining: ends after the challenges that run".to_owned(),
                state => state.to_owned(),
            },
        );
        line("miners", format!("{} of at most {}", self.miners, self.max_miners));
        line(
            "devices",
            match (self.devices, self.replay_workers.len()) {
                (0, 0) => "none: audits only".to_owned(),
                (0, _) => "none of its own".to_owned(),
                (count, _) => format!("{count} for replays"),
            },
        );
        for WorkerRow { name, devices, macs_per_s, .. } in &self.replay_workers {
            let tera = macs_per_s / 1e12;
            line("worker", format!("{}, devices: {devices}, {tera:.3} T multiply-accumulates/s", quoted(name)));
        }
        let Counts { pass, fail, inconclusive } = self.verdicts;
        line("verdicts", format!("{pass} pass, {fail} fail, {inconclusive} inconclusive"));
        line(
            "records",
            match &self.records_problem {
                Some(problem) => format!("NOT WRITTEN: {}", quoted(problem)),
                None => self.records.clone(),
            },
        );
        line(
            "recording",
            match (&self.verdict_log, &self.verdict_log_problem) {
                (_, Some(problem)) => format!("NO: {}", quoted(problem)),
                (Some(path), None) => format!("to {path}"),
                (None, None) => "no verdict_log is set".to_owned(),
            },
        );
        line(
            "challenges",
            match self.challenges.len() {
                0 => "none".to_owned(),
                count => count.to_string(),
            },
        );
        if self.challenges.is_empty() {
            return out.trim_end().to_owned();
        }
        let mut rows = table::new(screen, &["challenge", "miner", "phase", "slots", "seconds"]);
        let ids = short_ids(self.challenges.iter().map(|challenge| challenge.challenge_id));
        let keys = short_ids(self.challenges.iter().map(|challenge| challenge.miner_key));
        for ((challenge, id), key) in self.challenges.iter().zip(ids).zip(keys) {
            rows.add_row([
                id.into(),
                key.into(),
                challenge.progress().into(),
                table::figure(challenge.all_slots),
                table::figure(challenge.seconds),
            ]);
        }
        format!("{out}\n{}", table::text(&rows))
    }
}

/// A duration in its two largest units.
fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report::try_from(v1::GetStatusResponse {
            agent: "assay-validator/0.1.0".to_owned(),
            validator_key: vec![0xab; 32],
            process_id: 77,
            address: "127.0.0.1:7400".to_owned(),
            uptime_seconds: 3725,
            miners: 2,
            max_miners: 256,
            challenges: vec![v1::RunningChallenge {
                challenge_id: vec![0xcd; 16],
                miner_key: vec![0xef; 32],
                phase: "work".to_owned(),
                done_slots: 1,
                all_slots: 3,
                seconds: 12,
            }],
            passed: 5,
            records: "postgres://assay@db:5432/assay".to_owned(),
            tls_certificate_expires_unix_seconds: 951_782_399,
            ..v1::GetStatusResponse::default()
        })
        .unwrap()
    }

    #[test]
    fn an_operator_sees_what_happens() {
        let text = report().text(&Screen { width: Some(80), colour: false });
        for part in [
            "abababab",
            "127.0.0.1:7400",
            "serving",
            "2 of at most 256",
            "audits only",
            "postgres://assay@db",
            "5 pass",
            "1 h 2 min",
            "cdcdcdcd",
            "work 33 %",
            "expires on 2000-02-28",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let worker = WorkerRow { name: "gpu-3".to_owned(), machine: "gpu-3".to_owned(), devices: 8, macs_per_s: 4e15 };
        let shared = Report { replay_workers: vec![worker], records_problem: Some("no disk".to_owned()), ..report() };
        let text = shared.text(&Screen::FILE);
        for part in ["none of its own", "\"gpu-3\", devices: 8, 4000.000 T", "NOT WRITTEN: \"no disk\""] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let full = Report { verdict_log_problem: Some("No space left".to_owned()), state: "draining", ..report() };
        let text = full.text(&Screen::FILE);
        assert!(text.contains("NO: \"No space left\"") && text.contains("draining: ends after"), "{text}");
    }

    #[test]
    fn durations_have_two_units() {
        let shown = [59, 61, 7265, 90_000].map(duration);
        assert_eq!(shown, ["59 s", "1 min 1 s", "2 h 1 min", "1 d 1 h"]);
    }
}
