//! The generated types of `proto/` and their conversions to and from the domain's types. Only code that speaks gRPC
//! uses this module.
//!
//! Receiving: `MinerMessage::try_from(request)`, `ValidatorMessage::try_from(response)`. Every field is checked, and a
//! violated bound of [`limits`] is a [`WireError`] that names the field; [`lists`] are counted before. Whether a message fits its session and its
//! challenge is for the session to check.
//!
//! Sending: `v1::SessionRequest::from(message)`, `v1::SessionResponse::from(message)`. It cannot fail: texts are made
//! printable and cut to their bound, durations and counts are clamped to their range, numbers that are not finite
//! become the nearest finite ones. Lists are sent as they are; their authors keep to [`limits`].

#[macro_use]
mod convert;

pub mod bounded;
pub mod codec;
mod codes;
mod error;
mod field;
mod handshake;
mod inventory;
pub mod limits;
pub mod lists;
mod openings;
mod session;
pub mod stored;
mod telemetry;
mod verdict;
mod work;

#[cfg(test)]
mod tests;

pub use error::{FieldProblem, WireError};

/// The generated types of `proto/assay/v1`.
#[allow(missing_docs, clippy::all, unused_qualifications)]
pub mod v1 {
    tonic::include_proto!("assay.v1");

    /// The encoded descriptors, for the bounds of lists.
    pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/assay_descriptor.bin"));
}
