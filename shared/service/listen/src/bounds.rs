//! Every bound on the resources that miners and other peers may take of a validator's network side: connections,
//! handshakes, requests, bytes, frames, messages, challenges at once, checks, log lines.
//!
//! docs/limits.md has them in one table for operators, with their effect on a peer. The bounds of single messages are
//! in `wire/limits.rs` of the protocol, those of sessions and of a challenge's deadlines in `bounds.rs` and
//! `run/limits.rs` of the judge.

use std::time::Duration;

use assay_protocol::wire::limits::{MAX_HANDSHAKE_BYTES, MAX_MESSAGE_BYTES};

use crate::rates::RateLimit;

// Settings of an operator: defaults and maxima.

/// The most miners at once: each costs a connection, a task and its queues.
pub const MAX_MINERS: u32 = 65_536;
/// Default part of `max_miners` for one address where anyone may connect: keys cost nothing, addresses do.
pub const ADDRESS_PART: u32 = 8;
/// The least such part: many hosts share an address behind NAT.
pub const MIN_ADDRESS_MINERS: u32 = 16;
/// Default rate of new connections of one address per second: an honest miner dials twice a second at most, a TLS
/// handshake costs up to a millisecond of a core.
pub const DEFAULT_ADDRESS_CONNECTS_PER_S: u32 = 20;
/// Default rate of new connections per second over all addresses: a fifth of a core for TLS.
pub const DEFAULT_CONNECTS_PER_S: u32 = 200;
/// The largest configurable rate of new connections per second.
pub const MAX_CONNECTS_PER_S: u32 = 100_000;
/// Burst of connections, in seconds of the rate: a fleet that reconnects after a restart.
pub const CONNECT_BURST_S: u32 = 10;
/// Default limit on concurrent challenges: openings of 20 MB each in 120 s are 90 Mbit/s.
pub const DEFAULT_CHALLENGES: u32 = 64;

// Connections.

/// The longest life of a connection without a session: enough for a slow handshake and for health checks, too short to
/// hoard.
pub const STRANGER_LIMIT: Duration = Duration::from_secs(30);
/// The most bytes of a connection without a session: two of the largest hellos, and health checks.
pub const MAX_STRANGER_BYTES: usize = 4 * MAX_HANDSHAKE_BYTES;
/// The most requests of a connection without a session: health checks, a query of the services.
pub const MAX_STRANGER_REQUESTS: u32 = 32;
/// The most concurrent handshakes of a connection: it carries one session.
pub const MAX_HANDSHAKES_AT_ONCE: usize = 1;
/// The most handshakes of a connection without any session: each costs a signature.
pub const MAX_HANDSHAKE_TRIES: u32 = 4;
/// The most connections that were asked to close and still exist: their tasks have not run since.
pub const MAX_CLOSING: usize = 64;
/// The most addresses whose rates are remembered. Further ones share one rate.
pub const MAX_ADDRESSES: usize = 16_384;
/// The most addresses of former sessions remembered: they are exempt from the rate over all addresses.
pub const MAX_KNOWN_ADDRESSES: usize = 4096;
/// Refused connections of one address that get an answer, instead of being closed at once.
pub const TOLD_PER_ADDRESS: RateLimit = RateLimit::new(1, 5);
/// Refused connections over all addresses that get an answer.
pub const TOLD: RateLimit = RateLimit::new(10, 50);
/// Sessions of one key: an honest miner that fails doubles its pauses, and has 8 in its first minute.
pub const SESSIONS_PER_KEY: RateLimit = RateLimit::every(Duration::from_secs(5), 20);
/// The most keys whose sessions are counted. Further ones share one rate.
pub const MAX_COUNTED_KEYS: usize = 16_384;

// HTTP/2.

/// The most HTTP/2 streams of one connection: a session, a health watch, a reflection query.
pub const MAX_STREAMS: u32 = 4;
/// The most bytes of headers: gRPC's own take a few hundred.
pub const MAX_HEADER_BYTES: u32 = 8 << 10;
/// The window of one stream and of a connection: one of the largest messages, so that one peer cannot make the server
/// hold more.
pub const STREAM_WINDOW: u32 = MAX_MESSAGE_BYTES as u32;
/// Interval of HTTP/2 pings on an idle connection.
pub const KEEPALIVE: Duration = Duration::from_secs(10);
/// Time limit of their answer.
pub const KEEPALIVE_LIMIT: Duration = Duration::from_secs(20);
/// The most streams that a peer reset before they were served: an honest miner resets none.
pub const MAX_RESET_STREAMS: usize = 8;
/// Rate and burst of a connection's frames with less than [`LARGE_FRAME_BYTES`] of data. The openings of the largest
/// challenge end 8192 items with a frame each.
pub const FRAMES: RateLimit = RateLimit::new(2048, 32_768);
/// Rate and burst of frames on the HTTP API, where a downloading client returns its window in frames: 2048 control
/// frames in a second, 8192 at once.
pub const HTTP_FRAMES: RateLimit = RateLimit::new(16_384, 65_536);
/// Cost of a control frame: 256 in a second, 4096 at once. An honest miner sends a few in a minute.
pub const CONTROL_FRAME_COST: u32 = 8;
/// Bytes from which a data frame costs nothing: its bytes are counted.
pub const LARGE_FRAME_BYTES: usize = 1024;
/// Rate and burst of a session's connection in bytes: 268 Mbit/s. Faster senders are throttled.
pub const BYTES: RateLimit = RateLimit::new(32 << 20, 16 << 20);
/// The most bytes of a request to the services beside the session's.
pub const MAX_QUERY_BYTES: usize = 4 << 10;

// Messages of a session.

/// Messages read ahead of a session: one, since each may be 4 MiB and more once decoded.
pub const MAX_INCOMING_MESSAGES: usize = 1;
/// Messages queued for sending: the session sends a handful in a row, and each is small.
pub const MAX_OUTGOING_MESSAGES: usize = 16;
/// The longest wait of a message for the connection: longer means that the miner does not read.
pub const SEND_LIMIT: Duration = Duration::from_secs(10);
/// Rate of recorded changes of a session's devices: a host whose driver restarts has a handful, and each is a
/// transaction.
pub const DEVICE_CHANGES: RateLimit = RateLimit::every(Duration::from_secs(60), 16);

// Overload.

/// The longest wait of a check for a core: longer means that the validator is overloaded.
pub const CHECK_WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Delay of this process from which times measured meanwhile do not count against a miner.
pub const HELD_UP_LIMIT: Duration = Duration::from_millis(250);

// The HTTP API.

/// The most connections to the HTTP API: each is a task with its buffers, at most 100 KiB.
pub const MAX_HTTP_CONNECTIONS: usize = 512;
/// The most connections from one address (IPv6: one /64 network) of another machine: a browser opens six, a script a
/// handful.
pub const MAX_HTTP_ADDRESS_CONNECTIONS: usize = 64;
/// Rate and burst of new connections from one address of another machine: each may cost a TLS handshake.
pub const HTTP_ADDRESS_CONNECTS: RateLimit = RateLimit::new(50, 200);
/// The most connections to the control socket, which only the daemon's user can open: a guard against faulty scripts.
pub const MAX_SOCKET_CONNECTIONS: usize = 256;
/// Time limit for a TLS handshake, and for the headers of a request: seconds on a slow link.
pub const HTTP_HEADER_LIMIT: Duration = Duration::from_secs(10);
/// The longest life of an idle connection: a new one is cheap for the client.
pub const HTTP_IDLE_LIMIT: Duration = Duration::from_secs(60);
/// The longest time that sent data stays unread.
pub const HTTP_WRITE_LIMIT: Duration = Duration::from_secs(30);
/// The longest time to read a finite answer: the largest evidence at 10 Mbit/s.
pub const HTTP_RESPONSE_LIMIT: Duration = Duration::from_secs(600);
/// Time limit of a request's body: at least 6.5 kB/s for the longest. It takes no place meanwhile.
pub const HTTP_BODY_LIMIT: Duration = Duration::from_secs(10);
/// Time limit until an answer begins, from the start of the request: the slowest list takes seconds.
pub const HTTP_REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// The most bytes of a request's headers: a cookie, a token, and a browser's own.
pub const MAX_HTTP_HEADER_BYTES: usize = 16 << 10;
/// The most headers of a request: browsers send twenty.
pub const MAX_HTTP_HEADERS: usize = 64;
/// The most HTTP/2 streams of a connection to the HTTP API: the requests of a page, and its events.
pub const MAX_HTTP_STREAMS: u32 = 32;
/// The most bytes of a request's body: the longest has 32 labels.
pub const MAX_BODY_BYTES: usize = 64 << 10;
/// The most bytes of a body without a credential: a form that logs in.
pub const MAX_STRANGER_BODY_BYTES: usize = 4 << 10;
/// The most concurrent requests over all callers from the network: further ones wait.
pub const MAX_REQUESTS_AT_ONCE: usize = 64;
/// The most of one caller.
pub const MAX_CALLER_REQUESTS: usize = 32;
/// The most concurrent requests without a token or login: signing in, styles and keys.
pub const MAX_STRANGER_REQUESTS_AT_ONCE: usize = 16;
/// The most logins of one token: browsers and windows of one operator. The oldest makes room.
pub const MAX_TOKEN_LOGINS: usize = 16;
/// Rate and burst of requests of one address, and of one token: a page is ten requests.
pub const REQUESTS: RateLimit = RateLimit::new(200, 1000);
/// Rate and burst of wrong tokens, codes or cookies of one address: 256 bits cannot be guessed, but the log stays
/// readable.
pub const FAILED_LOGINS: RateLimit = RateLimit::new(5, 50);
/// The most concurrent streams of events: open pages, and programs that follow.
pub const MAX_EVENT_STREAMS: usize = 256;
/// The most streams of one caller.
pub const MAX_CALLER_EVENT_STREAMS: usize = 32;
/// Interval of a stream's keep-alive, and of checking whether its caller may still read.
pub const EVENT_STREAM_INTERVAL: Duration = Duration::from_secs(15);
/// The most challenges whose course is kept for their callers; the oldest makes room.
pub const MAX_WATCHED: usize = 256;
/// Time for which a challenge's course is kept after its end, for callers that lost their connection.
pub const WATCHED_LIMIT: Duration = Duration::from_secs(300);
/// The most concurrent downloads of evidence: each has a copy in a temporary file.
pub const MAX_DOWNLOADS: usize = 4;
/// Bytes of a download read at once.
pub const EVIDENCE_PART_BYTES: usize = 256 << 10;
/// The most concurrent rounds begun by operators: each has a task, and its members wait for places.
pub const MAX_ROUNDS_AT_ONCE: usize = 4;
/// The most documents on one page of a list: a page of verdicts has some MiB.
pub const MAX_PAGE: u32 = 1000;
/// The most current logins of pages; the oldest makes room.
pub const MAX_LOGINS: usize = 256;
/// Validity of a page's login: a working day.
pub const LOGIN_LIMIT: Duration = Duration::from_secs(12 * 3600);
/// Validity of a login code: until a browser has opened its link.
pub const LOGIN_CODE_LIMIT: Duration = Duration::from_secs(60);
/// The most unused login codes; the oldest makes room.
pub const MAX_LOGIN_CODES: usize = 16;

// The log.

/// Rate and burst of log lines about the connections and sessions of one address.
pub const LINES_PER_ADDRESS: RateLimit = RateLimit::new(1, 100);
/// Rate and burst of such lines over all addresses.
pub const LINES: RateLimit = RateLimit::new(20, 1000);
/// Interval of logging the numbers of refused connections and omitted lines.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Bounds on connections, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionBounds {
    /// The most connected miners, each with a proved key.
    pub max_miners: u32,
    /// The most miners from one address; `None`: [`ConnectionBounds::address_miners`].
    pub max_address_miners: Option<u32>,
    /// New connections of one address per second; `None`: unlimited.
    pub address_connects_per_s: Option<u32>,
    /// New connections per second over all addresses without an earlier session; `None`: unlimited.
    pub connects_per_s: Option<u32>,
    /// The most concurrent challenges over all miners.
    pub max_challenges: u32,
}

impl Default for ConnectionBounds {
    fn default() -> Self {
        Self {
            max_miners: 256,
            max_address_miners: None,
            address_connects_per_s: Some(DEFAULT_ADDRESS_CONNECTS_PER_S),
            connects_per_s: Some(DEFAULT_CONNECTS_PER_S),
            max_challenges: DEFAULT_CHALLENGES,
        }
    }
}

impl ConnectionBounds {
    /// The most miners from one address. Where anyone may connect, one host could otherwise take all places with new
    /// keys.
    pub fn address_miners(&self, is_open: bool) -> u32 {
        let part = (self.max_miners / ADDRESS_PART).max(MIN_ADDRESS_MINERS);
        self.max_address_miners.unwrap_or(if is_open { part } else { self.max_miners }).min(self.max_miners)
    }

    /// The most connections without a session: an eighth of the miners, 128 at least, 4096 at most. Each costs 0.7 MiB at
    /// worst.
    pub const fn handshakes(&self) -> usize {
        let part = self.max_miners as usize / 8;
        if part < 128 {
            128
        } else if part > 4096 {
            4096
        } else {
            part
        }
    }

    /// The most connections: of miners, without a session, and closing ones.
    pub const fn connections(&self) -> usize {
        self.max_miners as usize + self.handshakes() + MAX_CLOSING
    }
}
