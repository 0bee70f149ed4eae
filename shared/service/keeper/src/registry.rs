//! Connected miners, and the channels to their sessions.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use assay_program::clock;
use assay_protocol::message::Inventory;
use assay_protocol::verdict::NamedDevice;
use assay_records::MinerRecord;
use assay_work::{ChallengeId, PublicKey};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

use crate::course::{ChallengeSnapshot, Course};
use crate::events::EventSession;
use crate::order::Order;
use crate::takeover::{EnterError, SessionNonces};
use crate::unrecorded::UnrecordedEnds;
use assay_judge::session::StartError;
use assay_listen::bounds::{ConnectionBounds, MAX_WATCHED, WATCHED_LIMIT};
use assay_listen::peer::{Peer, SessionPlace};
use assay_transport::origin::origin;

/// A command to a session.
#[derive(Debug)]
pub enum SessionCommand {
    /// Challenge the miner now.
    Run {
        /// The order of the challenge.
        order: Box<Order>,
        /// Its place among the concurrent challenges; `None`: it takes one, if one is free.
        place: Option<OwnedSemaphorePermit>,
        /// Receives the course of the challenge, or the reason why it did not start.
        started: oneshot::Sender<Result<watch::Receiver<Course>, StartError>>,
    },
    Cancel {
        /// Id of the challenge to end; others go on.
        id: ChallengeId,
        /// Receives the id of the ended challenge; `None` if it does not run.
        cancelled: oneshot::Sender<Option<ChallengeId>>,
    },
    /// The record of the miner, with other labels.
    Labelled(Box<MinerRecord>),
    /// The other members of the round have committed: send the probe that this challenge holds back.
    Release(ChallengeId),
    /// Another miner connected with the same key, from this address.
    Replaced(Option<SocketAddr>),
    /// The same miner connected anew, from this address, after it lost this session's connection.
    Resumed(Option<SocketAddr>),
}

/// Snapshot of a connected miner, for operators.
#[derive(Debug, Clone)]
pub struct ConnectedMiner {
    /// Its session, with its key, program and address.
    pub who: EventSession,
    /// Its devices: claims.
    pub inventory: Inventory,
    /// Whether a challenge runs, or just begins.
    pub challenged: bool,
    /// Course of the running challenge.
    pub running: Option<watch::Receiver<Course>>,
    /// Devices that it showed before and does not list.
    pub missing: Vec<NamedDevice>,
    pub round_trip: Option<Duration>,
    /// Nonce of the session, and of the one that it resumes.
    pub resumption: SessionNonces,
}

/// Number of connected miners, and phases of their challenges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Census {
    /// Miners with a session.
    pub connected: usize,
    /// The phase of each running challenge.
    pub phases: Vec<&'static str>,
}

impl Census {
    /// Number of challenges in a phase.
    pub fn in_phase(&self, phase: &str) -> usize {
        self.phases.iter().filter(|other| **other == phase).count()
    }
}

/// All connected miners, each with one session, up to the validator's bounds. A miner's *seat* is the first of its
/// keys: one that changed its key has one session with both.
#[derive(Debug, Default)]
pub struct Registry {
    pub bounds: ConnectionBounds,
    /// Miners by seat.
    entries: Mutex<HashMap<PublicKey, MinerEntry>>,
    /// Ended challenges of operators with the time of their end, the oldest first.
    ended: Mutex<VecDeque<(Instant, watch::Receiver<Course>)>>,
    /// The number of the next session.
    next_session: AtomicU64,
    /// Ends of sessions that the records do not have yet.
    pub unrecorded: UnrecordedEnds,
}

#[derive(Debug)]
struct MinerEntry {
    miner: ConnectedMiner,
    commands: mpsc::Sender<SessionCommand>,
    /// Number that distinguishes sessions of one key.
    session: u64,
    /// Returned with the entry, even where the session itself takes longer to end.
    _place: Option<SessionPlace>,
}

impl Registry {
    pub fn new(bounds: ConnectionBounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Draws a number for a new session.
    pub fn session_number(&self) -> u64 {
        self.next_session.fetch_add(1, Ordering::Relaxed)
    }

    /// Enters a miner that proved its key on the connection of `peer`. An earlier session of the key is asked to leave,
    /// and is returned: its place is reused. `most`: miners that its address may have.
    ///
    /// # Errors
    /// [`EnterError::Full`] and [`EnterError::AddressFull`] for a key without a session when the bounds are reached;
    /// [`EnterError::InChallenge`] for one that is being challenged, unless this session resumes that one.
    pub fn enter(
        &self,
        session: u64,
        seat: PublicKey,
        miner: ConnectedMiner,
        commands: mpsc::Sender<SessionCommand>,
        peer: Option<&Peer>,
        most: u32,
    ) -> Result<Option<ConnectedMiner>, EnterError> {
        let mut entries = self.entries.lock();
        let resumes = |before: &MinerEntry| miner.resumption.goes_on_from(&before.miner.resumption);
        let resumes = entries.get(&seat).is_some_and(resumes);
        match entries.get(&seat).map(|before| &before.miner) {
            None => self.check_room(&entries, &miner, most)?,
            Some(before) if before.challenged && !resumes => return Err(EnterError::InChallenge(before.who.address)),
            Some(_) => {}
        }
        let by = miner.who.address;
        let place = peer.map(Peer::session);
        let before = entries.insert(seat, MinerEntry { miner, commands, session, _place: place });
        drop(entries);
        if let Some(before) = &before {
            // A full queue means that the session is ending anyway.
            let command = if resumes { SessionCommand::Resumed(by) } else { SessionCommand::Replaced(by) };
            let _ = before.commands.try_send(command);
        }
        Ok(before.map(|before| before.miner))
    }

    /// Checks for a place for a further key.
    fn check_room(
        &self,
        entries: &HashMap<PublicKey, MinerEntry>,
        miner: &ConnectedMiner,
        most: u32,
    ) -> Result<(), EnterError> {
        if entries.len() >= self.bounds.max_miners as usize {
            return Err(EnterError::Full);
        }
        let own = miner.who.address.map(|own| origin(own.ip()));
        let is_neighbour = |other: &&MinerEntry| other.miner.who.address.map(|other| origin(other.ip())) == own;
        let neighbours = entries.values().filter(is_neighbour).count();
        if own.is_some() && neighbours >= most as usize { Err(EnterError::AddressFull(most)) } else { Ok(()) }
    }

    /// Marks a session as challenged: no other session of its key is entered from now on. False where another one has
    /// taken over.
    pub fn begin(&self, session: u64, seat: PublicKey) -> bool {
        let mut entries = self.entries.lock();
        let own = entries.get_mut(&seat).filter(|entry| entry.session == session);
        own.map(|entry| entry.miner.challenged = true).is_some()
    }

    /// Removes a session, unless another one took its place.
    pub fn leave(&self, session: u64, seat: PublicKey) {
        let mut entries = self.entries.lock();
        let is_own = entries.get(&seat).is_some_and(|entry| entry.session == session);
        let gone = is_own.then(|| entries.remove(&seat));
        drop(entries);
        drop(gone);
    }

    /// Changes the snapshot of a miner.
    pub fn update(&self, session: u64, seat: PublicKey, change: impl FnOnce(&mut ConnectedMiner)) {
        if let Some(entry) = self.entries.lock().get_mut(&seat).filter(|entry| entry.session == session) {
            change(&mut entry.miner);
        }
    }

    /// Clears the missing devices of a miner with these keys, after they were forgotten.
    pub fn forget_devices(&self, keys: &[String]) {
        for entry in self.entries.lock().values_mut().filter(|entry| keys.contains(&entry.miner.who.miner.to_string()))
        {
            entry.miner.missing.clear();
        }
    }

    /// Number of connected miners, and phases of their challenges.
    pub fn census(&self) -> Census {
        let entries = self.entries.lock();
        let running = entries.values().filter_map(|entry| entry.miner.running.as_ref());
        Census { connected: entries.len(), phases: running.map(|course| course.borrow().now().phase).collect() }
    }

    /// Connected miners, in order of key.
    pub fn miners(&self) -> Vec<ConnectedMiner> {
        let mut miners: Vec<_> = self.entries.lock().values().map(|entry| entry.miner.clone()).collect();
        miners.sort_by_key(|miner| miner.who.miner);
        miners
    }

    /// Ids of the sessions, as the records name them.
    pub fn sessions(&self) -> BTreeSet<String> {
        let entries = self.entries.lock();
        entries.values().filter_map(|entry| entry.miner.resumption.nonce).map(|nonce| nonce.to_string()).collect()
    }

    /// The challenge of a session with this key.
    pub fn running(&self, key: PublicKey) -> Option<ChallengeSnapshot> {
        let course = self.entries.lock().values().find(|entry| entry.miner.who.miner == key)?.miner.running.clone()?;
        Some(course.borrow().now().clone())
    }

    /// Keeps the course of an ended challenge, for its requester.
    pub fn keep(&self, course: watch::Receiver<Course>) {
        let (mut ended, now) = (self.ended.lock(), clock::now());
        ended.retain(|(since, _)| now.duration_since(*since) < WATCHED_LIMIT);
        if ended.len() >= MAX_WATCHED {
            ended.pop_front();
        }
        ended.push_back((now, course));
    }

    /// The course of a challenge that runs here, or ended a short while ago.
    pub fn course(&self, id: &str) -> Option<watch::Receiver<Course>> {
        let is_it = |course: &watch::Receiver<Course>| course.borrow().now().id.to_string() == id;
        let running = |entry: &MinerEntry| entry.miner.running.clone().filter(is_it);
        let found = self.entries.lock().values().find_map(running);
        found.or_else(|| {
            let ended = self.ended.lock();
            let recent = ended.iter().filter(|(since, _)| clock::since(*since) < WATCHED_LIMIT);
            recent.map(|(_, course)| course).find(|course| is_it(course)).cloned()
        })
    }

    /// Command channel of a miner's session.
    pub fn commands(&self, key: PublicKey) -> Option<mpsc::Sender<SessionCommand>> {
        self.entries.lock().values().find(|entry| entry.miner.who.miner == key).map(|entry| entry.commands.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_protocol::message::{RefusedCode, ValidatorMessage};
    use assay_work::Nonce;

    fn registry(max_miners: u32) -> Registry {
        Registry::new(ConnectionBounds { max_miners, ..ConnectionBounds::default() })
    }

    const MOST: u32 = 256;

    fn miner(key: u8) -> ConnectedMiner {
        crate::tests::connected(PublicKey([key; 32]))
    }

    fn miner_at(key: u8, address: SocketAddr) -> ConnectedMiner {
        let miner = miner(key);
        ConnectedMiner { who: EventSession { address: Some(address), ..miner.who }, ..miner }
    }

    #[test]
    fn a_new_session_takes_the_place_of_the_old_one() {
        let registry = registry(1);
        let (old, mut old_commands) = mpsc::channel(1);
        let (new, _new_commands) = mpsc::channel(1);
        assert!(registry.enter(1, PublicKey([7; 32]), miner(7), old, None, MOST).unwrap().is_none());
        let full = registry.enter(3, PublicKey([8; 32]), miner(8), new.clone(), None, MOST).unwrap_err();
        assert_eq!(full, EnterError::Full);
        let before = registry.enter(2, PublicKey([7; 32]), miner(7), new, None, MOST).unwrap();
        assert!(before.is_some(), "a key that is here takes over when all places are taken");
        assert!(matches!(old_commands.try_recv(), Ok(SessionCommand::Replaced(None))));
        // Its pending commands no longer start a challenge.
        assert!(!registry.begin(1, PublicKey([7; 32])));
        // The old session leaves late: the new one stays.
        registry.leave(1, PublicKey([7; 32]));
        assert_eq!(registry.miners().len(), 1);
        registry.update(1, PublicKey([7; 32]), |m| m.challenged = true);
        assert!(!registry.miners()[0].challenged);
        registry.leave(2, PublicKey([7; 32]));
        assert!(registry.miners().is_empty() && registry.commands(PublicKey([7; 32])).is_none());
    }

    #[test]
    fn the_keys_of_a_miner_have_one_seat() {
        let registry = registry(1);
        let (old, mut old_commands) = mpsc::channel(1);
        let (new, _new_commands) = mpsc::channel(1);
        let seat = PublicKey([7; 32]);
        registry.enter(1, seat, miner(7), old, None, MOST).unwrap();
        let before = registry.enter(2, seat, miner(8), new.clone(), None, MOST).unwrap().unwrap();
        assert_eq!(before.who.miner, seat);
        assert!(matches!(old_commands.try_recv(), Ok(SessionCommand::Replaced(_))));
        assert_eq!(registry.miners().iter().map(|miner| miner.who.miner).collect::<Vec<_>>(), [PublicKey([8; 32])]);
        assert!(registry.commands(PublicKey([8; 32])).is_some() && registry.commands(seat).is_none());
        assert!(registry.begin(2, seat));
        assert!(
            registry.enter(3, seat, miner(7), new, None, MOST).is_err(),
            "a challenge of either key is one of both"
        );
        registry.leave(2, seat);
        assert!(registry.miners().is_empty());
    }

    #[test]
    fn a_challenge_under_way_is_not_taken_over() {
        let registry = registry(2);
        let (old, mut old_commands) = mpsc::channel(1);
        let (new, _new_commands) = mpsc::channel(1);
        let key = PublicKey([7; 32]);
        let at = |address: &str| miner_at(7, address.parse().unwrap());
        registry.enter(1, key, at("10.0.0.1:5000"), old, None, MOST).unwrap();
        assert!(registry.begin(1, key));
        let refused = registry.enter(2, key, at("10.0.0.2:5000"), new.clone(), None, MOST).unwrap_err();
        let ValidatorMessage::Refused { code, .. } = refused.refusal() else { panic!("a refusal") };
        assert_eq!(code, RefusedCode::InChallenge);
        let said = refused.to_string();
        assert!(said.contains("from 10.0.0.1:5000") && said.contains("key_file"), "{said}");
        assert!(old_commands.try_recv().is_err(), "the session with the challenge hears nothing");
        registry.update(1, key, |miner| miner.challenged = false);
        let before = registry.enter(2, key, at("10.0.0.2:5000"), new, None, MOST).unwrap().unwrap();
        assert_eq!(before.who.address, at("10.0.0.1:5000").who.address);
        let Ok(SessionCommand::Replaced(by)) = old_commands.try_recv() else { panic!("it is told to go") };
        assert_eq!(by, at("10.0.0.2:5000").who.address);
    }

    #[test]
    fn one_address_has_a_part_of_the_places_where_anyone_may_connect() {
        let at = |key: u8, host: u8| miner_at(key, ([10, 0, 0, host], 5000).into());
        let enter = |registry: &Registry, miner: ConnectedMiner, is_open: bool| {
            let most = registry.bounds.address_miners(is_open);
            registry.enter(1, miner.who.miner, miner, mpsc::channel(1).0, None, most).map(|_| ())
        };
        let registry = Registry::new(ConnectionBounds { max_miners: 100, ..ConnectionBounds::default() });
        assert!((0..16).all(|key| enter(&registry, at(key, 1), true).is_ok()));
        assert_eq!(enter(&registry, at(16, 1), true), Err(EnterError::AddressFull(16)));
        assert_eq!(enter(&registry, at(3, 1), true), Ok(()), "a key that is here takes over from itself");
        assert_eq!(enter(&registry, at(16, 2), true), Ok(()));
        assert_eq!(enter(&registry, at(17, 1), false), Ok(()), "a list of keys bounds an address by itself");
        let registry = Registry::new(ConnectionBounds { max_address_miners: Some(1), ..ConnectionBounds::default() });
        assert_eq!(enter(&registry, at(1, 1), false), Ok(()));
        assert_eq!(enter(&registry, at(2, 1), false), Err(EnterError::AddressFull(1)), "as the operator says");
    }

    /// A miner that lost its connection regains its place at once; another one with its key does not.
    #[test]
    fn a_challenge_is_taken_over_by_the_session_that_goes_on_from_its_own() {
        let registry = registry(2);
        let (key, nonce) = (PublicKey([7; 32]), |byte| Some(Nonce([byte; 32])));
        let session = |nonce, resumes| ConnectedMiner { resumption: SessionNonces { nonce, resumes }, ..miner(7) };
        let enter = |number, miner: ConnectedMiner| {
            let (commands, received) = mpsc::channel(1);
            registry.enter(number, miner.who.miner, miner, commands, None, MOST).map(|_| received)
        };
        let mut first = enter(1, session(nonce(1), None)).unwrap();
        assert!(registry.begin(1, key));
        for other in [None, nonce(9)] {
            assert!(matches!(enter(2, session(nonce(2), other)), Err(EnterError::InChallenge(_))));
        }
        let mut second = enter(2, session(nonce(2), nonce(1))).unwrap();
        assert!(matches!(first.try_recv(), Ok(SessionCommand::Resumed(_))));
        // Its miner did not learn that the second session was accepted, and connects again.
        assert!(registry.begin(2, key));
        let _third = enter(3, session(nonce(3), nonce(1))).unwrap();
        assert!(matches!(second.try_recv(), Ok(SessionCommand::Resumed(_))));
    }
}
