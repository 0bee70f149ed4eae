//! Evidence on its way to the store: compressed while it is written, in a temporary file beside the store.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;
use zstd::stream::write::Encoder;

use crate::bounds::{MAX_CONTENT_BYTES, WINDOW_LOG};
use crate::digest::Digest;
use crate::error::EvidenceError;

/// Openings are rows of numbers that look random: more effort finds no more to save.
const LEVEL: i32 = 1;
/// How temporary files are named, by which those of a program that was killed are found.
pub(crate) const SPOOL_PREFIX: &str = ".spool-";

/// One object being written. Dropped, it leaves nothing.
///
/// Its calls block on the disk: they belong on a thread that may.
pub struct Spool {
    encoder: Encoder<'static, Hashed>,
    bytes: u64,
}

/// An object that is written whole and on disk, under a temporary name. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Spooled {
    /// The name that it will have.
    pub digest: Digest,
    /// Bytes before compression.
    pub bytes: u64,
    /// Bytes of the object.
    pub stored_bytes: u64,
    pub(crate) file: NamedTempFile,
}

/// A file whose bytes are hashed as they are written.
struct Hashed {
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
    pub(crate) fn create(folder: &Path) -> Result<Self, EvidenceError> {
        let begin = || {
            let file = tempfile::Builder::new().prefix(SPOOL_PREFIX).tempfile_in(folder)?;
            let mut encoder = Encoder::new(Hashed { file, hasher: blake3::Hasher::new(), bytes: 0 }, LEVEL)?;
            encoder.window_log(WINDOW_LOG)?;
            Ok(encoder)
        };
        Ok(Self { encoder: begin().map_err(EvidenceError::file(folder))?, bytes: 0 })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// [`EvidenceError::TooLarge`] when there are more than [`MAX_CONTENT_BYTES`] in all, [`EvidenceError::File`] for the disk.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), EvidenceError> {
        let all = self.bytes + bytes.len() as u64;
        if all > MAX_CONTENT_BYTES {
            return Err(EvidenceError::TooLarge);
        }
        self.bytes = all;
        let written = self.encoder.write_all(bytes);
        written.map_err(EvidenceError::file(self.encoder.get_ref().file.path()))
    }

    /// Bytes written so far, before compression.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the object and brings it to the disk, still under its temporary name.
    ///
    /// # Errors
    /// [`EvidenceError::File`] for the disk.
    pub fn finish(self) -> Result<Spooled, EvidenceError> {
        let path = self.encoder.get_ref().file.path().to_owned();
        let finish = || {
            let Hashed { file, hasher, bytes } = self.encoder.finish()?;
            file.as_file().sync_all()?;
            let digest = Digest(*hasher.finalize().as_bytes());
            Ok(Spooled { digest, bytes: self.bytes, stored_bytes: bytes, file })
        };
        finish().map_err(EvidenceError::file(&path))
    }
}

impl Write for Hashed {
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
