//! The start of a session, and the end of one or of a challenge.

use std::time::Duration;

use super::codes::Code;
use super::error::{FieldProblem, WireError};
use super::field::{
    self, BoundedText, ByteString, ByteStrings, CheckedValue, FieldKind, Milliseconds, OptionalByteString,
    OptionalMilliseconds, RequiredMessage,
};
use super::limits::{
    MAX_AGENT_BYTES, MAX_DETAIL_BYTES, MAX_JOIN_TOKEN_BYTES, MAX_PING_INTERVAL_MS, MAX_RETRY_AFTER_MS, MAX_SUCCESSORS,
    MAX_VERSIONS, MIN_PING_INTERVAL_MS,
};
use crate::join_token::{JoinToken, JoinTokenError};
use crate::message::{Hello, RefusedCode, Stop, StopCode, Welcome};
use assay_work::Signature;

messages! {
    v1::Hello = Hello {
        versions: CheckedValue(|field, versions: &Vec<u32>| field::at_most(field, MAX_VERSIONS, versions.len())),
        miner_key: ByteString,
        miner_nonce: ByteString,
        agent: BoundedText(MAX_AGENT_BYTES),
        inventory: RequiredMessage,
        successors: ByteStrings(MAX_SUCCESSORS),
        resumes: OptionalByteString,
    }
    v1::Welcome = Welcome {
        version,
        validator_key: ByteString,
        nonce: ByteString,
        signature: ByteString,
        agent: BoundedText(MAX_AGENT_BYTES),
        successors: ByteStrings(MAX_SUCCESSORS),
    }
    v1::Proof = (Signature, Option<JoinToken>) { signature: ByteString, join_token: OptionalToken }
    v1::Accepted = (Duration) { ping_interval_ms: Milliseconds(MIN_PING_INTERVAL_MS, MAX_PING_INTERVAL_MS) }
    v1::Refused = (RefusedCode, String, Option<Duration>) {
        code: Code,
        detail: BoundedText(MAX_DETAIL_BYTES),
        retry_after_ms as retry_after: OptionalMilliseconds(MAX_RETRY_AFTER_MS),
    }
    v1::Ping | v1::Pong = (u64) { sequence }
    v1::Declined | v1::Abort = Stop {
        challenge_id: ByteString,
        code: Code,
        detail: BoundedText(MAX_DETAIL_BYTES),
    }
    v1::Goodbye = (StopCode, String) { code: Code, detail: BoundedText(MAX_DETAIL_BYTES) }
}

/// A join token, or none: [`FieldProblem::TooLong`], [`FieldProblem::Unprintable`].
struct OptionalToken;

impl FieldKind<String, Option<JoinToken>> for OptionalToken {
    fn read(&self, field: &'static str, text: String) -> Result<Option<JoinToken>, WireError> {
        match text.parse() {
            Ok(token) => Ok(Some(token)),
            Err(JoinTokenError::Empty) => Ok(None),
            Err(JoinTokenError::TooLong(found)) => {
                Err(WireError::new(field, FieldProblem::TooLong { max: MAX_JOIN_TOKEN_BYTES, found }))
            }
            Err(JoinTokenError::NotOneWord) => Err(WireError::new(field, FieldProblem::Unprintable)),
        }
    }

    fn write(&self, token: Option<JoinToken>) -> String {
        token.map_or_else(String::new, |token| token.secret().to_owned())
    }
}
