//! The receipt of the last verdict, in a file beside the key: for `receipt`, and for people who are shown the host.
//!
//! It is kept as it came. Its readers check it with the keys of the validator that they trust.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assay_protocol::wire::limits::MAX_RECEIPT_BYTES;
use parking_lot::Mutex;

use crate::status::file::{with_suffix, write_whole};

/// The suffix that this file's name adds to the key file's.
const SUFFIX: &str = ".receipt";

/// Where the miner with this key file keeps the receipt.
pub fn path_of(key_file: &Path) -> PathBuf {
    with_suffix(key_file, SUFFIX)
}

/// Reads the receipt; `None` where no verdict came with one.
///
/// # Errors
/// The system's error; a file that is larger than any receipt.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::metadata(path) {
        Ok(found) if found.len() > MAX_RECEIPT_BYTES as u64 + 1 => Err(io::Error::other("larger than any receipt")),
        Ok(_) => fs::read_to_string(path).map(|text| Some(text.trim_end().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The file of a running miner. Sessions with several validators share it: the last receipt is kept.
#[derive(Debug, Clone)]
pub struct ReceiptFile(Arc<Mutex<PathBuf>>);

impl ReceiptFile {
    /// The one beside a key file.
    pub fn beside(key_file: &Path) -> Self {
        Self(Arc::new(Mutex::new(path_of(key_file))))
    }

    /// Keeps a receipt in the place of the one before. Where it cannot be written none is kept: an earlier one would
    /// pass for it.
    pub fn keep(&self, token: &str) {
        let path = self.0.lock();
        if let Err(error) = write_whole(&path, &format!("{token}\n")) {
            let _ = fs::remove_file(&*path);
            tracing::warn!(path = %path.display(), "the receipt of a verdict cannot be kept: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_receipt_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let key_file = folder.path().join("miner.key");
        let (file, path) = (ReceiptFile::beside(&key_file), path_of(&key_file));
        assert_eq!(read(&path).unwrap(), None);
        for token in ["a.b.c", "d.e.f"] {
            file.keep(token);
            assert_eq!(read(&path).unwrap().as_deref(), Some(token));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        fs::write(&path, "a".repeat(MAX_RECEIPT_BYTES + 2)).unwrap();
        assert!(read(&path).is_err());
        // Regression test: on a full disk the receipt of an earlier pass stayed.
        fs::create_dir(with_suffix(&path, ".new")).unwrap();
        file.keep("g.h.i");
        assert_eq!(read(&path).unwrap(), None);
    }
}
