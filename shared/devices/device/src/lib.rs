//! The contract of a compute device and of a backend, and the code that all backends share.
//!
//! A [`Device`] holds slots and works on them. A [`Backend`](backend::Backend) finds devices and opens them. Above
//! both, [`host`] drives each device on a thread of its own, [`run`] does a device's part of a challenge, and [`open`]
//! builds openings from its slots. [`linked`] walks a probe over the slots of all devices together.

#![deny(unsafe_code)]

pub mod accumulator;
pub mod backend;
#[cfg(feature = "bench")]
pub mod bench;
pub mod chunks;
pub mod copies;
mod device;
mod error;
pub mod host;
mod kind;
pub mod linked;
pub mod machine;
pub mod open;
pub mod pace;
pub mod place;
pub mod resident;
pub mod run;
mod shared_slots;
// The kits' devices are of another compilation of this crate than its own tests, which compile the reference again.
#[cfg(test)]
extern crate self as assay_device;
#[cfg(test)]
#[path = "../../../../integration-tests/kits/src/naive.rs"]
pub mod naive;
#[cfg(test)]
#[path = "../../../../integration-tests/kits/src/reference.rs"]
pub mod reference;

pub use device::{
    Device, DeviceInfo, Handle, LinkedShare, MAX_DEVICE_DETAIL_BYTES, MAX_DEVICE_NAME_BYTES, MAX_LINKED_DEVICES,
    MAX_STEPPED_STATES, Pass, PeerSlots, ProbeRound, ProbeRounds, SlotRange, StateBytes, SweepRound, SweepRounds,
    check_size,
};
pub use error::DeviceError;
pub use shared_slots::{MemoryHandle, SharedSlots};
