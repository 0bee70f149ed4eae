//! Every bound on what miners, and those who never become one, may take of a validator's network side: connections,
//! handshakes, requests, bytes, frames, messages, challenges at once, checks, log lines.
//!
//! docs/limits.md has them in one table for operators, with what a peer sees. The bounds of single messages are in
//! `wire/limits.rs` of the protocol, those of a challenge's deadlines in `run/limits.rs`.

use std::time::Duration;

use assay_protocol::wire::limits::{MAX_HANDSHAKE_BYTES, MAX_MESSAGE_BYTES};

use crate::rates::Rate;

// What an operator chooses: defaults, and the most that may be chosen.

/// The most miners at once: each costs a connection, a task and its queues.
pub const MAX_MINERS: u32 = 65_536;
/// Connections without a session, where an operator does not say: a fleet's handshakes after a restart. Shutting their
/// windows, as many took 88 MiB.
pub const DEFAULT_HANDSHAKES: u32 = 128;
/// The most connections without a session that an operator may choose.
pub const MAX_HANDSHAKES: u32 = 4096;
/// The part of `max_miners` that one address may have where anyone may connect and the operator does not say: keys cost
/// nothing, addresses do.
pub const ADDRESS_PART: u32 = 8;
/// But not fewer: many hosts share an address behind NAT.
pub const MIN_ADDRESS_MINERS: u32 = 16;
/// New connections of one address in a second, where an operator does not say: an honest miner dials twice a second at
/// most, a TLS handshake costs up to a millisecond of a core.
pub const DEFAULT_ADDRESS_CONNECTS_PER_S: u32 = 20;
/// New connections in a second over all addresses, where an operator does not say: a fifth of a core for TLS.
pub const DEFAULT_CONNECTS_PER_S: u32 = 200;
/// The most new connections in a second that an operator may choose.
pub const MAX_CONNECTS_PER_S: u32 = 100_000;
/// Seconds of connections that may come at once: a fleet that comes back after a restart.
pub const CONNECT_BURST_S: u32 = 10;
/// Challenges at once, where an operator does not say: openings of 20 MB each in 120 s are 90 Mbit/s.
pub const DEFAULT_CHALLENGES: u32 = 64;

// Connections.

/// How long a connection may stand without a session: long enough for a slow handshake and for health checks, short
/// enough that nobody keeps one.
pub const STRANGER_LIMIT: Duration = Duration::from_secs(30);
/// Bytes that a connection without a session may send: two of the largest hellos, and health checks.
pub const MAX_STRANGER_BYTES: usize = 4 * MAX_HANDSHAKE_BYTES;
/// Requests that a connection without a session may make: health checks, a query of the services.
pub const MAX_STRANGER_REQUESTS: u32 = 32;
/// Handshakes that a connection may have under way at a time: it carries one session.
pub const MAX_HANDSHAKES_AT_ONCE: usize = 1;
/// Handshakes that a connection may try without ever having a session: each costs a signature.
pub const MAX_HANDSHAKE_TRIES: u32 = 4;
/// Connections that were told to close and still stand: their tasks have not run since.
pub const MAX_CLOSING: usize = 64;
/// Addresses whose rates are remembered. More than these at a time share the rate of one.
pub const MAX_ADDRESSES: usize = 16_384;
/// Addresses that a miner had a session from, remembered as known: they do not share in the rate over all addresses.
pub const MAX_KNOWN_ADDRESSES: usize = 4096;
/// Connections of one address that are too many and are told so, instead of being closed at once.
pub const TOLD_PER_ADDRESS: Rate = Rate::new(1, 5);
/// The same over all addresses.
pub const TOLD: Rate = Rate::new(10, 50);
/// Sessions of one key: an honest miner that fails doubles its pauses, and has 8 in its first minute.
pub const SESSIONS_PER_KEY: Rate = Rate::every(Duration::from_secs(5), 20);
/// Keys whose sessions are counted. More than these at a time share the rate of one.
pub const MAX_COUNTED_KEYS: usize = 16_384;

// HTTP/2.

/// HTTP/2 streams of one connection: a session, a health watch, a reflection query.
pub const MAX_STREAMS: u32 = 4;
/// Bytes of headers: gRPC's own take a few hundred.
pub const MAX_HEADER_BYTES: u32 = 8 << 10;
/// The window of one stream and of a connection: one of the largest messages, so that one peer cannot make the server
/// hold more.
pub const STREAM_WINDOW: u32 = MAX_MESSAGE_BYTES as u32;
/// How often HTTP/2 tries an idle connection.
pub const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long its answer may take.
pub const KEEPALIVE_LIMIT: Duration = Duration::from_secs(20);
/// Streams that a peer reset and that were not served yet: an honest miner resets none.
pub const MAX_RESET_STREAMS: usize = 8;
/// Frames with less than [`LARGE_FRAME_BYTES`] of data that a connection may send, in a second and at once. The openings
/// of the largest challenge end 8192 items with a frame each.
pub const FRAMES: Rate = Rate::new(2048, 32_768);
/// What a frame that is no data counts: 256 in a second, 4096 at once. An honest miner sends a few in a minute.
pub const CONTROL_FRAME_COST: u32 = 8;
/// Bytes of a frame of data that counts nothing: its bytes are counted.
pub const LARGE_FRAME_BYTES: usize = 1024;
/// Bytes of a connection with a session, in a second and at once: 268 Mbit/s. Whoever sends faster is read later.
pub const BYTES: Rate = Rate::new(32 << 20, 16 << 20);
/// Bytes of a request to the services beside the session's.
pub const MAX_QUERY_BYTES: usize = 4 << 10;

// Messages of a session.

/// Messages read ahead of a session: one, since each may be 4 MiB and more once it is decoded.
pub const MAX_INCOMING_MESSAGES: usize = 1;
/// Messages ready to go out: the session sends a handful in a row, and none is large.
pub const MAX_OUTGOING_MESSAGES: usize = 16;
/// How long a message may wait for the connection: longer means that the miner does not read.
pub const SEND_LIMIT: Duration = Duration::from_secs(10);
/// How long the handshake may take: three small messages on a slow link.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(15);
/// Ping intervals without any message after which the miner counts as gone. Any message counts: on a slow link
/// openings queue before the pong.
pub const MISSED_PINGS: u32 = 3;
/// Messages between two pings, openings aside: far more than an honest miner sends.
pub const MAX_MESSAGES_PER_PING: u32 = 1000;
/// Challenges remembered after their end, for messages that crossed it on the way.
pub const MAX_ENDED: usize = 8;

// Overload.

/// How long a check may wait for a core: longer means that we have too much to do.
pub const CHECK_WAIT_LIMIT: Duration = Duration::from_secs(60);

/// For how long this process may be held up before a time that was measured meanwhile is not held against a miner.
pub const HELD_UP_LIMIT: Duration = Duration::from_millis(250);

// The HTTP API.

/// Connections to the HTTP API: each is a task with its buffers, at most 100 KiB.
pub const MAX_HTTP_CONNECTIONS: usize = 512;
/// The same from one address (IPv6: one /64 network) of another machine: a browser opens six, a script a handful.
pub const MAX_HTTP_ADDRESS_CONNECTIONS: usize = 64;
/// Connections to the control socket, which only the daemon's user can open: a mistake in a script ends there.
pub const MAX_SOCKET_CONNECTIONS: usize = 256;
/// Until the headers of a request, or a TLS handshake, must be there: seconds on a slow link.
pub const HTTP_HEADER_LIMIT: Duration = Duration::from_secs(10);
/// How long a connection may stand without a request: clients open a new one for less than it costs to keep one.
pub const HTTP_IDLE_LIMIT: Duration = Duration::from_secs(60);
/// How long a client may leave what was sent unread.
pub const HTTP_WRITE_LIMIT: Duration = Duration::from_secs(30);
/// How long an answer that ends may take to be read: the largest evidence at 10 Mbit/s.
pub const HTTP_RESPONSE_LIMIT: Duration = Duration::from_secs(600);
/// How long a request may wait for its answer to begin, its body included: the slowest list takes seconds.
pub const HTTP_REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of a request's headers: a cookie, a token, and what a browser adds.
pub const MAX_HTTP_HEADER_BYTES: usize = 16 << 10;
/// Headers of a request: browsers send twenty.
pub const MAX_HTTP_HEADERS: usize = 64;
/// HTTP/2 streams of a connection to the HTTP API: the requests of a page, and its events.
pub const MAX_HTTP_STREAMS: u32 = 32;
/// Bytes of a request's body: the longest has 32 labels.
pub const MAX_BODY_BYTES: usize = 64 << 10;
/// Requests that are worked on at once over all callers from other processes: more wait for their turn.
pub const MAX_REQUESTS_AT_ONCE: usize = 64;
/// Requests of one address, and of one token, in a second and at once: a page is ten requests.
pub const REQUESTS: Rate = Rate::new(200, 1000);
/// Requests of one address with a wrong token, code or cookie: nobody guesses 256 bits, but the log stays readable.
pub const FAILED_LOGINS: Rate = Rate::new(5, 50);
/// Streams of events at once: pages that are open, and programs that follow.
pub const MAX_EVENT_STREAMS: usize = 256;
/// The same of one caller.
pub const MAX_CALLER_EVENT_STREAMS: usize = 32;
/// How often a stream of events shows that it stands, and looks whether its caller may still read.
pub const EVENT_STREAM_INTERVAL: Duration = Duration::from_secs(15);
/// Challenges whose course is kept for those who began them; the oldest makes room.
pub const MAX_WATCHED: usize = 256;
/// How long the course of a challenge is kept after its end, for whoever lost its connection.
pub const WATCHED_LIMIT: Duration = Duration::from_secs(300);
/// Downloads of evidence at once: each has a copy in a temporary file.
pub const MAX_DOWNLOADS: usize = 4;
/// Bytes of a part of a download that are read at once.
pub const EVIDENCE_PART_BYTES: usize = 256 << 10;
/// Rounds that operators began and that run: each has a task, and its members wait for places.
pub const MAX_ROUNDS_AT_ONCE: usize = 4;
/// Documents of one page of a list: a page of verdicts has some MiB.
pub const MAX_PAGE: u32 = 1000;
/// Logins of pages that stand; the oldest makes room.
pub const MAX_LOGINS: usize = 256;
/// How long a login of a page lasts: a working day.
pub const LOGIN_LIMIT: Duration = Duration::from_secs(12 * 3600);
/// How long a code to log in with can be used: until a browser has opened its link.
pub const LOGIN_CODE_LIMIT: Duration = Duration::from_secs(60);
/// Codes to log in with that were not used yet; the oldest makes room.
pub const MAX_LOGIN_CODES: usize = 16;

// The log.

/// Log lines about the connections and sessions of one address.
pub const LINES_PER_ADDRESS: Rate = Rate::new(1, 100);
/// The same over all addresses.
pub const LINES: Rate = Rate::new(20, 1000);
/// How often an operator is told how many connections were turned away and how many lines left out.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The bounds on connections that an operator chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Miners at once, each with a proved key.
    pub max_miners: u32,
    /// Miners at once from one address; `None`: by who may connect.
    pub max_address_miners: Option<u32>,
    /// Connections without a session.
    pub max_handshakes: u32,
    /// New connections of one address in a second; `None`: as many as come.
    pub address_connects_per_s: Option<u32>,
    /// New connections in a second over all addresses that no miner had a session from; `None`: as many as come.
    pub connects_per_s: Option<u32>,
    /// Challenges at once over all miners.
    pub max_challenges: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            max_miners: 256,
            max_address_miners: None,
            max_handshakes: DEFAULT_HANDSHAKES,
            address_connects_per_s: Some(DEFAULT_ADDRESS_CONNECTS_PER_S),
            connects_per_s: Some(DEFAULT_CONNECTS_PER_S),
            max_challenges: DEFAULT_CHALLENGES,
        }
    }
}

impl Bounds {
    /// Miners at once from one address. Where anyone may connect, one host could take all places with keys it made.
    #[must_use]
    pub fn address_miners(&self, is_open: bool) -> u32 {
        let part = (self.max_miners / ADDRESS_PART).max(MIN_ADDRESS_MINERS);
        self.max_address_miners.unwrap_or(if is_open { part } else { self.max_miners }).min(self.max_miners)
    }

    /// Connections that may stand: of miners, of those without a session, and those that are being closed.
    #[must_use]
    pub const fn connections(&self) -> usize {
        self.max_miners as usize + self.max_handshakes as usize + MAX_CLOSING
    }
}
