//! Reading an object: first its bytes are held against its name, then they are decompressed, within a bound.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};

use zstd::stream::read::Decoder;

use crate::bounds::{MAX_CONTENT_BYTES, WINDOW_LOG};

/// The content of an object, decompressed as it is read. Its bytes hashed to its name before the first of them was
/// decompressed; still no more than [`MAX_CONTENT_BYTES`] come out.
pub struct EvidenceReader {
    decoder: Decoder<'static, BufReader<File>>,
    left: u64,
}

impl std::fmt::Debug for EvidenceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EvidenceReader").field("left", &self.left).finish_non_exhaustive()
    }
}

impl EvidenceReader {
    /// Decompresses a file from its beginning. Its bytes are not held against a name.
    pub fn new(file: File) -> io::Result<Self> {
        let mut decoder = Decoder::new(file)?.single_frame();
        decoder.window_log_max(WINDOW_LOG)?;
        Ok(Self { decoder, left: MAX_CONTENT_BYTES })
    }

    /// The same object from its beginning. Its bytes cannot have changed meanwhile.
    pub fn again(self) -> io::Result<Self> {
        let mut file = self.decoder.finish().into_inner();
        file.rewind()?;
        Self::new(file)
    }
}

impl Read for EvidenceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most > 0 || buffer.is_empty() {
            let read = self.decoder.read(&mut buffer[..most])?;
            self.left -= read as u64;
            return Ok(read);
        }
        // The bound is reached: one byte more is one too many.
        match self.decoder.read(&mut [0])? {
            0 => Ok(0),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the object holds more than any that is written")),
        }
    }
}
