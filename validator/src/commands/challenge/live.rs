//! One challenge of a connected miner: asked for, followed, cancelled.

use assay_api::{BeginChallenge, ChallengeUpdate, ProblemCode, Running};
use assay_program::exit::{Exit, Failure};
use assay_program::progress::ProgressBar;
use assay_program::shutdown::Signals;
use assay_program::standard_error;
use assay_protocol::verdict::Verdict;
use assay_work::text::printable;
use assay_work::{ChallengeId, PublicKey};
use serde_json::Value;
use tokio::sync::watch;

use super::LiveRequest;
use crate::client::{Client, ClientError, Updates};

/// Bytes of a phase's name that are shown.
const MAX_PHASE_BYTES: usize = 32;

/// SIGINT and SIGTERM of this command, counted. Clones count the same ones.
#[derive(Debug, Clone)]
pub struct Interrupts(watch::Receiver<u32>);

impl Interrupts {
    /// Listens from now on.
    ///
    /// # Errors
    /// What the system said, when it takes no signal handlers.
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

    /// Waits until there were so many.
    pub async fn at_least(&self, count: u32) {
        if self.0.clone().wait_for(|heard| *heard >= count).await.is_err() {
            // Nobody listens any more.
            std::future::pending::<()>().await;
        }
    }

    /// Whether there was one.
    #[must_use]
    pub fn any(&self) -> bool {
        *self.0.borrow() > 0
    }
}

/// Why a challenge did not start.
#[derive(Debug)]
pub enum NotStarted {
    /// It may later: the miner is not connected, or works on another one.
    Later(Failure),
    /// It will not.
    Final(Failure),
}

/// A challenge that was asked for, until its verdict.
#[derive(Debug)]
pub struct Asked {
    client: Client,
    /// The miner.
    pub key: PublicKey,
    /// The challenge.
    pub id: ChallengeId,
    all_slots: u64,
}

impl Asked {
    /// Asks for a challenge of a miner.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub async fn start(client: &Client, key: PublicKey, request: LiveRequest) -> Result<Self, NotStarted> {
        let begin = BeginChallenge {
            miner: Some(key.to_string()),
            precision: request.kind,
            mode: request.mode,
            n: request.n,
            iterations: request.iterations,
            samples: request.samples,
            fill_percent: request.fill_percent,
            eat_nonce: request.eat_nonce.map(Into::into),
        };
        let running: Running = client.post("/challenges", &begin).await.map_err(NotStarted::from)?;
        Ok(Self { client: client.clone(), key, id: running.challenge_id, all_slots: running.all_slots })
    }

    /// Follows the challenge to its verdict, on a bar with this name. The first interrupt cancels it; the second leaves
    /// it.
    ///
    /// # Errors
    /// The validator ended, or the second interrupt.
    pub async fn verdict(self, name: &str, bar: &ProgressBar, interrupts: &Interrupts) -> Result<Verdict, Failure> {
        bar.set_length(self.all_slots);
        let mut is_cancelled = false;
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

    async fn cancel(&self, bar: &ProgressBar) -> Result<(), Failure> {
        bar.suspend(|| {
            standard_error::print(&format!("cancelling challenge {}: interrupt again to leave at once", self.id))
        });
        match self.client.delete::<Value>(&format!("/challenges/{}", self.id)).await {
            // It has just ended, or ends without its miner: the verdict comes.
            Err(error) if error.code() != Some(ProblemCode::NoChallenge) => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn left(&self) -> Failure {
        let message = format!("left challenge {}, which may still run: see `assay-validator status`", self.id);
        Failure::new(Exit::Inconclusive, message)
    }
}

/// The failure of a command whose updates broke off.
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

impl From<ClientError> for NotStarted {
    fn from(error: ClientError) -> Self {
        use ProblemCode::{Busy, MinerLeft, NoMiner, Overloaded};
        match error.code() {
            Some(Busy | NoMiner | MinerLeft | Overloaded) => Self::Later(error.into()),
            // It may have begun.
            _ => Self::Final(lost(error)),
        }
    }
}
