//! Dialling the validator, again and again: one stream at a time, with jittered exponential backoff between.

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_device::DeviceError;
use assay_program::clock::unix_seconds;
use assay_program::shutdown::Shutdown;
use assay_protocol::channel::Channel;
use assay_protocol::identity::{Identity, random_bytes};
use assay_protocol::message::{Inventory, MinerMessage, ValidatorMessage};
use assay_protocol::wire::codec::session_client;
use assay_protocol::wire::limits::MAX_DETAIL_BYTES;
use assay_protocol::wire::v1::SessionRequest;
use assay_work::Nonce;
use assay_work::text::{printable, quoted};
use tokio_stream::{Stream, StreamExt};

use crate::driver::{Observer, Resumption, Start, drive};
use crate::engine::Engine;
use crate::joining::PendingJoinToken;
use crate::limits::SharedLimits;
use crate::outbox::outbox;
use crate::reach::{Reach, ReachError, ValidatorConnection};
use crate::session::{CloseReason, SessionStart};
use crate::turns::Turns;

/// For how long a session that took this one's place may have been this miner's own: a connection that it lost, with a
/// handshake under way. The validator ends handshakes after 15 s.
const OWN_CONNECTION_LIMIT: Duration = Duration::from_secs(60);
/// How long a miner stays away that another one with its key took the place of: each of the two serves for as long, and
/// the one that is left serves again.
const TAKEN_OVER_PAUSE: Duration = Duration::from_secs(300);
/// A session that stood this long was a good one: the next attempt starts without delay.
const GOOD_SESSION: Duration = Duration::from_secs(60);

/// The validator to dial, the identity to prove, and the delays.
#[derive(Debug)]
pub struct Dial {
    pub reach: Reach,
    pub identity: Identity,
    /// The join token, until the validator has accepted the miner.
    pub joining: PendingJoinToken,
    /// The first delay, and the longest.
    pub backoff: (Duration, Duration),
    /// For how long the devices keep a challenge's memory for the next one.
    pub idle_release: Duration,
    pub limits: SharedLimits,
    /// The validator's turns at the devices.
    pub turns: Turns,
}

/// Why the miner cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Only an operator can resolve it.
    #[error("{0}")]
    Operator(CloseReason),
    /// The server is not the configured validator, or cannot be authenticated.
    #[error(transparent)]
    Untrusted(ReachError),
    /// The device inventory cannot be read.
    #[error("cannot read the device inventory: {0}")]
    Devices(#[from] DeviceError),
    #[error("the operating system gave no random bytes: {0}")]
    Random(String),
}

/// Serves the validator until the daemon is asked to stop.
pub async fn serve(
    dial: Dial,
    engine: Arc<Engine>,
    shutdown: Shutdown,
    observer: &mut dyn Observer,
) -> Result<(), ConnectionError> {
    let mut failures = 0;
    let resumption = Resumption::default();
    // When this miner last lost a connection that the validator may still hold.
    let mut left: Option<Instant> = None;
    while !shutdown.is_draining() {
        let began = Instant::now();
        let ended = session(&dial, &engine, &resumption, shutdown.clone(), observer).await?;
        let is_own = left.is_some_and(|left| left.elapsed() < OWN_CONNECTION_LIMIT);
        let again_after = ended.as_ref().ok().and_then(|closed| again_after(closed, is_own, dial.backoff.1));
        let why = match ended {
            Ok(CloseReason::Drained) => break,
            Ok(closed) => {
                left = closed.may_be_held().then(Instant::now).or(left);
                closed.to_string()
            }
            Err(ConnectionBreak { why, was_open }) => {
                left = was_open.then(Instant::now).or(left);
                why
            }
        };
        tracing::warn!(validator = %dial.reach.address(), "{why}");
        failures = if began.elapsed() > GOOD_SESSION { 0 } else { failures + 1 };
        let delay = delay(dial.backoff, failures, again_after, random_bytes().map_err(ConnectionError::Random)?);
        observer.disconnected(&why, delay);
        let mut draining = shutdown.clone();
        tokio::select! {
            () = draining.draining() => {}
            () = tokio::time::sleep(delay) => {}
        }
    }
    Ok(())
}

/// Why a connection broke, or did not come about.
struct ConnectionBreak {
    why: String,
    /// Whether there was one, of which the validator may not know yet that it is over.
    was_open: bool,
}

/// One connection from its dialling to its end; the inner error is why it broke.
async fn session(
    dial: &Dial,
    engine: &Arc<Engine>,
    resumption: &Resumption,
    shutdown: Shutdown,
    observer: &mut dyn Observer,
) -> Result<Result<CloseReason, ConnectionBreak>, ConnectionError> {
    let (reader, turns) = (engine.clone(), dial.turns.clone());
    let mut stopping = shutdown.clone();
    // A driver may not answer for minutes.
    let read = tokio::select! {
        () = stopping.draining() => return Ok(Ok(CloseReason::Drained)),
        read = tokio::task::spawn_blocking(move || inventory(&reader, &turns)) => read,
    };
    let inventory = read.map_err(|error| DeviceError::Sick(error.to_string()))??;
    let nonce = Nonce(random_bytes().map_err(ConnectionError::Random)?);
    let reached = tokio::select! {
        () = stopping.draining() => return Ok(Ok(CloseReason::Drained)),
        reached = dial.reach.connect() => match reached {
            Ok(reached) => reached,
            Err(error) if error.needs_operator() => return Err(ConnectionError::Untrusted(error)),
            Err(error) => return Ok(Err(ConnectionBreak { why: error.to_string(), was_open: false })),
        },
    };
    let ValidatorConnection { http, channel, is_authenticated, pinned, to_keep, first_byte } = reached;
    let (outbox, queue) = outbox();
    let join_token = dial.joining.token(channel, dial.reach.address().is_loopback());
    // One that is kept back is not used: it is not forgotten.
    let joining = join_token.as_ref().map_or_else(PendingJoinToken::default, |_| dial.joining.clone());
    let session = SessionStart {
        identity: dial.identity.clone(),
        pinned,
        channel,
        inventory,
        miner_nonce: nonce,
        resumes: resumption.get(),
        join_token,
        unix_seconds: unix_seconds(),
    };
    let start = Start {
        session,
        to_keep,
        resumption: resumption.clone(),
        joining,
        idle_release: dial.idle_release,
        limits: dial.limits.clone(),
        turns: dial.turns.clone(),
    };
    // The validator answers the call only once the hello is there, so both run at once.
    let inbound = Box::pin(open(http, queue));
    let was_let_in = resumption.get().is_some();
    let driven = match drive(start, engine.clone(), inbound, outbox, shutdown, observer).await {
        // Records that were replaced may come back.
        Ok(closed) if closed.asks_for_token() && was_let_in => Ok(closed),
        Ok(closed) if closed.needs_operator() && is_authenticated => return Err(ConnectionError::Operator(closed)),
        driven => driven,
    };
    let is_remote = !dial.reach.address().is_loopback();
    let advice = first_byte.advice(is_remote).filter(|_| channel == Channel::Plaintext);
    let explained = |why: String| advice.map_or_else(|| why.clone(), |advice| format!("{why}: {advice}"));
    Ok(driven.map_err(|why| ConnectionBreak { why: explained(why), was_open: true }))
}

/// The devices as they are; while another validator's challenge has them, as they were before it.
fn inventory(engine: &Engine, turns: &Turns) -> Result<Inventory, DeviceError> {
    if let Some(asked) = turns.between(|| engine.ask()) {
        return engine.described(asked, 0).map(|(inventory, _)| inventory);
    }
    engine.last_inventory().map_or_else(|| engine.inventory(0), Ok)
}

/// Opens the stream on a channel: sends the messages of the queue, checks those that come in at the edge.
///
/// The call itself runs when the stream is first asked for a message; a broken stream gives its reason and ends.
pub fn open(
    channel: tonic::transport::Channel,
    queue: impl Stream<Item = MinerMessage> + Send + 'static,
) -> impl Stream<Item = Result<ValidatorMessage, String>> + Send {
    let mut client = session_client(channel);
    async_stream::stream! {
        let mut stream = match client.session(queue.map(SessionRequest::from)).await {
            Ok(response) => response.into_inner(),
            Err(status) => {
                yield Err(explain(&status));
                return;
            }
        };
        loop {
            match stream.message().await {
                Ok(Some(message)) => yield ValidatorMessage::try_from(message).map_err(|e| e.to_string()),
                Ok(None) => return,
                Err(status) => {
                    yield Err(explain(&status));
                    return;
                }
            }
        }
    }
}

fn explain(status: &tonic::Status) -> String {
    // The text is written by the validator or by a proxy in its place.
    let message = printable(status.message(), MAX_DETAIL_BYTES);
    format!("the stream broke ({:?}): {}", status.code(), quoted(&message))
}

/// How long to wait after an end, where the validator or another miner with the key says so. `is_own`: it may be this
/// miner's own connection that took over.
fn again_after(closed: &CloseReason, is_own: bool, longest: Duration) -> Option<Duration> {
    if closed.needs_operator() {
        // The server is not authenticated, and may be any program that took the validator's port while it restarts.
        return Some(longest);
    }
    let is_taken = closed.is_takeover() && !is_own;
    closed.retry_after().or_else(|| is_taken.then_some(TAKEN_OVER_PAUSE))
}

/// The delay before the next attempt: the validator's where it named a longer one, and up to a quarter more, so that
/// the miners of a validator do not connect all at once.
fn delay(bounds: (Duration, Duration), failures: u32, asked: Option<Duration>, draw: [u8; 8]) -> Duration {
    let [first, second] = [[draw[0], draw[1], draw[2], draw[3]], [draw[4], draw[5], draw[6], draw[7]]];
    let jitter = f64::from(u32::from_le_bytes(second)) / f64::from(u32::MAX);
    let own = backoff(bounds, failures, first);
    asked.map_or(own, |asked| asked.mul_f64(1.0 + 0.25 * jitter).max(own))
}

/// The delay by the miner's own measure: doubled with every failure, then somewhere in its upper half.
fn backoff((first, longest): (Duration, Duration), failures: u32, draw: [u8; 4]) -> Duration {
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(longest);
    let jitter = f64::from(u32::from_le_bytes(draw)) / f64::from(u32::MAX);
    doubled.mul_f64(0.5 + 0.5 * jitter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_protocol::message::{RefusedCode, StopCode};

    #[test]
    fn the_delay_doubles_up_to_the_longest_and_is_jittered() {
        let bounds = (Duration::from_secs(1), Duration::from_secs(60));
        let longest = |failures| backoff(bounds, failures, [255; 4]);
        assert_eq!(longest(1), Duration::from_secs(1));
        assert_eq!(longest(4), Duration::from_secs(8));
        assert_eq!(longest(7), Duration::from_secs(60));
        assert_eq!(longest(u32::MAX), Duration::from_secs(60));
        assert_eq!(backoff(bounds, 4, [0; 4]), Duration::from_secs(4));
    }

    /// A copy of the key neither stops a miner for good nor has the two take over from each other all the time.
    #[test]
    fn a_miner_that_was_taken_over_comes_back_after_a_pause() {
        let taken = CloseReason::Goodbye { code: StopCode::Busy, detail: String::new() };
        assert!(!taken.needs_operator());
        let again_after = |closed: &CloseReason, is_own| again_after(closed, is_own, Duration::from_secs(30));
        assert_eq!([false, true].map(|is_own| again_after(&taken, is_own)), [Some(TAKEN_OVER_PAUSE), None]);
        let drains = CloseReason::Goodbye { code: StopCode::Draining, detail: String::new() };
        assert_eq!(again_after(&drains, false), None);
        let hour = Some(Duration::from_secs(3600));
        let refused = CloseReason::Refused { code: RefusedCode::NotAllowed, detail: String::new(), retry_after: hour };
        assert_eq!(again_after(&refused, false), Some(Duration::from_secs(30)), "of a server that may be any");
    }

    #[test]
    fn a_validator_that_says_when_is_not_dialled_before() {
        let (bounds, s) = ((Duration::from_secs(1), Duration::from_secs(60)), Duration::from_secs);
        assert_eq!(delay(bounds, 1, Some(s(40)), [0; 8]), s(40));
        assert_eq!(delay(bounds, 1, Some(s(40)), [255; 8]), s(50));
        assert_eq!(delay(bounds, 7, Some(s(10)), [255; 8]), s(60), "its own delay is longer");
        assert_eq!(delay(bounds, 1, None, [255; 8]), s(1));
    }
}
