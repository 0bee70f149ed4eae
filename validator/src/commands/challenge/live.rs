//! One challenge of a connected miner: asked for, followed, cancelled.

use assay_program::exit::{Exit, Failure};
use assay_program::progress::ProgressBar;
use assay_program::shutdown::Signals;
use assay_program::standard_error;
use assay_protocol::verdict::Verdict;
use assay_protocol::wire::mode_code;
use assay_protocol::wire::v1::run_challenge_response::Message;
use assay_protocol::wire::v1::{CancelChallengeRequest, RunChallengeRequest, RunChallengeResponse, RunningChallenge};
use assay_work::{ChallengeId, PublicKey};
use tokio::sync::watch;
use tonic::{Status, Streaming};

use super::LiveRequest;
use crate::commands::control::Client;
use crate::control::Refusal;

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
    updates: Streaming<RunChallengeResponse>,
}

impl Asked {
    /// Asks for a challenge of a miner.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub async fn start(client: &Client, key: PublicKey, request: LiveRequest) -> Result<Self, NotStarted> {
        let message = RunChallengeRequest {
            miner_key: key.0.to_vec(),
            mode: mode_code(request.mode),
            n: request.n,
            iterations: request.iterations,
            samples: request.samples,
            fill_percent: request.fill_percent,
            eat_nonce: request.eat_nonce.map(Into::into),
        };
        let started = client.try_ask(|mut rpc| async move { rpc.run_challenge(message).await }).await;
        let mut updates = started.map_err(|status| not_started(client, &status))?;
        let broken = |status: &Status| NotStarted::Final(client.broken(status));
        match updates.message().await.map_err(|status| broken(&status))?.and_then(|update| update.message) {
            Some(Message::Started(RunningChallenge { challenge_id, all_slots, .. })) => {
                let id = ChallengeId::try_from(&challenge_id[..]);
                let id = id.map_err(|_| broken(&Status::internal("the challenge has no id")))?;
                Ok(Self { client: client.clone(), key, id, all_slots, updates })
            }
            _ => Err(broken(&Status::internal("it did not say what started"))),
        }
    }

    /// Follows the challenge to its verdict, on a bar with this name. The first interrupt cancels it; the second leaves
    /// it.
    ///
    /// # Errors
    /// The validator ended, or the second interrupt.
    pub async fn verdict(mut self, name: &str, bar: &ProgressBar, interrupts: &Interrupts) -> Result<Verdict, Failure> {
        bar.set_length(self.all_slots);
        let mut is_cancelled = false;
        loop {
            let update = tokio::select! {
                biased;
                () = interrupts.at_least(2) => return Err(self.left()),
                () = interrupts.at_least(1), if !is_cancelled => {
                    is_cancelled = true;
                    self.cancel(bar).await?;
                    continue;
                }
                update = self.updates.message() => update.map_err(|status| self.client.broken(&status))?,
            };
            let Some(update) = update else {
                return Err(self.client.broken(&Status::aborted("the stream ended")));
            };
            match update.message {
                Some(Message::Progress(progress)) => bar.set_position(progress.done_slots),
                Some(Message::Phase(phase)) => bar.set_prefix(format!("{name}{phase}")),
                Some(Message::Verdict(verdict)) => {
                    return Verdict::try_from(verdict)
                        .map_err(|error| self.client.broken(&Status::internal(error.to_string())));
                }
                Some(Message::Started(_)) | None => {}
            }
        }
    }

    async fn cancel(&self, bar: &ProgressBar) -> Result<(), Failure> {
        bar.suspend(|| {
            standard_error::print(&format!("cancelling challenge {}: interrupt again to leave at once", self.id))
        });
        let request = CancelChallengeRequest { challenge_id: self.id.0.to_vec(), miner_key: Vec::new() };
        match self.client.try_ask(|mut rpc| async move { rpc.cancel_challenge(request).await }).await {
            // It has just ended, or ends without its miner: the verdict comes.
            Err(status) if Refusal::of(&status) != Some(Refusal::NoChallenge) => Err(self.client.failure(&status)),
            _ => Ok(()),
        }
    }

    fn left(&self) -> Failure {
        let message = format!("left challenge {}, which may still run: see `assay-validator status`", self.id);
        Failure::new(Exit::Inconclusive, message)
    }
}

fn not_started(client: &Client, status: &Status) -> NotStarted {
    let failure = client.failure(status);
    match Refusal::of(status) {
        Some(Refusal::Busy | Refusal::NoMiner | Refusal::MinerLeft | Refusal::Overloaded) => NotStarted::Later(failure),
        _ => NotStarted::Final(failure),
    }
}
