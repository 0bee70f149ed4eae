//! Evidence of challenges: captured while they run, compressed, addressed by content, in a folder or an S3 bucket.
//!
//! An object is one zstd frame. Its name is the BLAKE3 hash of the object as stored, not of its content: a reader
//! checks the bytes before the decompressor sees them, and `b3sum` checks a copy without any program of ours.
//!
//! An object is on this machine's disk before [`EvidenceStore::keep`] returns: in the folder itself, or, for a bucket,
//! in an outbox that [`EvidenceStore::deliver`] uploads from. A bucket that is away for a while loses nothing.

#![forbid(unsafe_code)]

mod bounds;
mod capture;
mod error;
mod limits;
mod location;
mod read;
mod refusals;
mod room;
mod spool;
mod store;

/// The name of an object: BLAKE3 of its bytes as stored, compressed.
pub use assay_work::Digest;
pub use bounds::{MAX_CONTENT_BYTES, MAX_OUTBOX_BYTES};
pub use capture::Capture;
pub use error::{EvidenceError, StorageShortage};
pub use limits::{NamedEvidence, StoreLimits, SweepReport, YOUNG};
pub use location::{EvidenceLocation, NotALocation};
pub use read::EvidenceReader;
pub use spool::{Spool, SpooledObject};
pub use store::{Backlog, EvidenceStore, ObjectEntry, StoredObject, UploadTotals};
