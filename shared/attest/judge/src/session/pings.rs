//! Pings: whether the miner is present, whether it reads, and its round trip.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use assay_protocol::message::ValidatorMessage;

use crate::action::{Action, SentAt};
use crate::entropy::Entropy;

/// Pings in flight: on a slow link pongs wait behind openings for minutes, and a miner that hears no pings leaves.
const MAX_PINGS: usize = 64;
/// Times of the pings after a message with a deadline, which show whether the miner reads. The transport takes ready
/// messages together, and then one ahead of a closed window, so that more than one ping is needed, one after the other.
pub(super) const FOLLOW_UP_PINGS: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(200)];
/// Round trips remembered; the least of them is shown, as the one least disturbed by load.
const MAX_ROUND_TRIPS: usize = 8;

/// Pings in flight, and their round trips.
#[derive(Debug, Default)]
pub(super) struct Pings {
    pub(super) last: Option<Instant>,
    /// Due times of the pings behind a message with a deadline.
    pub(super) follow_ups: VecDeque<Instant>,
    waiting: VecDeque<Ping>,
    round_trips: VecDeque<Duration>,
}

/// An unanswered ping.
#[derive(Debug)]
struct Ping {
    sequence: u64,
    handed_over: Instant,
    sent: SentAt,
}

impl Pings {
    /// Due time of the next ping; `None` before the first, which is due at once.
    pub(super) fn due(&self, interval: Duration) -> Option<Instant> {
        self.last.map(|last| last + interval)
    }

    /// The next ping; `None` at [`MAX_PINGS`] unanswered ones, or without random bytes: a miner that can predict a
    /// sequence could answer early.
    pub(super) fn send(&mut self, now: Instant, entropy: &mut dyn Entropy) -> Option<Action> {
        if self.waiting.len() >= MAX_PINGS {
            return None;
        }
        let sequence = entropy.below(u64::MAX).ok()?;
        let sent = SentAt::default();
        self.waiting.push_back(Ping { sequence, handed_over: now, sent: sent.clone() });
        Some(Action::Send(ValidatorMessage::Ping(sequence), sent))
    }

    /// Hand-over time of the oldest ping that the transport has not taken.
    pub(super) fn unread_since(&self) -> Option<Instant> {
        self.waiting.iter().find(|ping| ping.sent.get().is_none()).map(|unread| unread.handed_over)
    }

    /// Returns the round trip of a ping; `None` when it is not in flight.
    ///
    /// Behind openings a pong waits for the link: such a round trip does not predict another message's, and is not
    /// kept.
    pub(super) fn answered(&mut self, sequence: u64, received: Instant, keep: bool) -> Option<Duration> {
        let place = self.waiting.iter().position(|ping| ping.sequence == sequence)?;
        let sent = self.waiting[place].sent.get()?;
        // Pongs come in order: earlier pings count as answered too.
        self.waiting.drain(..=place);
        let round_trip = received.saturating_duration_since(sent);
        if keep || self.round_trips.is_empty() {
            self.round_trips.push_back(round_trip);
        }
        if self.round_trips.len() > MAX_ROUND_TRIPS {
            self.round_trips.pop_front();
        }
        Some(round_trip)
    }

    pub(super) fn least(&self) -> Option<Duration> {
        self.round_trips.iter().min().copied()
    }
}
