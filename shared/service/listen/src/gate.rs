//! Admission of connections, and rates of sessions by key: rates of each address and of all, checked before any work is
//! done for a connection.
//!
//! An address over its rate costs only an accepted socket: no TLS, no HTTP/2, no task. A few are let in anyway, to get
//! the time of a retry. Addresses of former sessions are exempt from the rate over all, so that a crowd of strangers
//! does not exclude a miner that lost its connection.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use assay_transport::origin::origin;
use assay_work::PublicKey;
use parking_lot::Mutex;

use crate::bounds::{
    CONNECT_BURST_S, ConnectionBounds, LINES, LINES_PER_ADDRESS, MAX_ADDRESSES, MAX_COUNTED_KEYS, MAX_KNOWN_ADDRESSES,
    SESSIONS_PER_KEY, TOLD, TOLD_PER_ADDRESS,
};
use crate::intake::ExcessData;
use crate::rates::{Bucket, Buckets, RateLimit};

/// Decision on a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entrance {
    /// It may begin a session.
    Open,
    /// Refused with an answer to come back later.
    Overloaded,
    /// Refused and closed.
    Closed,
}

/// The rates, and counts of refused connections.
#[derive(Debug)]
pub struct Gate(Mutex<GateState>);

#[derive(Debug)]
struct GateState {
    /// New connections of each address; `None`: unlimited.
    connects: Option<Buckets<IpAddr>>,
    /// New connections over all unknown addresses; `None`: unlimited.
    all_connects: Option<Bucket>,
    told: Buckets<IpAddr>,
    all_told: Bucket,
    known: HashMap<IpAddr, Instant>,
    sessions: Buckets<PublicKey>,
    /// By the miner's seat: a key that is refused takes none of its miner's.
    seats: Buckets<PublicKey>,
    lines: Buckets<IpAddr>,
    all_lines: Bucket,
    report: Report,
    /// Sum of all earlier reports.
    reported: Report,
}

/// Counts of refused connections and omitted lines since the last report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Connections over the rate of their address.
    pub over_address_rate: u64,
    /// Connections over the rate of all addresses.
    pub over_rate: u64,
    /// The address with the most consecutive refusals of the first kind, and their count.
    pub busiest: Option<(IpAddr, u64)>,
    /// Connections without a session that were closed for newer ones.
    pub made_room: u64,
    /// Connections that were closed for excess data.
    pub sent_too_much: u64,
    /// Omitted log lines.
    pub lines_left_out: u64,
}

impl Gate {
    /// Creates the gate with these bounds.
    pub fn new(bounds: &ConnectionBounds, now: Instant) -> Self {
        let rate = |per_s: u32| RateLimit::new(per_s, per_s.saturating_mul(CONNECT_BURST_S));
        Self(Mutex::new(GateState {
            connects: bounds.address_connects_per_s.map(|per_s| Buckets::new(rate(per_s), MAX_ADDRESSES, now)),
            all_connects: bounds.connects_per_s.map(|per_s| Bucket::full(rate(per_s), now)),
            told: Buckets::new(TOLD_PER_ADDRESS, MAX_ADDRESSES, now),
            all_told: Bucket::full(TOLD, now),
            known: HashMap::new(),
            sessions: Buckets::new(SESSIONS_PER_KEY, MAX_COUNTED_KEYS, now),
            seats: Buckets::new(SESSIONS_PER_KEY, MAX_COUNTED_KEYS, now),
            lines: Buckets::new(LINES_PER_ADDRESS, MAX_ADDRESSES, now),
            all_lines: Bucket::full(LINES, now),
            report: Report::default(),
            reported: Report::default(),
        }))
    }

    /// Decides on a new connection of an address.
    pub fn admit(&self, origin: IpAddr, now: Instant) -> Entrance {
        let mut state = self.0.lock();
        if let Some(Err(refused)) = state.connects.as_mut().map(|connects| connects.take(origin, now)) {
            state.report.over_address_rate += 1;
            if state.report.busiest.is_none_or(|(_, count)| refused.count > count) {
                state.report.busiest = Some((origin, refused.count));
            }
            return state.turn_away(origin, now);
        }
        let is_known = state.known.contains_key(&origin);
        if let Some(Err(_)) = state.all_connects.as_mut().filter(|_| !is_known).map(|all| all.take(now)) {
            state.report.over_rate += 1;
            return state.turn_away(origin, now);
        }
        Entrance::Open
    }

    /// Whether an address had a session.
    pub fn is_known(&self, origin: IpAddr) -> bool {
        self.0.lock().known.contains_key(&origin)
    }

    /// Records an address of a session.
    pub fn knows(&self, origin: IpAddr, now: Instant) {
        let mut state = self.0.lock();
        if state.known.len() >= MAX_KNOWN_ADDRESSES && !state.known.contains_key(&origin) {
            let oldest = state.known.iter().min_by_key(|(_, at)| **at).map(|(origin, _)| *origin);
            oldest.map(|oldest| state.known.remove(&oldest));
        }
        state.known.insert(origin, now);
    }

    /// Counts a session of a proved key.
    ///
    /// # Errors
    /// The wait until the key may begin the next one.
    pub fn begin_session(&self, key: PublicKey, now: Instant) -> Result<(), Duration> {
        self.0.lock().sessions.take(key, now).map(|_| ()).map_err(|refused| refused.until)
    }

    /// Counts a session of a miner that is admitted, with any of its keys.
    ///
    /// # Errors
    /// The wait until the miner may begin the next one.
    pub fn take_seat(&self, seat: PublicKey, now: Instant) -> Result<(), Duration> {
        self.0.lock().seats.take(seat, now).map(|_| ()).map_err(|refused| refused.until)
    }

    /// Counts a connection without a session that was closed for a newer one.
    pub fn made_room(&self) {
        self.0.lock().report.made_room += 1;
    }

    /// Counts a connection closed for excess data, and logs it if its address has a line left.
    pub fn sent_too_much(&self, address: SocketAddr, why: ExcessData) {
        self.0.lock().report.sent_too_much += 1;
        if let Some(LogPermit { left_out }) = self.line(Some(address)) {
            tracing::info!(%address, left_out, "connection closed: {why}");
        }
    }

    /// Returns a log line about the connections and sessions of an address, if one is left.
    pub fn line(&self, address: Option<SocketAddr>) -> Option<LogPermit> {
        let (mut state, now) = (self.0.lock(), Instant::now());
        let own = address.map_or(Ok(0), |address| state.lines.take(origin(address.ip()), now)).ok();
        let left_out = own.filter(|_| state.all_lines.take(now).is_ok());
        state.report.lines_left_out += u64::from(left_out.is_none());
        left_out.map(|count| LogPermit { left_out: Some(count).filter(|count| *count > 0) })
    }

    /// The counts since the last report.
    pub fn report(&self) -> Report {
        let mut state = self.0.lock();
        state.reported = state.reported.and(&state.report);
        std::mem::take(&mut state.report)
    }

    /// The counts since the start.
    pub fn totals(&self) -> Report {
        let state = self.0.lock();
        state.reported.and(&state.report)
    }
}

impl GateState {
    /// Refuses a connection, with an answer or without.
    fn turn_away(&mut self, origin: IpAddr, now: Instant) -> Entrance {
        let is_told = self.told.take(origin, now).is_ok() && self.all_told.take(now).is_ok();
        if is_told { Entrance::Overloaded } else { Entrance::Closed }
    }
}

/// Permission for a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPermit {
    /// Number of lines about the same address omitted before it, if any.
    pub left_out: Option<u64>,
}

impl Report {
    /// The sum of both, without the busiest address.
    const fn and(&self, other: &Self) -> Self {
        Self {
            over_address_rate: self.over_address_rate + other.over_address_rate,
            over_rate: self.over_rate + other.over_rate,
            busiest: None,
            made_room: self.made_room + other.made_room,
            sent_too_much: self.sent_too_much + other.sent_too_much,
            lines_left_out: self.lines_left_out + other.lines_left_out,
        }
    }

    /// Logs the report, unless it is empty.
    pub fn tell(&self) {
        if *self != Self::default() {
            tracing::warn!("in the last minute: {self}");
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { over_address_rate, over_rate, busiest, made_room, sent_too_much, lines_left_out } = *self;
        let most = busiest.map_or_else(String::new, |(origin, _)| format!(", most of {origin}"));
        let parts = [
            (over_address_rate, format!("connections over the rate of their address{most}")),
            (over_rate, "connections over the rate of all addresses".to_owned()),
            (made_room, "connections without a session closed for newer ones".to_owned()),
            (sent_too_much, "connections closed for what they sent".to_owned()),
            (lines_left_out, "log lines left out".to_owned()),
        ];
        let parts: Vec<_> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(n, what)| format!("{n} {what}")).collect();
        f.write_str(&parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + number).to_be_bytes())
    }

    fn gate(now: Instant) -> Gate {
        let bounds = ConnectionBounds {
            address_connects_per_s: Some(2),
            connects_per_s: Some(10),
            ..ConnectionBounds::default()
        };
        Gate::new(&bounds, now)
    }

    #[test]
    fn an_address_over_its_rate_is_told_a_few_times_and_then_closed() {
        let now = Instant::now();
        let gate = gate(now);
        let entrances: Vec<_> = (0..1000).map(|_| gate.admit(host(1), now)).collect();
        let count = |kind| entrances.iter().filter(|entrance| **entrance == kind).count();
        assert_eq!((count(Entrance::Open), count(Entrance::Overloaded), count(Entrance::Closed)), (20, 5, 975));
        assert_eq!(gate.admit(host(2), now), Entrance::Open, "another address does not pay for it");
        let report = gate.report();
        assert_eq!((report.over_address_rate, report.busiest), (980, Some((host(1), 980))));
        assert_eq!(report.to_string(), "980 connections over the rate of their address, most of 10.0.0.1");
        assert_eq!(gate.report(), Report::default());
        gate.made_room();
        let totals = gate.totals();
        assert_eq!((totals.over_address_rate, totals.made_room), (980, 1), "also what was reported before");
    }

    #[test]
    fn a_crowd_of_addresses_does_not_keep_a_known_one_out() {
        let now = Instant::now();
        let gate = gate(now);
        gate.knows(host(1), now);
        let open = (100..10_000).filter(|number| gate.admit(host(*number), now) == Entrance::Open).count();
        assert_eq!(open, 100);
        assert_eq!(gate.admit(host(1), now), Entrance::Open);
        assert_ne!(gate.admit(host(2), now), Entrance::Open);
        assert_eq!(gate.report().over_rate, 9801);
    }

    #[test]
    fn what_is_known_is_bounded() {
        let start = Instant::now();
        let gate = gate(start);
        for number in 0..2 * MAX_KNOWN_ADDRESSES as u32 {
            gate.knows(host(number), start + Duration::from_secs(number.into()));
        }
        assert_eq!(gate.0.lock().known.len(), MAX_KNOWN_ADDRESSES);
        assert!(!gate.is_known(host(0)) && gate.is_known(host(2 * MAX_KNOWN_ADDRESSES as u32 - 1)));
    }

    #[test]
    fn sessions_of_a_key_have_a_rate() {
        let now = Instant::now();
        let gate = gate(now);
        let begun = (0..100).filter(|_| gate.begin_session(PublicKey([1; 32]), now).is_ok()).count();
        assert_eq!(begun, 20);
        assert_eq!(gate.begin_session(PublicKey([1; 32]), now), Err(Duration::from_secs(5)));
        assert_eq!(gate.begin_session(PublicKey([2; 32]), now), Ok(()));
    }

    #[test]
    fn lines_about_an_address_are_bounded_and_those_left_out_are_counted() {
        let gate = gate(Instant::now());
        let address = |port| Some(SocketAddr::from(([10, 0, 0, 1], port)));
        let lines = (0..1000).filter(|port| gate.line(address(*port)).is_some()).count();
        assert!((100..110).contains(&lines), "{lines}");
        assert_eq!(gate.line(Some(SocketAddr::from(([10, 0, 0, 2], 1)))), Some(LogPermit { left_out: None }));
        assert_eq!(gate.report().lines_left_out, 1000 - lines as u64);
    }
}
