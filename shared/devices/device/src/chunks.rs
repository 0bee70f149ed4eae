//! Chunks of a string of sums, opened (WORK.md, Openings).

use assay_work::Opening;
use assay_work::tree::{CHUNK_BYTES, Tree};

use super::error::DeviceError;

/// Opens the chunks of a string of sums that begin at these bytes.
///
/// # Errors
/// [`DeviceError::Unsupported`] for a byte that begins no chunk of them.
pub fn open_chunks(sums: &[u8], tree: &Tree, at: &[u64]) -> Result<Vec<Opening>, DeviceError> {
    let open = |&first_byte: &u64| {
        let chunk = (first_byte.is_multiple_of(CHUNK_BYTES)).then(|| sums.get(first_byte as usize..)).flatten();
        let bytes = chunk.and_then(|rest| rest.get(..CHUNK_BYTES as usize)).map(<[u8]>::to_vec);
        let bytes = bytes.ok_or_else(|| DeviceError::Unsupported(format!("no chunk at {first_byte}")))?;
        Ok(Opening { first_byte, bytes, siblings: tree.siblings((first_byte / CHUNK_BYTES) as usize) })
    };
    at.iter().map(open).collect()
}
