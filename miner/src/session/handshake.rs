//! The handshake and its refusals.

use std::time::{Duration, Instant};

use assay_protocol::identity::SessionTranscript;
use assay_protocol::message::{Hello, MinerMessage, PROTOCOL_VERSIONS, Welcome};
use assay_protocol::successor::Lineage;
use assay_work::{Nonce, PublicKey};

use super::{CloseReason, MinerSession, SessionAction, SessionLimits, SessionStart};

/// How far the handshake is; nothing that comes after the end of the session has an effect.
#[derive(Debug)]
pub(super) enum Handshake {
    AwaitWelcome { miner_nonce: Nonce },
    AwaitAccepted { validator_key: PublicKey, followed: Option<(PublicKey, u64)> },
    Done { validator_key: PublicKey, ping_interval: Duration },
    Closed,
}

impl MinerSession {
    /// A session that begins now on a connection, and its hello.
    pub fn start(start: SessionStart, now: Instant) -> (Self, Vec<SessionAction>) {
        let SessionStart { identity, pinned, channel, inventory, miner_nonce, resumes, join_token, unix_seconds } =
            start;
        let hello = Hello {
            versions: PROTOCOL_VERSIONS.to_vec(),
            miner_key: identity.public_key(),
            miner_nonce,
            agent: concat!("assay-miner/", env!("CARGO_PKG_VERSION")).into(),
            inventory: inventory.clone(),
            successors: identity.successors().to_vec(),
            resumes,
        };
        let session = Self {
            identity,
            pinned,
            unix_seconds,
            channel,
            join_token,
            handshake: Handshake::AwaitWelcome { miner_nonce },
            nonce: None,
            inventory,
            running: None,
            draining: false,
            limits: SessionLimits::default(),
            started: now,
            heard: now,
        };
        (session, vec![SessionAction::Send(MinerMessage::Hello(hello))])
    }

    pub(super) fn welcome(&mut self, welcome: &Welcome) -> Vec<SessionAction> {
        let Handshake::AwaitWelcome { miner_nonce } = self.handshake else {
            return self.close(CloseReason::OutOfPlace("a second welcome"));
        };
        if !PROTOCOL_VERSIONS.contains(&welcome.version) {
            return self.close(CloseReason::OutOfPlace("a version that this miner did not offer"));
        }
        let transcript = SessionTranscript {
            version: welcome.version,
            validator_key: welcome.validator_key,
            miner_key: self.identity.public_key(),
            nonce: welcome.nonce,
            miner_nonce,
            channel: self.channel,
        };
        if let Err(mismatch) = transcript.check_welcome(&welcome.signature) {
            return self.close(CloseReason::BadWelcome(mismatch));
        }
        // After the signature: where something in between passes a session on, it is named, not the key.
        let followed = match self.expected(welcome) {
            Ok(followed) => followed,
            Err(closed) => return self.close(closed),
        };
        self.handshake = Handshake::AwaitAccepted { validator_key: welcome.validator_key, followed };
        self.nonce = Some(welcome.nonce);
        // The token only now: before, anybody could have been at the other end.
        let proof = MinerMessage::Proof(self.identity.sign(&transcript.proof_message()), self.join_token.take());
        vec![SessionAction::Send(proof)]
    }

    /// Whether the validator is the one to serve: the old key that it follows, and until when, where it has a new one.
    fn expected(&self, welcome: &Welcome) -> Result<Option<(PublicKey, u64)>, CloseReason> {
        let found = welcome.validator_key;
        let Some(expected) = self.pinned.filter(|key| *key != found) else { return Ok(None) };
        let lineage = Lineage::verify(found, &welcome.successors);
        if let Some(until) = lineage.until(&expected, |statement| statement.is_current(self.unix_seconds)) {
            return Ok(Some((expected, until)));
        }
        let ended = lineage.until(&expected, |_| true).filter(|until| *until <= self.unix_seconds);
        Err(CloseReason::WrongValidator { expected, found, ended })
    }

    pub(super) fn accepted(&mut self, ping_interval: Duration) -> Vec<SessionAction> {
        let Handshake::AwaitAccepted { validator_key, followed } = self.handshake else {
            return self.close(CloseReason::OutOfPlace("an acceptance out of turn"));
        };
        self.handshake = Handshake::Done { validator_key, ping_interval };
        let followed =
            followed.map(|(pinned, until_unix_seconds)| SessionAction::Followed { pinned, until_unix_seconds });
        [SessionAction::Established(validator_key)].into_iter().chain(followed).collect()
    }
}

#[cfg(test)]
mod tests {
    use assay_protocol::channel::Channel;
    use assay_protocol::identity::Identity;
    use assay_protocol::message::{Inventory, RefusedCode, ValidatorMessage};

    use super::super::SessionEvent;
    use super::*;

    /// Any program that takes the validator's port can send a refusal before a welcome.
    #[test]
    fn no_refusal_before_the_welcome_ends_a_miner_for_want_of_a_proof() {
        let start = || SessionStart {
            identity: Identity::from_seed(&[2; 32]),
            pinned: None,
            channel: Channel::Plaintext,
            inventory: Inventory::default(),
            miner_nonce: Nonce([4; 32]),
            resumes: None,
            join_token: None,
            unix_seconds: 0,
        };
        for code in [RefusedCode::Signature, RefusedCode::NotAllowed, RefusedCode::JoinToken, RefusedCode::Suspended] {
            let (mut session, _) = MinerSession::start(start(), Instant::now());
            let refused = ValidatorMessage::Refused { code, detail: String::new(), retry_after: None };
            let actions = session.handle(SessionEvent::Message(refused), Instant::now());
            let [SessionAction::Close(closed)] = &actions[..] else { panic!("{actions:?}") };
            assert!(matches!(closed, CloseReason::OutOfPlace(_)) && !closed.needs_operator(), "{code:?}: {closed}");
        }
    }
}
