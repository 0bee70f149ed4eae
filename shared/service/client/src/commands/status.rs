//! `assay-validator status`: the state of a running validator.

use std::fmt::Write;

use assay_api::{ChallengeProgress, ReplayWorkerStatus, ServerStatus, VerdictCounts};
use assay_program::clock::unix_seconds;
use assay_program::exit::{Exit, print_document};
use assay_program::render::units::{counted, duration};
use assay_program::render::{Screen, short_ids, table};
use assay_program::utc;
use assay_work::text::{printable, quoted};

use super::records::ask;
use crate::cli::records::CommonArgs;
use crate::place::ApiLocation;

/// The most bytes shown of a line.
const MAX_LINE_BYTES: usize = 4096;
/// The most bytes shown of a phase's name.
const MAX_PHASE_BYTES: usize = 32;

/// Shows the state of a running validator; the exit code tells whether it serves.
///
/// # Errors
/// No validator answers.
pub fn execute(place: &ApiLocation, args: &CommonArgs) -> anyhow::Result<Exit> {
    let status: ServerStatus = ask(place, async |client| client.get("/status").await)?;
    print_document(&status, args.json, || text(&status, &Screen::stdout()))?;
    Ok(exit(&status))
}

fn exit(status: &ServerStatus) -> Exit {
    if status.state == "serving" { Exit::Done } else { Exit::Inconclusive }
}

/// The phase of a challenge, with its progress.
pub fn progress(challenge: &ChallengeProgress) -> String {
    let phase = printable(&challenge.phase, MAX_PHASE_BYTES);
    if phase != "work" || challenge.all_slots == 0 {
        return phase;
    }
    let done = challenge.done_slots.min(challenge.all_slots);
    format!("work {} %", u128::from(done) * 100 / u128::from(challenge.all_slots))
}

/// The status in lines, with a table of the running challenges.
fn text(status: &ServerStatus, screen: &Screen) -> String {
    let mut out = format!("validator {}\n", status.validator_key);
    let mut line = |name: &str, value: String| {
        // Writing into memory cannot fail.
        let _ = writeln!(out, "  {name:<10} {}", printable(&value, MAX_LINE_BYTES));
    };
    line("program", format!("{}, process {}", quoted(&status.agent), status.process_id));
    line("listening", status.address.clone());
    line("http", status.http_address.clone().unwrap_or_else(|| "none".to_owned()));
    line("socket", status.control_socket.clone());
    if let Some(expires) = status.tls_certificate_expires_unix_seconds {
        let begins = status.tls_certificate_begins_unix_seconds.unwrap_or(0);
        let (words, moment) = match unix_seconds() {
            now if now > expires => ("expired on", expires),
            now if now < begins => ("valid from", begins),
            _ => ("expires on", expires),
        };
        line("tls_cert", format!("{words} {}", utc::text(moment)));
    }
    line("since", format!("{}, for {}", utc::text(status.started_unix_seconds), duration(status.uptime_seconds)));
    let problem = status.records_problem.as_ref().map(|problem| quoted(problem).to_string());
    line(
        "state",
        match status.state.as_str() {
            "draining" => "draining: ends after the challenges that run".to_owned(),
            "not_serving" => {
                format!("NOT SERVING: verdicts cannot be written: {}", problem.as_deref().unwrap_or("not any more"))
            }
            state => state.to_owned(),
        },
    );
    line("miners", format!("{} of at most {}", status.miners, status.max_miners));
    line(
        "devices",
        match (status.devices, status.replay_workers.len()) {
            (0, 0) => "none: audits only".to_owned(),
            (0, _) => "none of its own".to_owned(),
            (count, _) => format!("{count} for replays"),
        },
    );
    for ReplayWorkerStatus { name, devices, macs_per_s, .. } in &status.replay_workers {
        let tera = macs_per_s / 1e12;
        line("worker", format!("{}, devices: {devices}, {tera:.3} T multiply-accumulates/s", quoted(name)));
    }
    let VerdictCounts { pass, fail, inconclusive } = status.verdicts;
    line("verdicts", format!("{pass} pass, {fail} fail, {inconclusive} inconclusive"));
    line("records", problem.map_or_else(|| status.records.clone(), |problem| format!("NOT WRITTEN: {problem}")));
    if let Some(problem) = &status.log_problem {
        line("log", format!("NOT APPENDED TO: {}", quoted(problem)));
    }
    if status.evidence_lost > 0 {
        let lost = counted(status.evidence_lost, "challenge");
        line("evidence", format!("LOST of {lost} since the start: the log says why"));
    }
    let count = status.challenges.len();
    line("challenges", if count == 0 { "none".to_owned() } else { count.to_string() });
    if status.challenges.is_empty() {
        return out.trim_end().to_owned();
    }
    let mut rows = table::new(screen, &["challenge", "miner", "phase", "slots", "seconds"]);
    let ids = short_ids(status.challenges.iter().map(|challenge| challenge.challenge_id));
    let keys = short_ids(status.challenges.iter().map(|challenge| challenge.miner_key));
    for ((challenge, id), key) in status.challenges.iter().zip(ids).zip(keys) {
        rows.add_row([
            id.into(),
            key.into(),
            progress(challenge).into(),
            table::figure(challenge.all_slots),
            table::figure(challenge.seconds),
        ]);
    }
    format!("{out}\n{}", table::text(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_work::{ChallengeId, PublicKey};

    fn status() -> ServerStatus {
        ServerStatus {
            agent: "assay-validator/0.1.0".to_owned(),
            validator_key: PublicKey([0xab; 32]),
            process_id: 77,
            address: "127.0.0.1:7400".to_owned(),
            target: "assay://127.0.0.1:7400".to_owned(),
            http_address: Some("127.0.0.1:7480".to_owned()),
            control_socket: "/run/assay/validator.sock".to_owned(),
            tls_certificate_begins_unix_seconds: Some(0),
            tls_certificate_expires_unix_seconds: Some(951_782_399),
            started_unix_seconds: 0,
            uptime_seconds: 3725,
            state: "serving".to_owned(),
            miners: 2,
            max_miners: 256,
            devices: 0,
            replay_workers: Vec::new(),
            verdicts: VerdictCounts { pass: 5, ..VerdictCounts::default() },
            records: "postgres://assay@db:5432/assay".to_owned(),
            records_problem: None,
            log_problem: None,
            evidence_lost: 0,
            challenges: vec![ChallengeProgress {
                challenge_id: ChallengeId([0xcd; 16]),
                miner_key: PublicKey([0xef; 32]),
                phase: "work".to_owned(),
                done_slots: 1,
                all_slots: 3,
                seconds: 12,
            }],
        }
    }

    #[test]
    fn a_certificate_that_miners_refuse_is_told_from_others() {
        let shown = |begins, expires| {
            let (begins, expires) = (Some(begins), Some(expires));
            let status = ServerStatus {
                tls_certificate_begins_unix_seconds: begins,
                tls_certificate_expires_unix_seconds: expires,
                ..status()
            };
            text(&status, &Screen::FILE)
        };
        let (past, future) = (951_782_399, 4_102_358_400);
        assert!(shown(past, future).contains("tls_cert   expires on 2099-12-31"));
        assert!(shown(future, future + 1).contains("tls_cert   valid from 2099-12-31"));
        assert!(shown(0, past).contains("tls_cert   expired on 2000-02-28"));
    }

    #[test]
    fn an_operator_sees_what_happens() {
        let text_of = |status: &ServerStatus| text(status, &Screen::FILE);
        let text = text(&status(), &Screen { width: Some(80), colour: false });
        for part in [
            "abababab",
            "127.0.0.1:7400",
            "http       127.0.0.1:7480",
            "socket     /run/assay/validator.sock",
            "serving",
            "2 of at most 256",
            "audits only",
            "postgres://assay@db",
            "5 pass",
            "1 h 2 min",
            "cdcdcdcd",
            "work 33 %",
            "expired on 2000-02-28",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let worker =
            ReplayWorkerStatus { name: "gpu-3".to_owned(), machine: "gpu-3".to_owned(), devices: 8, macs_per_s: 4e15 };
        let records_problem = Some("no disk".to_owned());
        let log_problem = Some("an old copy".to_owned());
        let shared =
            ServerStatus { replay_workers: vec![worker], records_problem, log_problem, evidence_lost: 3, ..status() };
        let text = text_of(&shared);
        for part in [
            "none of its own",
            "\"gpu-3\", devices: 8, 4000.000 T",
            "NOT WRITTEN: \"no disk\"",
            "log        NOT APPENDED TO: \"an old copy\"",
            "LOST of 3 challenges",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let unserved = ServerStatus { http_address: None, ..status() };
        assert!(text_of(&unserved).contains("http       none"));
        let records_problem = Some("No space left\u{1b}".to_owned());
        let stopping = ServerStatus { records_problem, state: "draining".to_owned(), ..status() };
        let text = text_of(&stopping);
        assert!(text.contains("NOT WRITTEN: \"No space left \"") && text.contains("draining: ends after"), "{text}");
        let full = ServerStatus { state: "not_serving".to_owned(), ..stopping.clone() };
        let text = text_of(&full);
        assert!(text.contains("NOT SERVING: verdicts cannot be written: \"No space left \""), "{text}");
        assert_eq!([&status(), &full, &stopping].map(exit), [Exit::Done, Exit::Inconclusive, Exit::Inconclusive]);
    }
}
