//! By which keys a miner is known, and whether it may stay.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_program::utc;
use assay_protocol::channel::Channel;
use assay_protocol::message::Hello;
use assay_protocol::successor::{Lineage, Successor};
use assay_records::{Connected, MinerRecord};
use assay_work::PublicKey;
use tokio::sync::watch;

use super::Driver;
use crate::action::Action;
use crate::allow::{Followed, Lists, NotAllowed};
use crate::clock::unix_seconds;
use crate::events::{self, Who};
use crate::history::devices::follow_note;
use crate::peer::Peer;
use crate::registry::Miner;
use crate::takeover::{EnterError, Resumption};

/// How long the session of a revoked key may take to end: its last words, and a verdict on its way to the disk.
pub(super) const REVOKED_LIMIT: Duration = Duration::from_millis(500);

/// By which keys a miner is known.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    /// Its key, and those that it follows.
    pub(super) lineage: Lineage,
    /// The first of them: its place in the registry.
    pub(super) seat: PublicKey,
}

impl Driver {
    /// Enters the miner, or says why not.
    pub(super) async fn established(&mut self, hello: Hello) -> Result<(), EnterError> {
        let standing = self.stand(&hello);
        let devices = hello.inventory.devices.len();
        let (session, address, since) = (self.number, self.peer.as_ref().map(|peer| peer.address), Instant::now());
        let who = Who { session, miner: hello.miner_key, address, agent: hello.agent.clone(), since };
        let connected = self.connected_record(&standing.lineage, &hello);
        let entered = self.enter(&standing, hello, &who, &connected).await;
        let gate = &self.validator.gate;
        let counts = &self.validator.metrics.network;
        let (before, record) = entered.inspect_err(|error| {
            counts.refused(error);
            events::not_entered(gate, &who, *error);
        })?;
        counts.sessions.inc();
        events::connected(gate, &who, devices, before.as_ref());
        self.noted_devices = connected.devices;
        self.record = Some(record);
        self.lease = Some(Arc::new(self.validator.leases.enter(standing.seat)));
        self.notice();
        self.schedule_first();
        self.who = Some(who);
        self.standing = Some(standing);
        Ok(())
    }

    /// Gives the miner its place and notes it in the records, where it may have one: the session whose place it took, and
    /// what the records have of it.
    async fn enter(
        &self,
        standing: &Standing,
        hello: Hello,
        who: &Who,
        connected: &Connected,
    ) -> Result<(Option<Miner>, MinerRecord), EnterError> {
        let (validator, address) = (&self.validator, who.address);
        validator.gate.begin_session(who.miner, who.since).map_err(EnterError::TooOften)?;
        // Without a listener the miner is on this machine.
        let is_private = |peer: &Peer| peer.channel() != Channel::Plaintext || peer.address.ip().is_loopback();
        let is_private = self.peer.as_ref().is_none_or(is_private);
        validator.admit(&standing.lineage, hello.join_token.as_ref(), is_private, connected).await?;
        let miner = Miner {
            key: hello.miner_key,
            agent: hello.agent,
            address,
            inventory: hello.inventory,
            challenged: false,
            running: None,
            since: who.since,
            round_trip: None,
            resumption: Resumption { nonce: self.session.nonce(), resumes: hello.resumes },
        };
        let (commands, peer) = (self.commands.clone(), self.peer.as_ref());
        let is_open = validator.admission.allowed.is_open();
        let before = validator.registry.enter(self.number, standing.seat, miner, commands, peer, is_open)?;
        let record = validator.note_connected(connected).await;
        let record = record.inspect_err(|_| validator.registry.leave(self.number, standing.seat))?;
        Ok((before, record))
    }

    /// By which keys the miner is known that has just proved its own. What is known of those that it follows stands for
    /// it too; a revoked one vouches for nobody.
    fn stand(&self, hello: &Hello) -> Standing {
        let (admission, now) = (&self.validator.admission, unix_seconds());
        let lineage = Lineage::verify(hello.miner_key, &hello.successors);
        let stands = |s: &Successor| s.is_current(now) && !admission.allowed.is_barred(&s.old_key);
        // The oldest first: a key in the middle of a chain follows before it is followed.
        for Successor { new_key, old_key, .. } in lineage.standing(stands).into_iter().rev() {
            if admission.history.follow(new_key, old_key) {
                tracing::info!(miner = %new_key, follows = %old_key, "what is known of a key stands for its successor");
                let (log, line) = (self.validator.verdicts.clone(), follow_note(new_key, old_key, now));
                // The next start knows it by this line; until then it is known anyway.
                tokio::spawn(async move { log.append(line).await });
            }
        }
        if let Ok(Some(Followed { old_key, until_unix_seconds })) = admission.allowed.check(&lineage, now) {
            tracing::warn!(
                miner = %lineage.key(),
                follows = %old_key,
                until = utc::text(until_unix_seconds),
                "this miner has a new key, for which one in allowed_miners vouches: put the new key in its place by then"
            );
        }
        let seat = admission.history.kin.root(lineage.key());
        Standing { lineage, seat }
    }

    /// The miner's key, once it is proved.
    pub(super) fn key(&self) -> Option<PublicKey> {
        self.who.as_ref().map(|who| who.miner)
    }

    /// The miner's place in the registry, once it proved its key.
    pub(super) fn seat(&self) -> Option<PublicKey> {
        self.standing.as_ref().map(|standing| standing.seat)
    }

    /// Why the miner may not stay, where that is so.
    pub(super) fn not_allowed(&self) -> Option<NotAllowed> {
        let standing = self.standing.as_ref()?;
        self.validator.admission.allowed.check(&standing.lineage, unix_seconds()).err()
    }

    pub(super) fn expel(&mut self) -> Vec<Action> {
        self.not_allowed().map(|why| self.session.expel(why)).unwrap_or_default()
    }

    /// Ends the session now, and with it a challenge that runs.
    pub(super) fn revoke(&mut self) -> Vec<Action> {
        self.revoked_at = Some(Instant::now());
        let why = self.interrupted.or_else(|| self.not_allowed());
        why.map(|why| self.session.revoke(why)).unwrap_or_default()
    }

    pub(super) fn ended(&self, address: Option<SocketAddr>, why: &str) {
        match &self.who {
            Some(who) => events::left(&self.validator.gate, who, why),
            None => events::turned_away(&self.validator.gate, self.number, address, why),
        }
    }
}

/// Waits until the lists revoke a miner, or a key by which it stands; for ever for one that has not proved its key.
pub(super) async fn revocation(lists: &mut watch::Receiver<Lists>, standing: Option<&Standing>) -> NotAllowed {
    let Some(Standing { lineage, .. }) = standing else { return std::future::pending().await };
    loop {
        let refused = lists.borrow_and_update().check(lineage, unix_seconds()).err();
        if let Some(why) = refused.filter(|why| why.is_revocation()) {
            return why;
        }
        if lists.changed().await.is_err() {
            // The validator ends.
            return std::future::pending().await;
        }
    }
}
