//! Errors of stored evidence.

use std::io;
use std::path::{Path, PathBuf};

use crate::bounds::{MAX_CONTENT_BYTES, MAX_OUTBOX_BYTES};
use assay_work::Digest;

/// Why evidence cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// A file or folder of this machine.
    #[error("evidence in {path}: {source}")]
    File {
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder or bucket, by its library.
    #[error("evidence store: {0}")]
    Store(#[from] object_store::Error),
    /// No such object: never kept here, or removed by the limits of age and size.
    #[error("evidence {0} is not in the store: it was removed by the limits of age and size, or is kept elsewhere")]
    Missing(Digest),
    /// The stored bytes are not those that were kept.
    #[error("evidence {expected} was changed: its bytes hash to {found}; nothing of it was read")]
    Tampered {
        /// The object asked for.
        expected: Digest,
        /// The hash of its bytes.
        found: Digest,
    },
    /// The object is larger than any that is written.
    #[error("evidence {0} is larger than any that is written; nothing of it was read")]
    Oversized(Digest),
    /// More was written than an object may hold.
    #[error("the evidence of one challenge has more than {} MiB", MAX_CONTENT_BYTES >> 20)]
    TooLarge,
    /// The bucket has not taken anything for too long.
    #[error("{} GiB wait for the bucket: evidence is dropped until it takes them", MAX_OUTBOX_BYTES >> 30)]
    OutboxFull,
    /// No room is left for more evidence.
    #[error("{0}")]
    NoRoom(StorageShortage),
}

/// The reason for a lack of room for evidence. Verdicts stand without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StorageShortage {
    /// All evidence has reached its limit of size.
    #[error("evidence has reached its limit of size")]
    Limit,
    /// Evidence of miners that never passed has reached its part of that.
    #[error("evidence of miners that never passed has reached its part of the limit of size")]
    Strangers,
    /// The rest of the disk is for the records.
    #[error("the disk is nearly full: what is left is for the records")]
    Reserve,
}

impl EvidenceError {
    /// For `map_err` on calls about a path.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
