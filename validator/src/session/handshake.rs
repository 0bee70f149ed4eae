//! A session's handshake: hello, welcome, proof.

use assay_protocol::identity::SessionTranscript;
use assay_protocol::message::{Hello, PROTOCOL_VERSIONS, RefusedCode, ValidatorMessage, Welcome};
use assay_work::{Nonce, Signature};

use super::{Session, SessionContext, SessionState};
use crate::action::Action;
use crate::allow::NotAllowed;
use crate::takeover::EnterError;

impl Session {
    pub(super) fn hello(&mut self, hello: Hello, context: &mut SessionContext<'_>) -> Vec<Action> {
        let common = PROTOCOL_VERSIONS.iter().rev().find(|v| hello.versions.contains(v));
        let Some(&version) = common else {
            let detail = format!("versions {PROTOCOL_VERSIONS:?} are spoken here, not {:?}", hello.versions);
            return self.refuse(RefusedCode::Version, &detail);
        };
        match self.admission.allowed.admit(hello.miner_key, &hello.successors, context.unix_seconds) {
            // Once it is proved, the key is noted, or the token used.
            Ok(()) | Err(NotAllowed::Pending) => {}
            Err(NotAllowed::TokenNeeded) if hello.join_token.is_some() => {}
            Err(why) => return self.refuse(why.code(), &why.to_string()),
        }
        let nonce = match context.entropy.bytes() {
            Ok(bytes) => Nonce(bytes),
            Err(error) => return self.close(error.to_string()),
        };
        let validator_key = self.admission.identity.public_key();
        let transcript = SessionTranscript {
            version,
            validator_key,
            miner_key: hello.miner_key,
            nonce,
            miner_nonce: hello.miner_nonce,
            channel: self.channel,
        };
        let welcome = Welcome {
            version,
            validator_key,
            nonce,
            signature: self.admission.identity.sign(&transcript.welcome_message()),
            agent: concat!("assay-validator/", env!("CARGO_PKG_VERSION")).into(),
            successors: self.admission.identity.successors().to_vec(),
        };
        self.nonce = Some(nonce);
        self.state = SessionState::AwaitProof { hello: Box::new(hello), transcript };
        vec![Action::send(ValidatorMessage::Welcome(welcome))]
    }

    pub(super) fn proof(&mut self, signature: &Signature) -> Vec<Action> {
        let SessionState::AwaitProof { hello, transcript } = std::mem::replace(&mut self.state, SessionState::Closed)
        else {
            return Vec::new();
        };
        if let Err(mismatch) = transcript.check_proof(signature) {
            return self.refuse(RefusedCode::Signature, &mismatch.to_string());
        }
        self.state = SessionState::Connected { miner_key: hello.miner_key, inventory: hello.inventory.clone() };
        // Entered first: where there is no place, the miner is not told that it is accepted.
        vec![Action::Established(hello), Action::send(ValidatorMessage::Accepted(self.admission.ping_interval))]
    }

    /// The miner that has just proved its key is not entered.
    pub fn not_entered(&mut self, error: EnterError) -> Vec<Action> {
        self.end_with(error.refusal(), &error.to_string())
    }
}
