//! One challenge of a connected miner: requested, followed, cancelled.

use std::time::Duration;

use assay_api::VERDICT_PHASE;
use assay_api::{BeginChallenge, ChallengeProgress, ChallengeUpdate, ProblemCode, ServerStatus};
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
const QUIET: Duration = Duration::from_secs(5);

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
    /// following.
    ///
    /// # Errors
    /// The validator ended, or the second interrupt.
    pub async fn verdict(self, name: &str, bar: &ProgressBar, interrupts: &Interrupts) -> Result<Verdict, Failure> {
        bar.set_length(self.all_slots);
        let (mut is_cancelled, mut told) = (false, None);
        let mut updates = Updates::of(&self.client, self.id);
        loop {
            let update = tokio::select! {
                biased;
                () = interrupts.at_least(2) => return Err(self.left()),
                () = interrupts.at_least(1), if !is_cancelled => {
                    is_cancelled = true;
                    self.cancel(bar).await?;
                    continue;
                }
                update = updates.next() => update.map_err(lost)?,
                () = tokio::time::sleep(QUIET) => {
                    self.tell_what_it_waits_for(&mut told, bar).await;
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

    /// Prints once why a verdict cannot be written.
    async fn tell_what_it_waits_for(&self, told: &mut Option<String>, bar: &ProgressBar) {
        // A validator that does not answer now may answer next time.
        let asked = tokio::time::timeout(QUIET, self.client.get::<ServerStatus>("/status")).await;
        let Ok(Ok(status)) = asked else { return };
        let waits = waits_for(&status, self.id);
        if let Some(waits) = waits.as_ref().filter(|waits| told.as_ref() != Some(waits)) {
            bar.suspend(|| standard_error::print(waits));
        }
        *told = waits;
    }

    async fn cancel(&self, bar: &ProgressBar) -> Result<(), Failure> {
        bar.suspend(|| {
            standard_error::print(&format!("cancelling challenge {}: interrupt again to leave at once", self.id))
        });
        match self.client.delete::<Value>(&format!("/challenges/{}", self.id)).await {
            // It has just ended, or ends without its miner: the verdict follows.
            Err(error) if error.code() != Some(ProblemCode::NoChallenge) => Err(error.into()),
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
    let running = status.challenges.iter().find(|challenge| challenge.challenge_id == id);
    if running.is_some_and(|running| running.phase != VERDICT_PHASE) {
        return None;
    }
    let why = status.records_problem.as_ref()?;
    Some(format!("challenge {id}: the verdict is reached and waits for the records: {}", quoted(why)))
}

/// The failure of a command whose updates stopped.
fn lost(error: ClientError) -> Failure {
    match error {
        ClientError::Broken(why) => {
            let message = format!(
                "the validator ended the conversation before the verdict: it was stopped or killed; see its log ({why})"
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
            _ => Self::Final(lost(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_that_cannot_be_written_says_what_it_waits_for() {
        let id = ChallengeId([7; 16]);
        let status = |phase: Option<&str>, records: Option<&str>| -> ServerStatus {
            let running = phase.map(|phase| {
                serde_json::json!({ "challenge_id": id, "miner_key": "ef".repeat(32), "phase": phase, "done_slots": 1,
                    "all_slots": 1, "seconds": 9 })
            });
            let status = serde_json::json!({ "validator_key": "ab".repeat(32), "agent": "a", "process_id": 1, "address": "a",
                "target": "a", "tls_certificate_expires_unix_seconds": null, "started_unix_seconds": 0,
                "uptime_seconds": 0, "state": "not_serving", "miners": 1, "max_miners": 1, "devices": 0,
                "replay_workers": [], "verdicts": { "pass": 0, "fail": 0, "inconclusive": 0 }, "records": "r",
                "records_problem": records,
                "challenges": running.into_iter().collect::<Vec<_>>() });
            serde_json::from_value(status).unwrap()
        };
        let said = |phase, records| waits_for(&status(phase, records), id);
        assert_eq!(said(Some("openings"), Some("full")), None, "the miner works still");
        assert_eq!(said(Some(VERDICT_PHASE), None), None, "it is being written");
        let told = said(Some(VERDICT_PHASE), Some("no space left")).unwrap();
        assert!(told.ends_with("is reached and waits for the records: \"no space left\""), "{told}");
        assert_eq!(said(None, Some("no space left")), Some(told), "also of a miner that has left");
    }
}
