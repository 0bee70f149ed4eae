//! Memory that the program and one worker share, by a file that has no name once both have opened it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use assay_device::{MAX_STEPPED_STATES, StateBytes};
use assay_work::probe::LINE_BYTES;
use memmap2::MmapMut;
use tempfile::TempPath;

const BYTES: usize = MAX_STEPPED_STATES * LINE_BYTES;
/// The folder whose files are memory, on Linux.
const MEMORY_FILES: &str = "/dev/shm";

/// Room for [`MAX_STEPPED_STATES`] states in two processes. They take turns at it: the program while no request is under
/// way, the worker while it answers one.
#[derive(Debug)]
pub struct SharedStates(MmapMut);

/// Makes something in the folder whose files are memory, or else in that for temporary files: a container often has but one
/// of them to write to.
pub fn in_memory_folder<T>(make: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    make(Path::new(MEMORY_FILES)).or_else(|_| make(&std::env::temp_dir()))
}

/// The name of a file, for as long as the other end has not opened it.
pub type Name = TempPath;

impl SharedStates {
    /// Makes the memory, and the file that the other end opens it by; the second value removes the file's name.
    ///
    /// # Errors
    /// The system's, as when there is no room for it.
    pub fn create() -> io::Result<(Self, Name)> {
        let new = |folder: &Path| tempfile::Builder::new().prefix("assay-states-").tempfile_in(folder);
        let (mut file, name) = in_memory_folder(new)?.into_parts();
        // Memory that is not there when it is touched would end the process: a full file system says so here.
        file.write_all(&vec![0; BYTES])?;
        Ok((Self::map(&file)?, name))
    }

    /// Opens the program's memory.
    ///
    /// # Errors
    /// The system's; `InvalidData` for a file of another kind or length.
    pub fn open(path: &str) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.len() != BYTES as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a file of states"));
        }
        Self::map(&file)
    }

    /// The first states in it.
    ///
    /// # Panics
    /// When it has room for fewer.
    pub fn first(&mut self, count: usize) -> &mut [StateBytes] {
        &mut self.0.as_chunks_mut::<LINE_BYTES>().0[..count]
    }

    fn map(file: &File) -> io::Result<Self> {
        // SAFETY: only this program and its worker know the file, which only their user may open: neither shortens it.
        // The other end touches the memory only between a request and its answer, while this one waits; should a broken
        // one do so later, states are wrong, which every value of them allows: they are bytes.
        unsafe { MmapMut::map_mut(file) }.map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_end_writes_the_other_reads() {
        let (mut program, name) = SharedStates::create().unwrap();
        let mut worker = SharedStates::open(name.to_str().unwrap()).unwrap();
        drop(name);
        program.first(MAX_STEPPED_STATES)[MAX_STEPPED_STATES - 1] = [7; LINE_BYTES];
        assert_eq!(worker.first(MAX_STEPPED_STATES)[MAX_STEPPED_STATES - 1], [7; LINE_BYTES]);
        worker.first(2)[1] = [9; LINE_BYTES];
        assert_eq!(program.first(2), [[0; LINE_BYTES], [9; LINE_BYTES]]);
    }

    #[test]
    fn another_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for (name, bytes) in [("short", BYTES - 1), ("long", BYTES + 1), ("whole", BYTES)] {
            std::fs::write(path(name), vec![0; bytes]).unwrap();
        }
        std::os::unix::fs::symlink(path("whole"), path("link")).unwrap();
        SharedStates::open(&path("whole")).unwrap();
        for wrong in ["short", "long", "link", "missing", "."] {
            assert!(SharedStates::open(&path(wrong)).is_err(), "{wrong}");
        }
    }
}
