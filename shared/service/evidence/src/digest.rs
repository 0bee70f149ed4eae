//! The name of an object: BLAKE3 of its bytes as stored, compressed.

pub use assay_work::Digest;
