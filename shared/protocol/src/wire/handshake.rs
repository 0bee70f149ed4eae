//! The start of a session, and the end of one or of a challenge.

use std::time::Duration;

use super::codes::Code;
use super::field::{
    self, BoundedText, ByteString, ByteStrings, Checked, Milliseconds, OptionalByteString, OptionalMilliseconds,
    Required,
};
use super::limits::{
    MAX_AGENT_BYTES, MAX_DETAIL_BYTES, MAX_PING_INTERVAL_MS, MAX_RETRY_AFTER_MS, MAX_SUCCESSORS, MAX_VERSIONS,
    MIN_PING_INTERVAL_MS,
};
use crate::message::{Hello, RefusedCode, Stop, StopCode, Welcome};
use assay_work::Signature;

messages! {
    v1::Hello = Hello {
        versions: Checked(|field, versions: &Vec<u32>| field::at_most(field, MAX_VERSIONS, versions.len())),
        miner_key: ByteString,
        miner_nonce: ByteString,
        agent: BoundedText(MAX_AGENT_BYTES),
        inventory: Required,
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
    v1::Proof = (Signature) { signature: ByteString }
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
