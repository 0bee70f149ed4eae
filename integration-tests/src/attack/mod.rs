//! Attacks on a validator of one's own, over real sockets of this machine: each is bounded in count and time.

mod connections;
mod floods;
mod session;
mod slow;
pub mod watch;

use std::io;
use std::time::Duration;

use clap::ValueEnum;

use crate::dialled::Target;

/// The path of the call that a miner makes.
const SESSION: &str = "/assay.v1.SessionService/Session";

/// The size of an attack.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Thousandths of the full counts.
    pub thousandths: u32,
    /// The duration of slow attacks.
    pub time: Duration,
}

impl Scale {
    /// The size in docs/limits.md.
    pub const FULL: Self = Self { thousandths: 1000, time: Duration::from_secs(10) };
    /// The size in tests.
    pub const SHORT: Self = Self { thousandths: 50, time: Duration::from_millis(500) };

    /// A part of a full count, at least one.
    #[must_use]
    pub const fn of(self, count: u32) -> u32 {
        let part = count as u64 * self.thousandths as u64 / 1000;
        if part == 0 { 1 } else { part as u32 }
    }
}

/// An attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Attack {
    /// 5,000 connections that say nothing
    Silence,
    /// 5,000 connections of as many addresses that say nothing
    Crowd,
    /// 1,000 connections a second from one address, each closed at once
    Reconnects,
    /// 1,000 whole handshakes of TLS or HTTP/2 a second from one address
    Handshakes,
    /// 2,000 connections with bytes that are no TLS and no HTTP/2
    Garbage,
    /// 300 TLS handshake messages without end, certificates among them
    EndlessHandshake,
    /// 300 connections whose headers come byte by byte
    SlowHeaders,
    /// 300 headers without end, in frames of their own
    EndlessHeaders,
    /// 300 connections whose first message comes byte by byte
    SlowBodies,
    /// 300 calls of four streams each that take no byte of the answer
    SlowWindows,
    /// 20,000 calls that are reset at once
    RapidReset,
    /// 200,000 pings
    Pings,
    /// 100,000 settings
    Settings,
    /// 200,000 window updates
    WindowUpdates,
    /// 200,000 frames of data with one byte
    TinyData,
    /// 50 miners that never read
    NeverRead,
    /// 16 miners that send messages of 4 MiB of empty list entries, and hellos of 64 KiB of them
    HugeLists,
    /// 16 miners that pad messages to 4 MiB
    PaddedMessages,
    /// 4 miners whose openings never end
    EndlessOpenings,
}

impl Attack {
    /// Whether it makes sense with TLS, or only with it, or only without.
    #[must_use]
    pub const fn fits(self, is_tls: bool) -> bool {
        match self {
            Self::EndlessHandshake => is_tls,
            // The miner that it is made of speaks plaintext.
            Self::EndlessOpenings => !is_tls,
            _ => true,
        }
    }

    /// Carries the attack out; gives the count of its connections, streams or messages.
    ///
    /// # Errors
    /// This machine lacks a resource of the attack, such as open files.
    pub async fn run(self, target: Target, scale: Scale) -> io::Result<u32> {
        match self {
            Self::Silence => connections::silence(target, scale, false).await,
            Self::Crowd => connections::silence(target, scale, true).await,
            Self::Reconnects => connections::reconnects(target, scale, false).await,
            Self::Handshakes => connections::reconnects(target, scale, true).await,
            Self::Garbage => connections::garbage(target, scale).await,
            Self::EndlessHandshake => connections::endless_handshake(target, scale).await,
            Self::SlowHeaders => slow::headers(target, scale).await,
            Self::EndlessHeaders => slow::endless_headers(target, scale).await,
            Self::SlowBodies => slow::bodies(target, scale).await,
            Self::SlowWindows => slow::windows(target, scale).await,
            Self::RapidReset => floods::rapid_reset(target, scale).await,
            Self::Pings => floods::pings(target, scale).await,
            Self::Settings => floods::settings(target, scale).await,
            Self::WindowUpdates => floods::window_updates(target, scale).await,
            Self::TinyData => floods::tiny_data(target, scale).await,
            Self::NeverRead => session::never_read(target, scale).await,
            Self::HugeLists => session::huge_lists(target, scale).await,
            Self::PaddedMessages => session::padded_messages(target, scale).await,
            Self::EndlessOpenings => session::endless_openings(target, scale).await,
        }
    }
}
