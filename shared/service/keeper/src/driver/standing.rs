//! The keys of a miner, and whether it may stay.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use assay_program::utc;
use assay_protocol::channel::Channel;
use assay_protocol::join_token::JoinToken;
use assay_protocol::message::Hello;
use assay_protocol::successor::Lineage;
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_records::{ConnectedSession, MinerRecord};
use assay_work::PublicKey;
use tokio::sync::watch;

use super::Driver;
use crate::allow::{AdmissionError, AdmissionReason, FollowedKey, Lists};
use crate::events::{self, EventSession};
use crate::registry::ConnectedMiner;
use crate::takeover::{EnterError, SessionNonces};
use assay_judge::action::Action;
use assay_program::clock::{self, unix_seconds};

/// Wait after a miner's proof before its first challenge: one ping must have come back.
const CONNECT_DELAY: Duration = Duration::from_millis(500);
/// The most that the session of a revoked key takes to end: its last message, and a verdict on its way to the disk.
pub(super) const REVOKED_LIMIT: Duration = Duration::from_millis(500);

/// Keys of a miner.
#[derive(Debug, Clone)]
pub(super) struct MinerKeys {
    /// Its key and the keys that it follows.
    pub(super) lineage: Lineage,
    /// The first of these keys that the records know: its place in the registry.
    pub(super) seat: PublicKey,
}

impl Driver {
    /// Enters the miner, or returns the reason for a refusal.
    pub(super) async fn established(&mut self, hello: Hello, token: Option<JoinToken>) -> Result<(), EnterError> {
        let lineage = self.stand(&hello);
        let devices = hello.inventory.devices.len();
        let (session, address, since) = (self.number, self.peer.as_ref().map(|peer| peer.address), clock::now());
        let who = EventSession { session, miner: hello.miner_key, address, agent: hello.agent.clone(), since };
        let mut connected = self.connected_record(&hello);
        let entered = self.enter(&lineage, (hello, token), &who, &mut connected).await;
        let gate = &self.validator.listening.gate;
        let counts = &self.validator.reports.metrics.families;
        let (seat, before, record) = entered.inspect_err(|error| {
            counts.refused(error);
            events::not_entered(gate, &who, *error);
        })?;
        counts.entered();
        events::connected(gate, &who, devices, before.as_ref().map(|before| &before.who));
        self.host.noted_devices = connected.devices;
        self.host.record = Some(record);
        self.host.lease = Some(Arc::new(self.validator.leases.enter(seat)));
        self.notice();
        self.due.is_first = true;
        self.due.next_challenge = Some(clock::now() + CONNECT_DELAY);
        self.host.who = Some(who);
        self.look_for_missing().await;
        Ok(())
    }

    /// Gives the miner its place and records it, if it may have one: returns the place, the session that had it before,
    /// and the miner's record.
    async fn enter(
        &mut self,
        lineage: &Lineage,
        (hello, token): (Hello, Option<JoinToken>),
        who: &EventSession,
        connected: &mut ConnectedSession,
    ) -> Result<(PublicKey, Option<ConnectedMiner>, MinerRecord), EnterError> {
        let validator = self.validator.clone();
        validator.listening.gate.begin_session(who.miner, who.since).map_err(EnterError::TooOften)?;
        // Without a listener the miner is on this machine.
        let is_private = self.peer.as_ref().is_none_or(|peer| is_private(peer.channel(), peer.address.ip()));
        validator.admit(lineage, token.as_ref(), is_private, connected).await?;
        let keys = validator.access.allowed.lists().chain(lineage, unix_seconds());
        connected.keys = keys.iter().map(ToString::to_string).collect();
        let miner = ConnectedMiner {
            who: who.clone(),
            inventory: hello.inventory,
            challenged: false,
            running: None,
            round_trip: None,
            missing: Vec::new(),
            resumption: SessionNonces { nonce: self.session.nonce(), resumes: hello.resumes },
        };
        let (commands, peer) = (self.commands.clone(), self.peer.as_ref());
        let bounds = &validator.registry.bounds;
        let most = bounds.address_miners(validator.access.allowed.lists().is_open());
        let seat = validator.seat(&connected.keys).await?;
        // A miner that took turns with its keys would never stay until its challenge is due.
        validator.listening.gate.take_seat(seat, who.since).map_err(EnterError::TooOften)?;
        let enter = |most| validator.registry.enter(self.number, seat, miner.clone(), commands.clone(), peer, most);
        let before = match enter(most) {
            // A neighbour's new keys keep no attested miner of the address out: it has as many places again.
            Err(EnterError::AddressFull(_))
                if bounds.max_address_miners.is_none() && validator.is_attested(seat).await? =>
            {
                enter(2 * most)?
            }
            entered => entered?,
        };
        // Before the next wait: a session that panics there leaves its seat.
        self.host.standing = Some(MinerKeys { lineage: lineage.clone(), seat });
        let record = validator.note_connected(connected).await.inspect_err(|_| {
            self.leave_seat();
            self.host.standing = None;
            // The records may have its start: the answer alone was late.
            validator.registry.unrecorded.keep(self.session_end("it was not admitted"));
        })?;
        Ok((seat, before, record))
    }

    /// Looks up the keys of the miner that has just proved its own.
    fn stand(&self, hello: &Hello) -> Lineage {
        let now = unix_seconds();
        let lineage = Lineage::verify(hello.miner_key, &hello.successors);
        let allowed = &self.validator.access.allowed;
        if let Ok(Some(FollowedKey { old_key, until_unix_seconds })) = allowed.check(&lineage, now)
            && allowed.admitted(&old_key) == AdmissionReason::Listed
        {
            tracing::warn!(
                miner = %lineage.key(),
                follows = %old_key,
                until = utc::text(until_unix_seconds),
                "this miner has a new key, for which one in allowed_miners vouches: put the new key in its place by then"
            );
        }
        lineage
    }

    /// Key of the miner, once proved.
    pub(super) fn key(&self) -> Option<PublicKey> {
        self.host.who.as_ref().map(|who| who.miner)
    }

    /// The miner's place in the registry, once its key is proved.
    pub(super) fn seat(&self) -> Option<PublicKey> {
        self.host.standing.as_ref().map(|standing| standing.seat)
    }

    /// Changes the miner's snapshot in the registry, while the session has its place there.
    pub(super) fn update(&self, change: impl FnOnce(&mut ConnectedMiner)) {
        if let Some(seat) = self.seat() {
            self.validator.registry.update(self.number, seat, change);
        }
    }

    pub(super) fn leave_seat(&self) {
        if let Some(seat) = self.seat() {
            self.validator.registry.leave(self.number, seat);
        }
    }

    /// The reason why the miner may not stay; `None` if it may.
    pub(super) fn not_allowed(&self) -> Option<AdmissionError> {
        let standing = self.host.standing.as_ref()?;
        self.validator.access.allowed.check(&standing.lineage, unix_seconds()).err()
    }

    pub(super) fn expel(&mut self) -> Vec<Action> {
        self.not_allowed().map(|why| self.session.expel(why.dismissal())).unwrap_or_default()
    }

    /// Ends the session now, with its current challenge.
    pub(super) fn revoke(&mut self) -> Vec<Action> {
        self.end.revoked_at = Some(clock::now());
        let why = self.end.interrupted.or_else(|| self.not_allowed());
        let Some(why) = why else { return Vec::new() };
        let done = if why == AdmissionError::Suspended { "suspended" } else { "revoked" };
        let reason = Reason::new(ReasonCode::Cancelled, format!("the miner's key was {done}"));
        self.session.revoke(reason, why.dismissal())
    }

    pub(super) fn log_end(&self, why: &str) {
        let (gate, address) = (&self.validator.listening.gate, self.peer.as_ref().map(|peer| peer.address));
        match &self.host.who {
            Some(who) => events::left(gate, who, why),
            None => events::turned_away(gate, self.number, address, why),
        }
    }
}

/// Whether a token from this address cannot be read on its way.
fn is_private(channel: Channel, address: IpAddr) -> bool {
    channel != Channel::Plaintext || address.is_loopback()
}

/// Waits until the lists revoke a key of the miner; for ever while no key is proved.
pub(super) async fn revocation(lists: &mut watch::Receiver<Lists>, standing: Option<&MinerKeys>) -> AdmissionError {
    let Some(MinerKeys { lineage, .. }) = standing else { return std::future::pending().await };
    loop {
        let refused = lists.borrow_and_update().check(lineage, unix_seconds()).err();
        if let Some(why) = refused.filter(|why| why.is_revocation()) {
            return why;
        }
        if lists.changed().await.is_err() {
            // The validator is ending.
            return std::future::pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_in_clear_from_this_machine_alone() {
        let [here, there] = ["127.0.0.1", "192.0.2.1"].map(|address| address.parse().unwrap());
        let tls = Channel::Tls(Default::default());
        let private = [(tls, there), (Channel::Plaintext, here), (Channel::Plaintext, there)];
        assert_eq!(private.map(|(channel, address)| is_private(channel, address)), [true, true, false]);
    }
}
