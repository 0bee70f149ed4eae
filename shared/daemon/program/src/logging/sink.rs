//! Where log lines are written.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::render::colour;
use crate::standard_error;

/// How long a descriptor that takes nothing now, and does not wait, is left alone.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// An open file, or standard error.
pub struct Sink {
    output: Box<dyn Write + Send>,
    has_colour: bool,
    /// Whether the last line was written in part.
    is_torn: bool,
}

impl Sink {
    pub fn standard_error() -> Self {
        Self { has_colour: colour(&io::stderr()), ..Self::of(standard_error::unlocked()) }
    }

    /// A file, which is made where it is missing and else added to.
    ///
    /// # Errors
    /// Why it cannot be opened, in a sentence with its path.
    pub fn file(path: &Path) -> Result<Self, String> {
        let open = fs::OpenOptions::new().create(true).append(true).open(path);
        let file = open.map_err(|error| format!("log_file = {}: {error}", path.display()))?;
        Ok(Self::of(file))
    }

    /// Some other output.
    pub(super) fn of(output: impl Write + Send + 'static) -> Self {
        Self { output: Box::new(output), has_colour: false, is_torn: false }
    }

    /// Whether lines are shown in colours there.
    pub fn has_colour(&self) -> bool {
        self.has_colour
    }

    /// Writes a line with its end. A torn line before is ended first, so that this line is whole.
    pub fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.write(b"\n")?;
            self.is_torn = false;
        }
        self.write(line)
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let all = bytes.len();
        while !bytes.is_empty() {
            match self.output.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    self.is_torn = !bytes.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another program that shares the descriptor may have made it one that does not wait.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(BUSY_PAUSE),
                Err(error) => {
                    self.is_torn = self.is_torn || bytes.len() < all;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Takes this count of bytes, and then nothing until more are allowed.
    struct Narrow(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (room, taken) = &mut *self.0.lock().unwrap();
            if *room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let count = bytes.len().min(*room);
            *room -= count;
            taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_after_a_torn_one_is_whole() {
        let disk = Arc::new(Mutex::new((8, Vec::new())));
        let mut sink = Sink::of(Narrow(disk.clone()));
        sink.write_line(b"one\n").unwrap();
        sink.write_line(b"a second\n").unwrap_err();
        sink.write_line(b"a third\n").unwrap_err();
        disk.lock().unwrap().0 = 100;
        sink.write_line(b"four\n").unwrap();
        assert_eq!(String::from_utf8_lossy(&disk.lock().unwrap().1), "one\na se\nfour\n");
    }
}
