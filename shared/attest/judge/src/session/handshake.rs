//! A session's handshake: hello, welcome, proof.

use assay_protocol::identity::SessionTranscript;
use assay_protocol::join_token::JoinToken;
use assay_protocol::message::{Hello, PROTOCOL_VERSIONS, RefusedCode, ValidatorMessage, Welcome};
use assay_protocol::successor::Lineage;
use assay_work::{Nonce, Signature};

use super::{SessionContext, SessionState, ValidatorSession};
use crate::action::Action;

impl ValidatorSession {
    pub(super) fn hello(&mut self, hello: Hello, context: &mut SessionContext<'_>) -> Vec<Action> {
        let common = PROTOCOL_VERSIONS.iter().rev().find(|v| hello.versions.contains(v));
        let Some(&version) = common else {
            let detail = format!("versions {PROTOCOL_VERSIONS:?} are spoken here, not {:?}", hello.versions);
            return self.refuse(RefusedCode::Version, &detail);
        };
        let nonce = match context.entropy.bytes() {
            Ok(bytes) => Nonce(bytes),
            Err(error) => return self.end(None, error.to_string()),
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

    /// Checks the proof: only the holder of the key learns whether it may connect.
    pub(super) fn proof(
        &mut self,
        signature: &Signature,
        token: Option<JoinToken>,
        now_unix_seconds: u64,
    ) -> Vec<Action> {
        let SessionState::AwaitProof { hello, transcript } = std::mem::replace(&mut self.state, SessionState::Closed)
        else {
            return Vec::new();
        };
        if let Err(mismatch) = transcript.check_proof(signature) {
            return self.refuse(RefusedCode::Signature, &mismatch.to_string());
        }
        let miner = Lineage::verify(hello.miner_key, &hello.successors);
        if let Err((code, why)) = self.admission.access.check(&miner, token.is_some(), now_unix_seconds) {
            return self.refuse(code, &why);
        }
        self.state = SessionState::Connected { miner_key: hello.miner_key, inventory: hello.inventory.clone() };
        // Entered first: without a free place, the miner gets no acceptance.
        vec![Action::Established(hello, token), Action::send(ValidatorMessage::Accepted(self.admission.ping_interval))]
    }

    /// Refuses a miner that has just proved its key.
    pub fn not_entered(&mut self, refusal: ValidatorMessage, why: &str) -> Vec<Action> {
        self.end_with(refusal, why)
    }
}
