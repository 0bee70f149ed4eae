//! One challenge of a connected miner: requested, followed, cancelled.

use std::time::{Duration, Instant};

use assay_api::{BeginChallenge, ChallengeProgress, ChallengeUpdate, ProblemCode, ServerStatus, VERDICT_PHASE};
use assay_program::exit::{Exit, Failure};
use assay_program::progress::ProgressBar;
use assay_program::shutdown::Signals;
use assay_program::standard_error;
use assay_protocol::verdict::Verdict;
use assay_work::text::{printable, quoted};
use assay_work::{ChallengeId, PublicKey};
use serde_json::Value;
use tokio::sync::watch;

use crate::{Client, ClientError, Updates};

/// The most bytes shown of a phase's name.
const MAX_PHASE_BYTES: usize = 32;
/// Silence after which the validator is asked for the reason of the wait.
const QUIET: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 5000 });
/// Time after a cancellation for which a reached verdict is waited for that cannot be written.
const CANCELLED_WAIT: Duration = Duration::from_millis(2 * QUIET.as_millis() as u64);

/// Counter of SIGINT and SIGTERM of this command. Clones share it.
#[derive(Debug, Clone)]
pub struct Interrupts(watch::Receiver<u32>);

impl Interrupts {
    /// Starts listening.
    ///
    /// # Errors
    /// The system's error, when it accepts no signal handlers.
    pub fn listen() -> std::io::Result<Self> {
        let mut signals = Signals::new()?;
        let (sender, receiver) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                signals.next().await;
                sender.send_modify(|count| *count += 1);
            }
        });
        Ok(Self(receiver))
    }

    /// Waits for this number of interrupts.
    pub async fn at_least(&self, count: u32) {
        if self.0.clone().wait_for(|heard| *heard >= count).await.is_err() {
            // The listener has ended.
            std::future::pending::<()>().await;
        }
    }
}

/// Reason why a challenge did not start.
#[derive(Debug)]
pub enum ChallengeStartError {
    /// Temporary: the miner is not connected, or works on another one.
    Later(Failure),
    /// Permanent.
    Final(Failure),
}

/// A requested challenge, until its verdict.
#[derive(Debug)]
pub struct PendingChallenge {
    client: Client,
    pub key: PublicKey,
    pub id: ChallengeId,
    all_slots: u64,
}

impl PendingChallenge {
    /// Requests a challenge of a miner.
    pub async fn start(client: &Client, key: PublicKey, request: BeginChallenge) -> Result<Self, ChallengeStartError> {
        let begin = BeginChallenge { miner: Some(key.to_string()), ..request };
        let running: ChallengeProgress = client.post("/challenges", &begin).await.map_err(ChallengeStartError::from)?;
        Ok(Self { client: client.clone(), key, id: running.challenge_id, all_slots: running.all_slots })
    }

    /// Follows the challenge to its verdict, on a bar with this name. The first interrupt cancels it; the second stops
    /// following, and so does a verdict that cannot be written after the first.
    ///
    /// # Errors
    /// The validator ended, the second interrupt, or the records after the first.
    pub async fn verdict(self, name: &str, bar: &ProgressBar, interrupts: &Interrupts) -> Result<Verdict, Failure> {
        bar.set_length(self.all_slots);
        let (mut cancelled, mut is_told) = (None::<Instant>, false);
        let mut updates = Updates::of(&self.client, self.id);
        loop {
            let update = tokio::select! {
                biased;
                () = interrupts.at_least(2) => return Err(self.left()),
                () = interrupts.at_least(1), if cancelled.is_none() => {
                    cancelled = Some(Instant::now());
                    self.cancel(bar).await?;
                    continue;
                }
                update = updates.next() => update.map_err(|error| lost(error, Some(self.id)))?,
                () = tokio::time::sleep(QUIET) => {
                    let waits = self.waits_for_records(&mut is_told, bar).await;
                    if waits && cancelled.is_some_and(|at| at.elapsed() >= CANCELLED_WAIT) {
                        return Err(self.left());
                    }
                    continue;
                }
            };
            match update {
                ChallengeUpdate::Running(running) => {
                    bar.set_position(running.done_slots);
                    bar.set_prefix(format!("{name}{}", printable(&running.phase, MAX_PHASE_BYTES)));
                }
                ChallengeUpdate::Verdict(verdict) => return Ok(*verdict),
            }
        }
    }

    /// Whether the verdict is reached and cannot be written. Prints the reason the first time.
    async fn waits_for_records(&self, is_told: &mut bool, bar: &ProgressBar) -> bool {
        // A validator that does not answer now may answer next time.
        let asked = tokio::time::timeout(QUIET, self.client.get::<ServerStatus>("/status")).await;
        let Ok(Ok(status)) = asked else { return *is_told };
        let waits = waits_for(&status, self.id);
        if let Some(waits) = waits.as_ref().filter(|_| !std::mem::replace(is_told, true)) {
            bar.suspend(|| standard_error::print(waits));
        }
        waits.is_some()
    }

    async fn cancel(&self, bar: &ProgressBar) -> Result<(), Failure> {
        bar.suspend(|| {
            standard_error::print(&format!("cancelling challenge {}: interrupt again to leave at once", self.id))
        });
        match tokio::time::timeout(QUIET, self.client.delete::<Value>(&format!("/challenges/{}", self.id))).await {
            // It has just ended, or ends without its miner: the verdict follows.
            Ok(Err(error)) if error.code() != Some(ProblemCode::NoChallenge) => Err(lost(error, Some(self.id))),
            // Without an answer the request has been sent all the same.
            _ => Ok(()),
        }
    }

    fn left(&self) -> Failure {
        let message = format!("left challenge {}, which may still run: see `assay-validator status`", self.id);
        Failure::new(Exit::Inconclusive, message)
    }
}

/// The reason why a reached verdict cannot be written; `None` where it can.
fn waits_for(status: &ServerStatus, id: ChallengeId) -> Option<String> {
    // A challenge whose miner has left is listed only for its verdict.
    if status.challenges.iter().any(|running| running.challenge_id == id && running.phase != VERDICT_PHASE) {
        return None;
    }
    let why = status.records_problem.as_ref()?;
    Some(format!("challenge {id}: the verdict is reached and waits for the records: {}", quoted(why)))
}

/// The failure of a command whose updates stopped; `id`: of the challenge, where it is known.
fn lost(error: ClientError, id: Option<ChallengeId>) -> Failure {
    match error {
        ClientError::Broken(why) => {
            let of = id.map_or_else(String::new, |id| format!(" of challenge {id}"));
            let later = id.map_or_else(String::new, |id| {
                format!("; once it runs again, `assay-validator show {id}` has the verdict")
            });
            let message = format!(
                "the validator ended the conversation before the verdict{of}: it was stopped or killed, see its log \
                 ({why}){later}"
            );
            Failure::new(Exit::Inconclusive, message)
        }
        other => other.into(),
    }
}

impl From<ClientError> for ChallengeStartError {
    fn from(error: ClientError) -> Self {
        use ProblemCode::{Busy, MinerLeft, NoMiner, Overloaded};
        match error.code() {
            Some(Busy | NoMiner | MinerLeft | Overloaded) => Self::Later(error.into()),
            // The challenge may have begun.
            _ => Self::Final(lost(error, None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use axum::Router;
    use axum::routing::{delete, get};
    use tokio::net::UnixListener;

    use super::*;
    use crate::place::ApiLocation;

    const ID: ChallengeId = ChallengeId([7; 16]);

    fn status(phase: Option<&str>, records: Option<&str>) -> Value {
        let running = phase.map(|phase| {
            serde_json::json!({ "challenge_id": ID, "miner_key": "ef".repeat(32), "phase": phase, "done_slots": 1,
                "all_slots": 1, "seconds": 9 })
        });
        serde_json::json!({ "validator_key": "ab".repeat(32), "agent": "a", "process_id": 1, "address": "a",
            "target": "a", "tls_certificate_expires_unix_seconds": null, "started_unix_seconds": 0,
            "uptime_seconds": 0, "state": "not_serving", "miners": 1, "max_miners": 1, "devices": 0,
            "replay_workers": [], "verdicts": { "pass": 0, "fail": 0, "inconclusive": 0 }, "records": "r",
            "records_problem": records,
            "challenges": running.into_iter().collect::<Vec<_>>() })
    }

    /// Regression test: a challenge that was interrupted once waited for its records without end.
    #[tokio::test]
    async fn a_cancelled_challenge_whose_verdict_cannot_be_written_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let full = async || axum::Json(status(Some(VERDICT_PHASE), Some("no space left")));
        let routes = Router::new()
            .route("/api/v1/status", get(full))
            .route("/api/v1/challenges/{id}/events", get(pending::<()>))
            .route("/api/v1/challenges/{id}", delete(async || ()));
        tokio::spawn(axum::serve(listener, routes).into_future());
        let client = Client::of(&ApiLocation::Socket(socket));
        let (interrupt, interrupts) = watch::channel(0);
        let started = PendingChallenge { client, key: PublicKey([1; 32]), id: ID, all_slots: 1 };
        let following =
            tokio::spawn(async move { started.verdict("", &ProgressBar::hidden(), &Interrupts(interrupts)).await });
        tokio::time::sleep(3 * CANCELLED_WAIT).await;
        assert!(!following.is_finished(), "without an interrupt the verdict is waited for");
        interrupt.send(1).unwrap();
        let left = tokio::time::timeout(20 * CANCELLED_WAIT, following).await.unwrap().unwrap().unwrap_err();
        let named = format!("left challenge {ID}");
        assert!(left.exit == Exit::Inconclusive && left.message.contains(&named), "{left}");
    }

    #[test]
    fn a_lost_validator_is_told_with_the_challenge() {
        let said = |id| lost(ClientError::Broken("reset".to_owned()), id).message;
        assert!(said(Some(ID)).contains(&format!("before the verdict of challenge {ID}: ")));
        assert!(said(None).contains("before the verdict: "));
    }

    #[test]
    fn a_verdict_that_cannot_be_written_says_what_it_waits_for() {
        let said = |phase, records| waits_for(&serde_json::from_value(status(phase, records)).unwrap(), ID);
        assert_eq!(said(Some("openings"), Some("full")), None, "the miner works still");
        assert_eq!(said(Some(VERDICT_PHASE), None), None, "it is being written");
        let told = said(Some(VERDICT_PHASE), Some("no space left")).unwrap();
        assert!(told.ends_with("is reached and waits for the records: \"no space left\""), "{told}");
        assert_eq!(said(None, Some("no space left")), Some(told), "also of a miner that has left");
    }
}
