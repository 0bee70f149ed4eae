//! What a refused miner is told, and when it may come back.

use std::time::Duration;

use assay_protocol::message::{RefusedCode, ValidatorMessage};

/// When a miner for which there is no place may ask again: a place becomes free when another miner leaves.
const FULL_PAUSE: Duration = Duration::from_secs(30);
/// When a miner may come back that came while there was too much to do: handshakes and checks take seconds.
const OVERLOAD_PAUSE: Duration = Duration::from_secs(10);
/// When a suspended miner may ask again, and one that waits longest for an operator: nothing is urgent for it.
pub const OPERATOR_PAUSE: Duration = Duration::from_secs(60);

/// A refusal, with the time after which the reason may be gone. Where an operator has to act, or a miner's own pauses
/// are as good, it has none.
#[must_use]
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
