//! `docs/WORK.md` in code: pure functions and types, no I/O, no clock, no randomness.

#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod audit;
pub mod bounds;
pub mod bytes;
pub mod challenge;
pub mod commitment;
pub mod digest;
pub mod fault;
pub mod json;
pub mod keys;
mod lanes;
pub mod leaf;
mod names;
pub mod opening;
pub mod precision;
pub mod probe;
pub mod probe_file;
pub mod product;
pub mod rule;
pub mod segment;
pub mod size;
pub mod split;
pub mod standalone;
pub mod sums;
pub mod text;
pub mod tree;

pub use audit::{Audit, PassCheck, RangeRequest, check_pass_openings, sample_ranges};
pub use bytes::{
    ChainingValue, ChallengeId, Checksum, DeviceId, Digest, Nonce, PassKey, ProbeKey, ProbeSeed, PublicKey, Root,
    RoundKey, Signature, WorkKey,
};
pub use challenge::{Challenge, ChallengeError, Share, UncheckedChallenge};
pub use commitment::{CommitmentError, DeviceEvidence, Evidence};
pub use fault::{FaultKind, FaultPlace, OpeningFault};
pub use json::{JsonError, JsonObject, from_json, from_json_under};
pub use opening::{OpenedRange, Parents, PassOpenings, PassSample, SampleOpenings};
pub use precision::{Precision, UnknownPrecision};
pub use probe::{
    Answer, AnswerError, DeviceAnswer, Link, MemoryProbe, Probe, ProbeError, ProbeStage, Sweep, SweepError,
    SweepSample, UncheckedProbe, UncheckedSweep,
};
pub use probe_file::{
    DeviceSegment, DeviceSlotDigests, DeviceSum, DrawnSegment, DrawnSum, ProbeFile, SweepFile, check_probe_file,
    check_sweep_file,
};
pub use segment::{
    Opening, ProbeOpenings, Segment, SegmentAudit, SegmentCheck, SegmentOpenings, SlotDigests, check_segments,
    check_slot_digests,
};
pub use split::{SplitError, Weight, split};
pub use standalone::{StandaloneError, check_standalone};
pub use sums::{SweepAudit, SweepCheck, SweepOpenings};
