//! Tests of the wire: round trips, every bound from both sides, and malformed messages.

mod bounds;
mod codes;
mod garbage;
mod largest;
mod list_counts;
mod round_trip;
mod samples;
mod strategies;

use prost::Message;

use super::{WireError, lists, v1};
use crate::message::{MinerMessage, ValidatorMessage};

/// Domain → wire → bytes → wire → domain.
fn miner_round_trip(message: MinerMessage) -> Result<MinerMessage, WireError> {
    let bytes = v1::SessionRequest::from(message).encode_to_vec();
    lists::check::<v1::SessionRequest>(&bytes)?;
    v1::SessionRequest::decode(bytes.as_slice()).expect("what prost wrote").try_into()
}

/// Domain → wire → bytes → wire → domain.
fn validator_round_trip(message: ValidatorMessage) -> Result<ValidatorMessage, WireError> {
    let bytes = v1::SessionResponse::from(message).encode_to_vec();
    lists::check::<v1::SessionResponse>(&bytes)?;
    v1::SessionResponse::decode(bytes.as_slice()).expect("what prost wrote").try_into()
}

/// A generated message that is read in its envelope, as in a session.
trait Read: Clone {
    fn read(self) -> Result<(), WireError>;
}

macro_rules! read_in {
    ($envelope:ident $oneof:ident $domain:ident: $($name:ident)*) => {
        $(impl Read for v1::$name {
            fn read(self) -> Result<(), WireError> {
                let message = Some(v1::$oneof::Message::$name(self));
                $domain::try_from(v1::$envelope { message }).map(drop)
            }
        })*
    };
}

read_in! { SessionRequest session_request MinerMessage:
Hello Proof Inventory Declined Progress Commitment DeviceRoots ProbeAnswer DeviceDigests OpeningsChunk Abort }
read_in! { SessionResponse session_response ValidatorMessage:
Welcome Accepted Refused Challenge Probe Sweep Open Verdict Goodbye }
