//! Refusals of miners, with the time of the next attempt.

use std::time::Duration;

use assay_protocol::message::{RefusedCode, ValidatorMessage};

/// Retry time when no place is free: a place becomes free when another miner leaves.
const FULL_PAUSE: Duration = Duration::from_secs(30);
/// Retry time under overload: handshakes and checks take seconds.
const OVERLOAD_PAUSE: Duration = Duration::from_secs(10);
/// Retry time of a suspended miner, and the longest of one that waits for an operator: nothing is urgent for it.
pub const OPERATOR_PAUSE: Duration = Duration::from_secs(60);

/// A refusal, with the time after which the reason may be gone. Where an operator has to act, or a miner's own pauses
/// suffice, it carries no time.
pub const fn refusal(code: RefusedCode, detail: String) -> ValidatorMessage {
    let retry_after = match code {
        RefusedCode::Full => Some(FULL_PAUSE),
        RefusedCode::Overloaded => Some(OVERLOAD_PAUSE),
        RefusedCode::Pending | RefusedCode::Suspended => Some(OPERATOR_PAUSE),
        RefusedCode::Version
        | RefusedCode::Signature
        | RefusedCode::NotAllowed
        | RefusedCode::JoinToken
        | RefusedCode::Draining
        | RefusedCode::Malformed
        | RefusedCode::InChallenge => None,
    };
    ValidatorMessage::Refused { code, detail, retry_after }
}
