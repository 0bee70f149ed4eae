//! Malformed messages are refused without a panic, and an accepted message has one meaning.

use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

use super::super::v1;
use super::strategies::{miner_message, validator_message};
use super::{miner_round_trip, validator_round_trip};
use crate::message::{MinerMessage, ValidatorMessage};

/// Bytes to overwrite in a message, by position and value.
fn damage() -> impl Strategy<Value = Vec<(proptest::sample::Index, u8)>> {
    vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4)
}

fn damaged(mut bytes: Vec<u8>, damage: &[(proptest::sample::Index, u8)]) -> Vec<u8> {
    if !bytes.is_empty() {
        for (place, value) in damage {
            *place.get_mut(&mut bytes) = *value;
        }
    }
    bytes
}

/// An accepted message is the same after another round trip.
fn read_as_miner(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(request) = v1::SessionRequest::decode(bytes) else { return Ok(()) };
    let Ok(message) = MinerMessage::try_from(request) else { return Ok(()) };
    prop_assert_eq!(miner_round_trip(message.clone()), Ok(message));
    Ok(())
}

/// An accepted message is the same after another round trip.
fn read_as_validator(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(response) = v1::SessionResponse::decode(bytes) else { return Ok(()) };
    let Ok(message) = ValidatorMessage::try_from(response) else { return Ok(()) };
    prop_assert_eq!(validator_round_trip(message.clone()), Ok(message));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..512)) {
        read_as_miner(&bytes)?;
        read_as_validator(&bytes)?;
    }

    #[test]
    fn a_damaged_request(message in miner_message(), damage in damage()) {
        read_as_miner(&damaged(v1::SessionRequest::from(message).encode_to_vec(), &damage))?;
    }

    #[test]
    fn a_damaged_response(message in validator_message(), damage in damage()) {
        read_as_validator(&damaged(v1::SessionResponse::from(message).encode_to_vec(), &damage))?;
    }
}
