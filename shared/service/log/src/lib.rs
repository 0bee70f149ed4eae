//! An append-only log of verdicts that cannot be rewritten unnoticed: an RFC 6962 tree (SHA-256) in the layout of C2SP
//! `tlog-tiles`, under signed checkpoints (`tlog-checkpoint`, `signed-note`), cosigned by witnesses (`tlog-witness`,
//! `tlog-cosignature`), with proofs for receipts (`tlog-proof`). docs/receipts.md describes it.
//!
//! ```text
//! VerdictEntry -> LogWriter::append -> tiles, entry bundles, last the checkpoint
//! Source (a folder, or a URL) -> verify, Follower::check, TreeReader -> ReceiptProof
//! ```
//!
//! Nothing read from a log, a witness or a URL is trusted: sizes are bounded before bytes are kept.

#![forbid(unsafe_code)]

mod checkpoint;
mod edge;
mod entry;
mod error;
mod file;
mod follow;
mod hash;
mod http;
mod note;
mod proof;
mod receipt_proof;
mod source;
mod submit;
mod tile;
mod tree;
mod verify;
mod witness;
mod writer;

#[cfg(test)]
mod tests;

pub use checkpoint::{Checkpoint, SignedCheckpoint, log_key};
pub use entry::VerdictEntry;
pub use error::LogError;
pub use follow::Follower;
pub use hash::{Hash, sha256};
pub use note::{KeyKind, NoteKey};
pub use receipt_proof::{MAX_PROOF_BYTES, ReceiptProof};
pub use source::{CHECKPOINT, Source};
pub use submit::{WitnessAddress, add_checkpoint};
pub use tile::{TILE_WIDTH, Tile, TileKind};
pub use tree::TreeReader;
pub use verify::{VerifiedLog, verify};
pub use witness::Witness;
pub use writer::LogWriter;
