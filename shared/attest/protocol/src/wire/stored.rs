//! Messages of a session as bytes that outlive it: stored with a challenge, and read again by a later release.

use prost::Message;

use super::error::{FieldProblem, WireError};
use super::limits::MAX_MESSAGE_BYTES;
use super::{lists, v1};
use crate::message::{MinerMessage, ValidatorMessage};

/// A miner's message, as it would be sent.
pub fn miner_bytes(message: MinerMessage) -> Vec<u8> {
    v1::SessionRequest::from(message).encode_to_vec()
}

/// A validator's message, as it would be sent.
pub fn validator_bytes(message: ValidatorMessage) -> Vec<u8> {
    v1::SessionResponse::from(message).encode_to_vec()
}

/// Reads a miner's message, with every check of one that is received.
///
/// # Errors
/// As for one that is received; [`FieldProblem::TooLong`] above [`MAX_MESSAGE_BYTES`].
pub fn miner_message(bytes: &[u8]) -> Result<MinerMessage, WireError> {
    decode::<v1::SessionRequest>("SessionRequest", bytes)?.try_into()
}

/// Reads a validator's message, with every check of one that is received.
///
/// # Errors
/// As for one that is received; [`FieldProblem::TooLong`] above [`MAX_MESSAGE_BYTES`].
pub fn validator_message(bytes: &[u8]) -> Result<ValidatorMessage, WireError> {
    decode::<v1::SessionResponse>("SessionResponse", bytes)?.try_into()
}

fn decode<M: Message + Default + 'static>(name: &'static str, bytes: &[u8]) -> Result<M, WireError> {
    let (max, found) = (MAX_MESSAGE_BYTES, bytes.len());
    if found > max {
        return Err(WireError::new(name, FieldProblem::TooLong { max, found }));
    }
    lists::check::<M>(bytes)?;
    M::decode(bytes).map_err(|_| WireError::new(name, FieldProblem::Encoding("does not decode")))
}
