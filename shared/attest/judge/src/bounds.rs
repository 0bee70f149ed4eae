//! Bounds on the messages of a session.

use std::time::Duration;

/// Time limit of the handshake: three small messages on a slow link.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(15);
/// Ping intervals without any message after which the miner counts as gone. Any message counts: on a slow link
/// openings queue before the pong.
pub const MISSED_PINGS: u32 = 3;
/// Messages between two pings, openings aside: far more than an honest miner sends.
pub const MAX_MESSAGES_PER_PING: u32 = 1000;
/// Challenges remembered after their end, for messages that crossed it on the way.
pub const MAX_ENDED: usize = 8;
