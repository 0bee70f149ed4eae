//! Selection of the miners, and waiting for them.

use std::time::{Duration, Instant};

use assay_api::{BeginChallenge, MAX_DOCUMENTS, MinerConnection, MinerDetail};
use assay_program::exit::{Exit, Failure};
use assay_program::prefix::Prefix;
use assay_program::render::short_ids;
use assay_program::standard_error;
use assay_work::PublicKey;

use super::live::{ChallengeStartError, Interrupts, PendingChallenge};
use crate::Client;

/// Polling interval while waiting for a miner.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Selection of connected miners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChallengeTarget {
    /// The only connected miner.
    Only,
    /// The miner whose key starts with this prefix.
    Key(Prefix),
    All,
}

/// Time limit of waiting for a miner.
#[derive(Debug, Clone, Copy)]
pub struct WaitLimit {
    until: Option<Instant>,
}

impl WaitLimit {
    /// A limit in seconds; `None` waits without a limit.
    pub fn new(seconds: Option<u64>) -> Self {
        // A time beyond the clock's range counts as no limit.
        Self { until: seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds))) }
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Keys of the selected miners, in order.
///
/// # Errors
/// No selected miner is connected, or more than one.
pub async fn keys(client: &Client, target: &ChallengeTarget) -> Result<Vec<PublicKey>, ChallengeStartError> {
    let miners: Vec<MinerConnection> =
        client.list("/connected", &(), MAX_DOCUMENTS).await.map_err(ChallengeStartError::from)?;
    let connected: Vec<_> = miners.into_iter().map(|miner| miner.miner_key).collect();
    let inconclusive = |message: String| Failure::new(Exit::Inconclusive, message);
    if connected.is_empty() {
        let message = "no miner is connected: start one, or wait for it (--wait); see `assay-validator miners`";
        return Err(ChallengeStartError::Later(inconclusive(message.to_owned())));
    }
    match target {
        ChallengeTarget::All => Ok(connected),
        ChallengeTarget::Key(prefix) => match prefix.find(connected.iter().map(|key| key.0)) {
            Ok(key) => Ok(vec![PublicKey(key)]),
            Err(error) if connected.iter().any(|key| prefix.matches(&key.0)) => {
                Err(ChallengeStartError::Final(Failure::new(Exit::Usage, format!("--miner: {error}"))))
            }
            Err(error) => {
                // By another of its keys: the validator knows which one it uses.
                let known = client.get::<MinerDetail>(&format!("/miners/{prefix}")).await;
                let used = known.ok().and_then(|miner| miner.connection).map(|connection| connection.miner_key);
                let later = || inconclusive(format!("miner {prefix} is not connected: {error}"));
                used.map(|key| vec![key]).ok_or_else(|| ChallengeStartError::Later(later()))
            }
        },
        ChallengeTarget::Only => match connected.as_slice() {
            [only] => Ok(vec![*only]),
            several => {
                let keys = short_ids(several).join(", ");
                let message =
                    format!("{} miners are connected: name one with --miner, or --all: {keys}", several.len());
                Err(ChallengeStartError::Final(Failure::new(Exit::Usage, message)))
            }
        },
    }
}

/// Retries an action until it succeeds, fails permanently, or the wait is over.
///
/// # Errors
/// The last failure; an interrupt.
pub async fn until_possible<T, F: Future<Output = Result<T, ChallengeStartError>>>(
    wait: Option<WaitLimit>,
    interrupts: &Interrupts,
    attempt: impl Fn() -> F,
) -> Result<T, Failure> {
    let mut has_said = false;
    loop {
        let failure = match attempt().await {
            Ok(done) => return Ok(done),
            Err(ChallengeStartError::Final(failure)) => return Err(failure),
            Err(ChallengeStartError::Later(failure)) => failure,
        };
        let Some(wait) = wait else { return Err(failure) };
        if wait.is_over() {
            return Err(Failure::new(failure.exit, format!("waited for long enough: {failure}")));
        }
        if !has_said {
            has_said = true;
            standard_error::print(&format!("waiting: {failure}"));
        }
        tokio::select! {
            () = interrupts.at_least(1) => return Err(Failure::new(Exit::Inconclusive, "interrupted while waiting")),
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

/// Challenges a miner, after waiting for it to be connected and free, if requested.
///
/// # Errors
/// As [`until_possible`].
pub async fn start(
    client: &Client,
    key: PublicKey,
    request: BeginChallenge,
    wait: Option<WaitLimit>,
    interrupts: &Interrupts,
) -> Result<PendingChallenge, Failure> {
    until_possible(wait, interrupts, || PendingChallenge::start(client, key, request.clone())).await
}
