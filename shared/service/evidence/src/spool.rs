//! Evidence on its way to the store, in a temporary file beside it. It is compressed once it is to be kept: that of
//! most challenges is dropped, and to compress numbers that look random takes longer than to write them.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::NamedTempFile;
use zstd::stream::write::Encoder;

use crate::bounds::{MAX_CONTENT_BYTES, WINDOW_LOG};
use crate::error::EvidenceError;
use crate::room::Room;
use assay_work::Digest;

/// Openings are rows of numbers that look random: more effort finds no more to save.
const LEVEL: i32 = 1;
/// Bytes that are read at once to be compressed.
const READ_BYTES: usize = 128 << 10;
/// How temporary files are named, by which those of a program that was killed are found.
pub(crate) const SPOOL_PREFIX: &str = ".spool-";

/// One object being written. Dropped, it leaves nothing.
///
/// Its calls block on the disk: they belong on a thread that may.
pub struct Spool {
    folder: PathBuf,
    room: Arc<Room>,
    file: NamedTempFile,
    bytes: u64,
}

/// An object that is written whole and on disk, under a temporary name. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct SpooledObject {
    /// The name that it will have.
    pub digest: Digest,
    /// Bytes before compression.
    pub bytes: u64,
    /// Bytes of the object.
    pub stored_bytes: u64,
    pub(crate) file: NamedTempFile,
}

/// A file whose bytes are hashed as they are written.
struct HashedFile {
    file: NamedTempFile,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spool").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Spool {
    pub(crate) fn create(folder: &Path, room: Arc<Room>) -> Result<Self, EvidenceError> {
        let file = temporary(folder).map_err(EvidenceError::file(folder))?;
        Ok(Self { folder: folder.to_owned(), room, file, bytes: 0 })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// [`EvidenceError::TooLarge`] when there are more than [`MAX_CONTENT_BYTES`] in all, [`EvidenceError::NoRoom`]
    /// when the disk is nearly full, [`EvidenceError::File`] for the disk.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), EvidenceError> {
        let all = self.bytes + bytes.len() as u64;
        if all > MAX_CONTENT_BYTES {
            return Err(EvidenceError::TooLarge);
        }
        self.room.check_reserve(&self.folder)?;
        self.bytes = all;
        let written = self.file.write_all(bytes);
        written.map_err(EvidenceError::file(self.file.path()))
    }

    /// Bytes written so far, before compression.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the object: compresses it, and brings it to the disk, still under a temporary name.
    ///
    /// # Errors
    /// [`EvidenceError::NoRoom`] when the disk is nearly full, [`EvidenceError::File`] for the disk.
    pub fn finish(mut self) -> Result<SpooledObject, EvidenceError> {
        self.room.check_reserve(&self.folder)?;
        let compressed = self.file.rewind().and_then(|()| compress(self.file.as_file(), &self.folder));
        let HashedFile { file, hasher, bytes } = compressed.map_err(EvidenceError::file(self.file.path()))?;
        let digest = Digest(*hasher.finalize().as_bytes());
        Ok(SpooledObject { digest, bytes: self.bytes, stored_bytes: bytes, file })
    }
}

fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(SPOOL_PREFIX).tempfile_in(folder)
}

/// Compresses a file from its position to its end, onto disk.
fn compress(raw: &File, folder: &Path) -> io::Result<HashedFile> {
    let hashed = HashedFile { file: temporary(folder)?, hasher: blake3::Hasher::new(), bytes: 0 };
    let mut encoder = Encoder::new(hashed, LEVEL)?;
    encoder.window_log(WINDOW_LOG)?;
    io::copy(&mut BufReader::with_capacity(READ_BYTES, raw), &mut encoder)?;
    let hashed = encoder.finish()?;
    hashed.file.as_file().sync_all()?;
    Ok(hashed)
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
