//! The other end of a connection, and the bounds on connections without a session.
//!
//! A connection on which no miner has a session is a stranger's, whether it never had one or has one no more. Strangers
//! have [`MAX_STRANGERS`] places of their own and `STRANGER_LIMIT` of time. Sessions are bounded by the registry, so
//! that strangers never take a miner's place, nor miners a stranger's.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use assay_protocol::channel::Channel;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// HTTP/2 streams of one connection: a session, a health watch, a reflection query.
pub const MAX_STREAMS: u32 = 4;
/// Connections without a session: health checks, and miners in the handshake or refused. When one more comes, an older
/// one is closed.
pub const MAX_STRANGERS: usize = 64;
/// How long a connection may stand without a session: long enough for a slow handshake and for health checks, short
/// enough that nobody keeps one.
const STRANGER_LIMIT: Duration = Duration::from_secs(30);

/// The connections without a session.
#[derive(Debug, Default)]
pub struct Strangers(Mutex<Vec<Arc<Connection>>>);

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Where it dialled from.
    pub address: SocketAddr,
    connection: Arc<Connection>,
    strangers: Arc<Strangers>,
}

/// The place of a session: while it is kept, the connection is not a stranger's.
#[derive(Debug)]
pub struct SessionPlace(Peer);

#[derive(Debug)]
struct Connection {
    origin: IpAddr,
    /// Once the first byte has said what it is, with TLS after the handshake.
    channel: OnceLock<Channel>,
    state: Mutex<State>,
    streams: Arc<Semaphore>,
}

#[derive(Debug)]
struct State {
    standing: Standing,
    /// Wakes the task that serves the connection.
    task: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Nobody has a session.
    Stranger {
        since: Instant,
        /// A hello came, and its handshake is not over.
        is_greeted: bool,
    },
    /// So many sessions, of distinct keys.
    Sessions(u32),
    /// It made room for another one, or it is gone.
    Closed,
}

impl Strangers {
    /// A connection that was just accepted, as a stranger's. Where there are too many, another one is closed for it.
    pub fn enter(self: &Arc<Self>, address: SocketAddr) -> Peer {
        let state = State { standing: Standing::Closed, task: None };
        let connection = Arc::new(Connection {
            origin: origin(address.ip()),
            channel: OnceLock::new(),
            state: Mutex::new(state),
            streams: Arc::new(Semaphore::new(MAX_STREAMS as usize)),
        });
        self.add(&mut self.lock(), &connection);
        Peer { address, connection, strangers: self.clone() }
    }

    /// Makes a connection a stranger's from now on.
    fn add(&self, strangers: &mut Vec<Arc<Connection>>, connection: &Arc<Connection>) {
        if strangers.len() >= MAX_STRANGERS
            && let Some(place) = first_to_go(strangers, connection.origin)
        {
            strangers.swap_remove(place).close();
        }
        connection.lock().standing = Standing::Stranger { since: Instant::now(), is_greeted: false };
        strangers.push(connection.clone());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of the origins with the most strangers, `newcomer` counted, the connection that is silent for longest; one whose
/// handshake is under way goes only where none is silent.
fn first_to_go(strangers: &[Arc<Connection>], newcomer: IpAddr) -> Option<usize> {
    let mut counts = HashMap::from([(newcomer, 1)]);
    for stranger in strangers {
        *counts.entry(stranger.origin).or_insert(0) += 1;
    }
    let most = strangers.iter().map(|stranger| counts[&stranger.origin]).max()?;
    let age = |place: &usize| match strangers[*place].lock().standing {
        Standing::Stranger { since, is_greeted } => (is_greeted, Some(since)),
        Standing::Sessions(_) | Standing::Closed => (false, None),
    };
    (0..strangers.len()).filter(|place| counts[&strangers[*place].origin] == most).min_by_key(age)
}

/// What counts as one address: of IPv6 the network of 64 bits that a host is given.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (!0 << 64)).into(),
        address => address,
    }
}

impl Peer {
    /// A place for one more stream; `None` when the connection has [`MAX_STREAMS`].
    #[must_use]
    pub fn stream(&self) -> Option<OwnedSemaphorePermit> {
        self.connection.streams.clone().try_acquire_owned().ok()
    }

    /// What the connection's bytes pass through.
    #[must_use]
    pub fn channel(&self) -> Channel {
        // It is known before the first byte of HTTP/2 is read.
        self.connection.channel.get().copied().unwrap_or(Channel::Plaintext)
    }

    /// What the connection's bytes pass through is known now.
    pub fn set_channel(&self, channel: Channel) {
        // It does not change.
        let _ = self.connection.channel.set(channel);
    }

    /// A hello came: the handshake is under way, or, with false, over.
    pub fn set_greeted(&self, greeted: bool) {
        if let Standing::Stranger { is_greeted, .. } = &mut self.connection.lock().standing {
            *is_greeted = greeted;
        }
    }

    /// A miner has a session on the connection for as long as the place is kept.
    #[must_use]
    pub fn session(&self) -> SessionPlace {
        let mut strangers = self.strangers.lock();
        let mut state = self.connection.lock();
        match &mut state.standing {
            Standing::Stranger { .. } => {
                state.standing = Standing::Sessions(1);
                strangers.retain(|stranger| !Arc::ptr_eq(stranger, &self.connection));
            }
            Standing::Sessions(sessions) => *sessions += 1,
            // It is being closed, and the session will end.
            Standing::Closed => {}
        }
        SessionPlace(self.clone())
    }

    /// The connection is gone.
    pub fn left(&self) {
        let mut strangers = self.strangers.lock();
        self.connection.close();
        strangers.retain(|stranger| !Arc::ptr_eq(stranger, &self.connection));
    }

    /// Why the connection must be closed, once it must; `timer` is the connection's own.
    pub fn poll_closed(&self, mut timer: Pin<&mut Sleep>, cx: &mut Context<'_>) -> Poll<io::Error> {
        let standing = {
            let mut state = self.connection.lock();
            if !state.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
                state.task = Some(cx.waker().clone());
            }
            state.standing
        };
        match standing {
            Standing::Sessions(_) => Poll::Pending,
            Standing::Closed => {
                Poll::Ready(io::Error::new(io::ErrorKind::ConnectionAborted, "it made room for another"))
            }
            Standing::Stranger { since, .. } => {
                let end = since + STRANGER_LIMIT;
                if timer.deadline() != end {
                    timer.as_mut().reset(end);
                }
                timer.poll(cx).map(|()| io::Error::new(io::ErrorKind::TimedOut, "no miner has a session on it"))
            }
        }
    }
}

impl Drop for SessionPlace {
    fn drop(&mut self) {
        let Peer { connection, strangers, .. } = &self.0;
        let mut list = strangers.lock();
        let mut state = connection.lock();
        match &mut state.standing {
            Standing::Sessions(sessions) if *sessions > 1 => *sessions -= 1,
            Standing::Sessions(_) => {
                drop(state);
                strangers.add(&mut list, connection);
                connection.wake();
            }
            Standing::Stranger { .. } | Standing::Closed => {}
        }
    }
}

impl Connection {
    fn close(&self) {
        self.lock().standing = Standing::Closed;
        self.wake();
    }

    /// Has the connection's task look at its standing.
    fn wake(&self) {
        let task = self.lock().task.take();
        if let Some(task) = task {
            task.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 50_000))
    }

    fn standing(peer: &Peer) -> Standing {
        peer.connection.lock().standing
    }

    fn is_closed(peer: &Peer) -> bool {
        standing(peer) == Standing::Closed
    }

    #[test]
    fn the_oldest_silent_connection_of_the_busiest_address_goes_first() {
        let strangers = Arc::new(Strangers::default());
        let honest = strangers.enter(address(1));
        let first = strangers.enter(address(2));
        first.set_greeted(true);
        let crowd: Vec<_> = (2..MAX_STRANGERS).map(|_| strangers.enter(address(2))).collect();
        assert!(!is_closed(&honest) && crowd.iter().all(|peer| !is_closed(peer)));
        for (gone, newcomer) in [1, 1, 3].into_iter().enumerate() {
            let _newcomer = strangers.enter(address(newcomer));
            let closed: Vec<_> = crowd.iter().map(is_closed).collect();
            assert!(closed.iter().enumerate().all(|(at, closed)| *closed == (at <= gone)), "{closed:?}");
            assert!(!is_closed(&honest) && !is_closed(&first));
            assert_eq!(strangers.lock().len(), MAX_STRANGERS);
        }
    }

    #[test]
    fn miners_in_session_are_not_counted_and_are_strangers_again_after_it() {
        let strangers = Arc::new(Strangers::default());
        let peers: Vec<_> =
            (0..2 * MAX_STRANGERS).map(|_| strangers.enter(address(1))).map(|peer| (peer.session(), peer)).collect();
        assert!(strangers.lock().is_empty());
        let (place, peer) = &peers[0];
        let second = peer.session();
        drop(second);
        assert_eq!((standing(peer), standing(&place.0)), (Standing::Sessions(1), Standing::Sessions(1)));
        let peers: Vec<_> = peers.into_iter().map(|(place, peer)| (drop(place), peer)).collect();
        let closed: Vec<_> = peers.iter().map(|((), peer)| is_closed(peer)).collect();
        assert!(closed[..MAX_STRANGERS].iter().all(|closed| *closed) && closed[MAX_STRANGERS..].iter().all(|c| !c));
        peers.iter().for_each(|((), peer)| peer.left());
        assert!(strangers.lock().is_empty());
    }

    #[test]
    fn one_network_of_ipv6_is_one_address() {
        let origin = |text: &str| origin(text.parse().unwrap());
        assert_eq!(origin("2001:db8:1:2:3:4:5:6"), origin("2001:db8:1:2::1"));
        assert_ne!(origin("2001:db8:1:3::1"), origin("2001:db8:1:2::1"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
        assert_ne!(origin("10.0.0.1"), origin("10.0.0.2"));
    }

    #[test]
    fn a_connection_has_few_streams() {
        let peer = Arc::new(Strangers::default()).enter(address(1));
        let streams: Vec<_> = (0..MAX_STREAMS).map(|_| peer.stream().unwrap()).collect();
        assert!(peer.stream().is_none());
        drop(streams);
        assert!(peer.stream().is_some());
    }
}
