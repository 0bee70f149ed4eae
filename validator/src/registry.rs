//! Who is connected, and how to reach their sessions.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assay_protocol::message::Inventory;
use assay_protocol::verdict::Verdict;
use assay_work::{ChallengeId, PublicKey};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::bounds::Bounds;
use crate::gate::origin;
use crate::order::Order;
use crate::peer::{Peer, SessionPlace};
use crate::session::StartError;
use crate::takeover::{EnterError, Resumption};

/// The phase of a challenge whose verdict is on its way to the disk, as an operator sees it.
pub const VERDICT: &str = "verdict";

/// What a session is asked from outside.
#[derive(Debug)]
pub enum SessionCommand {
    /// Challenge the miner now.
    Run {
        /// What to ask.
        order: Box<Order>,
        /// Its place among the challenges that run at once; `None`: it takes one, where one is free.
        place: Option<OwnedSemaphorePermit>,
        /// What started, or why nothing did.
        started: oneshot::Sender<Result<RunningChallenge, StartError>>,
        /// What happens on the way; the verdict comes last.
        updates: mpsc::Sender<Update>,
    },
    /// End the challenge that runs.
    Cancel {
        /// This one, and no other.
        id: ChallengeId,
        /// Which one is ended; `None` where none such runs.
        cancelled: oneshot::Sender<Option<ChallengeId>>,
    },
    /// The other members of the round have committed: send the probe that this challenge holds back.
    Release {
        /// The challenge.
        id: ChallengeId,
    },
    /// The same key connected anew.
    Replaced {
        /// From there.
        by: Option<SocketAddr>,
    },
    /// The same miner connected anew, from there: it lost this session's connection.
    Resumed {
        /// From there.
        by: Option<SocketAddr>,
    },
}

/// What happens to a challenge that someone watches.
#[derive(Debug, Clone)]
pub enum Update {
    /// A new phase.
    Phase(&'static str),
    /// Slots filled, of so many.
    Progress(u64, u64),
    /// It is over.
    Verdict(Box<Verdict>),
}

/// A challenge that runs, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningChallenge {
    /// The challenge.
    pub id: ChallengeId,
    /// When it began.
    pub since: Instant,
    /// What happens now.
    pub phase: &'static str,
    /// Slots filled, by what the miner says.
    pub done_slots: u64,
    /// Of so many.
    pub all_slots: u64,
}

impl RunningChallenge {
    /// Notes what happens to it.
    pub const fn advance(&mut self, update: &Update) {
        match update {
            Update::Phase(phase) => self.phase = phase,
            Update::Progress(done_slots, _) => self.done_slots = *done_slots,
            Update::Verdict(_) => {}
        }
    }
}

/// A connected miner, as an operator sees it.
#[derive(Debug, Clone)]
pub struct Miner {
    /// The miner's key, proved.
    pub key: PublicKey,
    /// Its program.
    pub agent: String,
    /// Where it dialled from.
    pub address: Option<SocketAddr>,
    /// Its devices: claims.
    pub inventory: Inventory,
    /// Whether a challenge runs, or just begins.
    pub challenged: bool,
    /// The challenge that runs.
    pub running: Option<RunningChallenge>,
    /// Since when it is connected.
    pub since: Instant,
    /// The last round trip measured.
    pub round_trip: Option<Duration>,
    /// Which session it is, and from which it goes on.
    pub resumption: Resumption,
}

/// How many miners are connected, and what their challenges do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Census {
    /// Miners with a session.
    pub connected: usize,
    /// The phase of each challenge that runs.
    pub phases: Vec<&'static str>,
}

impl Census {
    /// How many challenges are in a phase.
    #[must_use]
    pub fn in_phase(&self, phase: &str) -> usize {
        self.phases.iter().filter(|other| **other == phase).count()
    }
}

/// All connected miners, at most one session for each, and as many as the validator takes. A miner's *seat* is the first
/// of its keys: one that changed its key has one session with both.
#[derive(Debug)]
pub struct Registry {
    bounds: Bounds,
    /// By seat.
    entries: Mutex<HashMap<PublicKey, MinerEntry>>,
}

#[derive(Debug)]
struct MinerEntry {
    miner: Miner,
    commands: mpsc::Sender<SessionCommand>,
    /// Tells sessions of one key apart.
    session: u64,
    /// Given back with the entry, also where the session itself takes longer to end.
    _place: Option<SessionPlace>,
}

impl Registry {
    /// A registry within these bounds.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, entries: Mutex::default() }
    }

    /// Enters a miner that proved its key on the connection of `peer`. A session that the key had before is told to go,
    /// and gives its place: it is returned. `is_open`: anyone may connect.
    ///
    /// # Errors
    /// [`EnterError::Full`] and [`EnterError::AddressFull`] for a key that is not here when as many others are as may
    /// be; [`EnterError::InChallenge`] for one that is being challenged, unless this session goes on from that one.
    pub fn enter(
        &self,
        session: u64,
        seat: PublicKey,
        miner: Miner,
        commands: mpsc::Sender<SessionCommand>,
        peer: Option<&Peer>,
        is_open: bool,
    ) -> Result<Option<Miner>, EnterError> {
        let mut entries = self.lock();
        if !entries.contains_key(&seat) {
            self.check_room(&entries, &miner, is_open)?;
        }
        let resumes = |before: &MinerEntry| miner.resumption.goes_on_from(&before.miner.resumption);
        let resumes = entries.get(&seat).is_some_and(resumes);
        if let Some(before) = entries.get(&seat).filter(|entry| entry.miner.challenged && !resumes) {
            return Err(EnterError::InChallenge(before.miner.address));
        }
        let by = miner.address;
        let place = peer.map(Peer::session);
        let before = entries.insert(seat, MinerEntry { miner, commands, session, _place: place });
        drop(entries);
        if let Some(before) = &before {
            // A full queue means a session that is going anyway.
            let command = if resumes { SessionCommand::Resumed { by } } else { SessionCommand::Replaced { by } };
            let _ = before.commands.try_send(command);
        }
        Ok(before.map(|before| before.miner))
    }

    /// Whether there is a place for one more key.
    fn check_room(
        &self,
        entries: &HashMap<PublicKey, MinerEntry>,
        miner: &Miner,
        is_open: bool,
    ) -> Result<(), EnterError> {
        if entries.len() >= self.bounds.max_miners as usize {
            return Err(EnterError::Full);
        }
        let (own, most) = (miner.address.map(|own| origin(own.ip())), self.bounds.address_miners(is_open));
        let is_neighbour = |other: &&MinerEntry| other.miner.address.map(|other| origin(other.ip())) == own;
        let neighbours = entries.values().filter(is_neighbour).count();
        if own.is_some() && neighbours >= most as usize { Err(EnterError::AddressFull(most)) } else { Ok(()) }
    }

    /// Notes that a challenge of a session begins: no other session of its key is entered from now on. False where
    /// another one has taken over.
    #[must_use]
    pub fn begin(&self, session: u64, seat: PublicKey) -> bool {
        let mut entries = self.lock();
        let own = entries.get_mut(&seat).filter(|entry| entry.session == session);
        own.map(|entry| entry.miner.challenged = true).is_some()
    }

    /// Takes a session out, unless another one took its place.
    pub fn leave(&self, session: u64, seat: PublicKey) {
        let mut entries = self.lock();
        let is_own = entries.get(&seat).is_some_and(|entry| entry.session == session);
        let gone = is_own.then(|| entries.remove(&seat));
        drop(entries);
        drop(gone);
    }

    /// Changes what is known of a miner.
    pub fn update(&self, session: u64, seat: PublicKey, change: impl FnOnce(&mut Miner)) {
        if let Some(entry) = self.lock().get_mut(&seat).filter(|entry| entry.session == session) {
            change(&mut entry.miner);
        }
    }

    /// How many are connected, and what their challenges do.
    #[must_use]
    pub fn census(&self) -> Census {
        let entries = self.lock();
        let running = entries.values().filter_map(|entry| entry.miner.running.as_ref());
        Census { connected: entries.len(), phases: running.map(|running| running.phase).collect() }
    }

    /// How many may be connected and challenged at once.
    #[must_use]
    pub const fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Everyone connected, in order of key.
    #[must_use]
    pub fn miners(&self) -> Vec<Miner> {
        let mut miners: Vec<_> = self.lock().values().map(|entry| entry.miner.clone()).collect();
        miners.sort_by_key(|miner| miner.key);
        miners
    }

    /// The challenge of a session with one of these keys.
    #[must_use]
    pub fn running(&self, key: PublicKey) -> Option<RunningChallenge> {
        self.lock().values().find(|entry| entry.miner.key == key)?.miner.running.clone()
    }

    /// How to reach a miner's session.
    #[must_use]
    pub fn commands(&self, key: PublicKey) -> Option<mpsc::Sender<SessionCommand>> {
        self.lock().values().find(|entry| entry.miner.key == key).map(|entry| entry.commands.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PublicKey, MinerEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_protocol::message::{RefusedCode, ValidatorMessage};
    use assay_work::Nonce;

    fn registry(max_miners: u32) -> Registry {
        Registry::new(Bounds { max_miners, ..Bounds::default() })
    }

    fn miner(key: u8) -> Miner {
        Miner {
            key: PublicKey([key; 32]),
            agent: "test".into(),
            address: None,
            inventory: Inventory::default(),
            challenged: false,
            running: None,
            since: Instant::now(),
            round_trip: None,
            resumption: Resumption::default(),
        }
    }

    #[test]
    fn a_new_session_takes_the_place_of_the_old_one() {
        let registry = registry(1);
        let (old, mut old_commands) = mpsc::channel(1);
        let (new, _new_commands) = mpsc::channel(1);
        assert!(registry.enter(1, PublicKey([7; 32]), miner(7), old, None, false).unwrap().is_none());
        let full = registry.enter(3, PublicKey([8; 32]), miner(8), new.clone(), None, false).unwrap_err();
        assert_eq!(full, EnterError::Full);
        let before = registry.enter(2, PublicKey([7; 32]), miner(7), new, None, false).unwrap();
        assert!(before.is_some(), "a key that is here takes over when all places are taken");
        assert!(matches!(old_commands.try_recv(), Ok(SessionCommand::Replaced { by: None })));
        // What it could have been asked meanwhile is not started any more.
        assert!(!registry.begin(1, PublicKey([7; 32])));
        // The old one leaves late: the new one stays.
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
        registry.enter(1, seat, miner(7), old, None, false).unwrap();
        let before = registry.enter(2, seat, miner(8), new.clone(), None, false).unwrap().unwrap();
        assert_eq!(before.key, seat);
        assert!(matches!(old_commands.try_recv(), Ok(SessionCommand::Replaced { .. })));
        assert_eq!(registry.miners().iter().map(|miner| miner.key).collect::<Vec<_>>(), [PublicKey([8; 32])]);
        assert!(registry.commands(PublicKey([8; 32])).is_some() && registry.commands(seat).is_none());
        assert!(registry.begin(2, seat));
        assert!(
            registry.enter(3, seat, miner(7), new, None, false).is_err(),
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
        let at = |address: &str| Miner { address: Some(address.parse().unwrap()), ..miner(7) };
        registry.enter(1, key, at("10.0.0.1:5000"), old, None, false).unwrap();
        assert!(registry.begin(1, key));
        let refused = registry.enter(2, key, at("10.0.0.2:5000"), new.clone(), None, false).unwrap_err();
        let ValidatorMessage::Refused { code, .. } = refused.refusal() else { panic!("a refusal") };
        assert_eq!(code, RefusedCode::InChallenge);
        let said = refused.to_string();
        assert!(said.contains("from 10.0.0.1:5000") && said.contains("key_file"), "{said}");
        assert!(old_commands.try_recv().is_err(), "the session with the challenge hears nothing");
        registry.update(1, key, |miner| miner.challenged = false);
        let before = registry.enter(2, key, at("10.0.0.2:5000"), new, None, false).unwrap().unwrap();
        assert_eq!(before.address, at("10.0.0.1:5000").address);
        let Ok(SessionCommand::Replaced { by }) = old_commands.try_recv() else { panic!("it is told to go") };
        assert_eq!(by, at("10.0.0.2:5000").address);
    }

    #[test]
    fn one_address_has_a_part_of_the_places_where_anyone_may_connect() {
        let at = |key: u8, host: u8| Miner { address: Some(([10, 0, 0, host], 5000).into()), ..miner(key) };
        let enter = |registry: &Registry, miner: Miner, is_open: bool| {
            registry.enter(1, miner.key, miner, mpsc::channel(1).0, None, is_open).map(|_| ())
        };
        let registry = Registry::new(Bounds { max_miners: 100, ..Bounds::default() });
        assert!((0..16).all(|key| enter(&registry, at(key, 1), true).is_ok()));
        assert_eq!(enter(&registry, at(16, 1), true), Err(EnterError::AddressFull(16)));
        assert_eq!(enter(&registry, at(3, 1), true), Ok(()), "a key that is here takes over from itself");
        assert_eq!(enter(&registry, at(16, 2), true), Ok(()));
        assert_eq!(enter(&registry, at(17, 1), false), Ok(()), "a list of keys bounds an address by itself");
        let registry = Registry::new(Bounds { max_address_miners: Some(1), ..Bounds::default() });
        assert_eq!(enter(&registry, at(1, 1), false), Ok(()));
        assert_eq!(enter(&registry, at(2, 1), false), Err(EnterError::AddressFull(1)), "as the operator says");
    }

    /// A miner that lost its connection takes its place back at once; another one with its key does not.
    #[test]
    fn a_challenge_is_taken_over_by_the_session_that_goes_on_from_its_own() {
        let registry = registry(2);
        let (key, nonce) = (PublicKey([7; 32]), |byte| Some(Nonce([byte; 32])));
        let session = |nonce, resumes| Miner { resumption: Resumption { nonce, resumes }, ..miner(7) };
        let enter = |number, miner: Miner| {
            let (commands, received) = mpsc::channel(1);
            registry.enter(number, miner.key, miner, commands, None, false).map(|_| received)
        };
        let mut first = enter(1, session(nonce(1), None)).unwrap();
        assert!(registry.begin(1, key));
        for other in [None, nonce(9)] {
            assert!(matches!(enter(2, session(nonce(2), other)), Err(EnterError::InChallenge(_))));
        }
        let mut second = enter(2, session(nonce(2), nonce(1))).unwrap();
        assert!(matches!(first.try_recv(), Ok(SessionCommand::Resumed { .. })));
        // Its miner never heard that the second one stood, and comes once more.
        assert!(registry.begin(2, key));
        let _third = enter(3, session(nonce(3), nonce(1))).unwrap();
        assert!(matches!(second.try_recv(), Ok(SessionCommand::Resumed { .. })));
    }
}
