//! The peer of a connection, and the bounds on connections without a session.
//!
//! A connection without a session is a stranger's, before its first session and after its last. Strangers have places
//! of their own (an eighth of `max_miners`), and [`STRANGER_LIMIT`] as their time. Sessions are bounded by the registry, so that
//! strangers never take a miner's place, nor miners a stranger's.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use assay_protocol::channel::Channel;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

use crate::bounds::{MAX_HANDSHAKE_TRIES, MAX_HANDSHAKES_AT_ONCE, MAX_STREAMS, STRANGER_LIMIT};
use crate::gate::{Entrance, Gate};
use crate::intake::{Intake, Pause};
use assay_transport::origin::origin;

/// The connections without a session, with the gate that admits them.
#[derive(Debug)]
pub struct Strangers {
    max: usize,
    gate: Arc<Gate>,
    list: Mutex<Vec<Arc<PeerConnection>>>,
}

/// The peer of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    pub address: SocketAddr,
    connection: Arc<PeerConnection>,
    strangers: Arc<Strangers>,
}

/// The place of a session: while it is kept, the connection is not a stranger's.
#[derive(Debug)]
pub struct SessionPlace(Peer);

#[derive(Debug)]
struct PeerConnection {
    origin: IpAddr,
    /// Set when the first byte shows the protocol; with TLS, after the handshake.
    channel: OnceLock<Channel>,
    /// Whether its address had a session before.
    is_known: bool,
    /// Whether it is above the limit, and gets an answer to come back later.
    is_overload: bool,
    state: Mutex<PeerState>,
    streams: Arc<Semaphore>,
}

/// Reason to refuse a further stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoStream {
    /// The limit of concurrent streams is reached.
    #[error("too many streams on one connection")]
    Streams,
    /// The limit of handshakes without a session is reached.
    #[error("too many handshakes on one connection")]
    Handshakes,
}

#[derive(Debug)]
struct PeerState {
    standing: PeerStanding,
    /// Streams since the last session.
    tries: u32,
    /// Wakes the task that serves the connection.
    task: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerStanding {
    /// No session.
    Stranger {
        since: Instant,
        /// Whether a hello came, and its handshake is not over.
        is_greeted: bool,
    },
    /// Number of sessions, of distinct keys.
    Sessions(u32),
    /// Closed for another one, or gone.
    Closed,
}

impl Strangers {
    /// Creates these places, for connections admitted by the gate.
    pub const fn new(max: usize, gate: Arc<Gate>) -> Self {
        Self { max, gate, list: Mutex::new(Vec::new()) }
    }

    /// Enters a new connection as a stranger's; `None` where it must be closed. When all places are taken, another
    /// connection is closed.
    pub fn enter(self: &Arc<Self>, address: SocketAddr) -> Option<Peer> {
        let origin = origin(address.ip());
        let entrance = self.gate.admit(origin, std::time::Instant::now());
        if entrance == Entrance::Closed {
            return None;
        }
        let connection = Arc::new(PeerConnection {
            origin,
            is_known: self.gate.is_known(origin),
            is_overload: entrance == Entrance::Overloaded,
            channel: OnceLock::new(),
            state: Mutex::new(PeerState { standing: PeerStanding::Closed, tries: 0, task: None }),
            streams: Arc::new(Semaphore::new(MAX_STREAMS as usize)),
        });
        self.add(&mut self.list.lock(), &connection);
        Some(Peer { address, connection, strangers: self.clone() })
    }

    /// Makes a connection a stranger's.
    fn add(&self, strangers: &mut Vec<Arc<PeerConnection>>, connection: &Arc<PeerConnection>) {
        if strangers.len() >= self.max
            && let Some(place) =
                first_to_go(strangers, connection.origin, |stranger| stranger.origin, |stranger| stranger.rank())
        {
            strangers.swap_remove(place).close();
            self.gate.made_room();
        }
        let mut state = connection.state.lock();
        state.standing = PeerStanding::Stranger { since: Instant::now(), is_greeted: false };
        state.tries = 0;
        drop(state);
        strangers.push(connection.clone());
    }
}

/// The position in a crowd that a newcomer takes: the least rank among the origins with the most places, `newcomer`
/// counted.
pub fn first_to_go<T, R: Ord>(
    crowd: &[T],
    newcomer: IpAddr,
    origin: impl Fn(&T) -> IpAddr,
    rank: impl Fn(&T) -> R,
) -> Option<usize> {
    let mut counts = HashMap::from([(newcomer, 1)]);
    for member in crowd {
        *counts.entry(origin(member)).or_insert(0) += 1;
    }
    let most = crowd.iter().map(|member| counts[&origin(member)]).max()?;
    (0..crowd.len()).filter(|place| counts[&origin(&crowd[*place])] == most).min_by_key(|place| rank(&crowd[*place]))
}

impl Peer {
    /// Takes a place for a further stream.
    ///
    /// # Errors
    /// [`NoStream`] when the connection has [`MAX_STREAMS`], or without a session tried [`MAX_HANDSHAKE_TRIES`]
    /// handshakes or has [`MAX_HANDSHAKES_AT_ONCE`] under way.
    pub fn stream(&self) -> Result<OwnedSemaphorePermit, NoStream> {
        let permit = self.connection.streams.clone().try_acquire_owned().map_err(|_| NoStream::Streams)?;
        let mut state = self.connection.state.lock();
        if matches!(state.standing, PeerStanding::Stranger { .. }) {
            state.tries += 1;
            let under_way = MAX_STREAMS as usize - self.connection.streams.available_permits();
            if state.tries > MAX_HANDSHAKE_TRIES || under_way > MAX_HANDSHAKES_AT_ONCE {
                return Err(NoStream::Handshakes);
            }
        }
        Ok(permit)
    }

    /// Whether the connection is above the limit, and its miner must come back later.
    pub fn is_overload(&self) -> bool {
        self.connection.is_overload
    }

    /// Counts received bytes, without TLS.
    ///
    /// # Errors
    /// The connection must be closed: it sends too much.
    pub fn count(&self, intake: &mut Intake, data: &[u8]) -> io::Result<()> {
        intake.count(data, self.stranger_since(), std::time::Instant::now()).map_err(|why| {
            self.strangers.gate.sent_too_much(self.address, why);
            io::Error::other(why)
        })
    }

    /// The pause in reading the connection.
    pub fn pause(&self, intake: &mut Intake) -> Pause {
        intake.pause(self.stranger_since(), std::time::Instant::now())
    }

    fn stranger_since(&self) -> Option<Instant> {
        match self.connection.state.lock().standing {
            PeerStanding::Stranger { since, .. } => Some(since),
            PeerStanding::Sessions(_) | PeerStanding::Closed => None,
        }
    }

    /// Channel of the connection.
    pub fn channel(&self) -> Channel {
        // Set before the first byte of HTTP/2 is read.
        self.connection.channel.get().copied().unwrap_or(Channel::Plaintext)
    }

    /// Sets the channel of the connection, once known.
    pub fn set_channel(&self, channel: Channel) {
        // It is set once.
        let _ = self.connection.channel.set(channel);
    }

    /// Sets whether a hello came whose handshake is under way.
    pub fn set_greeted(&self, greeted: bool) {
        if let PeerStanding::Stranger { is_greeted, .. } = &mut self.connection.state.lock().standing {
            *is_greeted = greeted;
        }
    }

    /// Marks the connection as a session's, while the place is kept.
    pub fn session(&self) -> SessionPlace {
        self.strangers.gate.knows(self.connection.origin, std::time::Instant::now());
        let mut strangers = self.strangers.list.lock();
        let mut state = self.connection.state.lock();
        match &mut state.standing {
            PeerStanding::Stranger { .. } => {
                state.standing = PeerStanding::Sessions(1);
                strangers.retain(|stranger| !Arc::ptr_eq(stranger, &self.connection));
                drop(state);
                // More data may have come than was read so far.
                self.connection.wake();
            }
            PeerStanding::Sessions(sessions) => *sessions += 1,
            // It is being closed, and the session will end.
            PeerStanding::Closed => {}
        }
        SessionPlace(self.clone())
    }

    /// Handles the end of the connection.
    pub fn left(&self) {
        let mut strangers = self.strangers.list.lock();
        self.connection.close();
        strangers.retain(|stranger| !Arc::ptr_eq(stranger, &self.connection));
    }

    /// Waits for the reason to close the connection; `timer` is the connection's own.
    pub fn poll_closed(&self, mut timer: Pin<&mut Sleep>, cx: &mut Context<'_>) -> Poll<io::Error> {
        let standing = {
            let mut state = self.connection.state.lock();
            if !state.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
                state.task = Some(cx.waker().clone());
            }
            state.standing
        };
        match standing {
            PeerStanding::Sessions(_) => Poll::Pending,
            PeerStanding::Closed => {
                Poll::Ready(io::Error::new(io::ErrorKind::ConnectionAborted, "it made room for another"))
            }
            PeerStanding::Stranger { since, .. } => {
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
        let mut list = strangers.list.lock();
        let mut state = connection.state.lock();
        match &mut state.standing {
            PeerStanding::Sessions(sessions) if *sessions > 1 => *sessions -= 1,
            PeerStanding::Sessions(_) => {
                drop(state);
                strangers.add(&mut list, connection);
                connection.wake();
            }
            PeerStanding::Stranger { .. } | PeerStanding::Closed => {}
        }
    }
}

impl PeerConnection {
    /// Rank for making room: the least goes first, the idle one for longest. Connections with a handshake under way go
    /// after idle ones, and those of addresses with a former session last.
    fn rank(&self) -> (bool, bool, Option<Instant>) {
        match self.state.lock().standing {
            PeerStanding::Stranger { since, is_greeted } => (self.is_known, is_greeted, Some(since)),
            PeerStanding::Sessions(_) | PeerStanding::Closed => (false, false, None),
        }
    }

    fn close(&self) {
        self.state.lock().standing = PeerStanding::Closed;
        self.wake();
    }

    /// Wakes the connection's task to check its standing.
    fn wake(&self) {
        let task = self.state.lock().task.take();
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bounds::ConnectionBounds;

    /// Places in these tests.
    const PLACES: usize = 64;

    fn strangers() -> Arc<Strangers> {
        let bounds =
            ConnectionBounds { address_connects_per_s: None, connects_per_s: None, ..ConnectionBounds::default() };
        Arc::new(Strangers::new(PLACES, Arc::new(Gate::new(&bounds, std::time::Instant::now()))))
    }

    fn entered(strangers: &Arc<Strangers>, host: u8) -> Peer {
        strangers.enter(address(host)).unwrap()
    }

    fn address(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 50_000))
    }

    fn standing(peer: &Peer) -> PeerStanding {
        peer.connection.state.lock().standing
    }

    fn is_closed(peer: &Peer) -> bool {
        standing(peer) == PeerStanding::Closed
    }

    #[test]
    fn the_oldest_silent_connection_of_the_busiest_address_goes_first() {
        let strangers = strangers();
        let honest = entered(&strangers, 1);
        let first = entered(&strangers, 2);
        first.set_greeted(true);
        let crowd: Vec<_> = (2..PLACES).map(|_| entered(&strangers, 2)).collect();
        assert!(!is_closed(&honest) && crowd.iter().all(|peer| !is_closed(peer)));
        for (gone, newcomer) in [1, 1, 3].into_iter().enumerate() {
            let _newcomer = entered(&strangers, newcomer);
            let closed: Vec<_> = crowd.iter().map(is_closed).collect();
            assert!(closed.iter().enumerate().all(|(at, closed)| *closed == (at <= gone)), "{closed:?}");
            assert!(!is_closed(&honest) && !is_closed(&first));
            assert_eq!(strangers.list.lock().len(), PLACES);
        }
    }

    #[test]
    fn miners_in_session_are_not_counted_and_are_strangers_again_after_it() {
        let strangers = strangers();
        let peers: Vec<_> =
            (0..2 * PLACES).map(|_| entered(&strangers, 1)).map(|peer| (peer.session(), peer)).collect();
        assert!(strangers.list.lock().is_empty());
        let (place, peer) = &peers[0];
        let second = peer.session();
        drop(second);
        assert_eq!((standing(peer), standing(&place.0)), (PeerStanding::Sessions(1), PeerStanding::Sessions(1)));
        let peers: Vec<_> = peers.into_iter().map(|(place, peer)| (drop(place), peer)).collect();
        let closed: Vec<_> = peers.iter().map(|((), peer)| is_closed(peer)).collect();
        assert!(closed[..PLACES].iter().all(|closed| *closed) && closed[PLACES..].iter().all(|c| !c));
        peers.iter().for_each(|((), peer)| peer.left());
        assert!(strangers.list.lock().is_empty());
    }

    #[test]
    fn a_connection_has_few_streams() {
        let peer = entered(&strangers(), 1);
        let first = peer.stream().unwrap();
        assert_eq!(peer.stream().unwrap_err(), NoStream::Handshakes, "one at a time");
        drop(first);
        assert!((2..MAX_HANDSHAKE_TRIES).all(|_| peer.stream().is_ok()));
        assert_eq!(peer.stream().unwrap_err(), NoStream::Handshakes, "too many after one another");
        let place = peer.session();
        let streams: Vec<_> = (0..MAX_STREAMS).map(|_| peer.stream().unwrap()).collect();
        assert_eq!(peer.stream().unwrap_err(), NoStream::Streams);
        drop((streams, place));
        assert!((0..MAX_HANDSHAKE_TRIES).all(|_| peer.stream().is_ok()), "after a session they are counted anew");
        assert!(peer.stream().is_err());
    }

    #[test]
    fn a_crowd_of_addresses_does_not_close_the_connection_of_a_known_one() {
        let strangers = strangers();
        let before = entered(&strangers, 1);
        drop(before.session());
        before.left();
        let known = entered(&strangers, 1);
        let crowd: Vec<_> = (2..=200).map(|host| entered(&strangers, host)).collect();
        assert!(!is_closed(&known));
        assert_eq!(crowd.iter().filter(|peer| !is_closed(peer)).count(), PLACES - 1);
    }

    /// Polls as the connection's task does, with a timer of its own.
    async fn closes(peer: &Peer) -> io::ErrorKind {
        let mut timer = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        std::future::poll_fn(|cx| peer.poll_closed(timer.as_mut(), cx)).await.kind()
    }

    /// A connection has its time limit without a session, counted from the end of the last one, to a timer's
    /// millisecond.
    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_session_is_closed_after_its_time() {
        let strangers = strangers();
        let [silent, refused, ended, standing] = [1, 2, 3, 4].map(|host| entered(&strangers, host));
        // A refused peer sent a hello, and its handshake is over.
        refused.set_greeted(true);
        refused.set_greeted(false);
        let _place = standing.session();
        let place = ended.session();
        let start = Instant::now();
        let closed_after = |peer: Peer| tokio::spawn(async move { (closes(&peer).await, start.elapsed().as_secs()) });
        let closed = [silent, refused, ended].map(closed_after);
        let standing = closed_after(standing);
        tokio::time::sleep(Duration::from_secs(100)).await;
        drop(place);
        let limit = 30;
        for (closed, after) in closed.into_iter().zip([limit, limit, 100 + limit]) {
            assert_eq!(closed.await.unwrap(), (io::ErrorKind::TimedOut, after));
        }
        assert!(!standing.is_finished());
    }

    #[test]
    fn an_address_over_its_rate_gets_no_connection() {
        let gate = Arc::new(Gate::new(&ConnectionBounds::default(), std::time::Instant::now()));
        let strangers = Arc::new(Strangers::new(PLACES, gate));
        let peers: Vec<_> = (0..1000).map_while(|_| strangers.enter(address(1))).collect();
        assert!((200..300).contains(&peers.len()), "{}", peers.len());
        assert!(peers.iter().any(Peer::is_overload) && !peers[0].is_overload());
        assert!(strangers.enter(address(2)).is_some());
    }
}
