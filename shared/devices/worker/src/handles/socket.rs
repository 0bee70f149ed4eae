//! A Unix socket that carries descriptors beside a pipe: each message is one byte with all of its descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_device::{MAX_LINKED_DEVICES, MemoryHandle};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use tempfile::TempDir;

use crate::states::in_memory_folder;

/// How long a message may take that the other end has sent already.
const RECEIVE_LIMIT: Duration = Duration::from_secs(2);
/// Descriptors of one message.
const SPACE: usize = rustix::cmsg_space!(ScmRights(MAX_LINKED_DEVICES));

/// Where a worker connects to, in a folder that only its user may enter.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
    /// Removed when the listener is dropped.
    _folder: TempDir,
}

impl Listener {
    /// Opens a listener.
    ///
    /// # Errors
    /// The system's, as when the path of the folder for temporary files is too long for a socket.
    pub fn new() -> io::Result<Self> {
        in_memory_folder(|folder| {
            let folder = tempfile::Builder::new().prefix("assay-").tempdir_in(folder)?;
            let path = folder.path().join("handles");
            let listener = UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            Ok(Self { listener, path, _folder: folder })
        })
    }

    /// The path for [`Handles::connect`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The program's end, once the worker has connected.
    ///
    /// # Errors
    /// The system's, as when no worker has connected.
    pub fn accept(self) -> io::Result<Handles> {
        Handles::of(self.listener.accept()?.0)
    }
}

/// One end of the socket.
#[derive(Debug)]
pub struct Handles(UnixStream);

impl Handles {
    /// The worker's end.
    pub fn connect(path: &str) -> io::Result<Self> {
        Self::of(UnixStream::connect(path)?)
    }

    fn of(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(RECEIVE_LIMIT))?;
        stream.set_write_timeout(Some(RECEIVE_LIMIT))?;
        Ok(Self(stream))
    }

    /// Sends handles, at most [`MAX_LINKED_DEVICES`], which stay the sender's too.
    pub fn send(&self, handles: &[&MemoryHandle]) -> io::Result<()> {
        let descriptors: Vec<BorrowedFd<'_>> = handles.iter().map(|handle| handle.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many handles"));
        }
        sendmsg(&self.0, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives as many handles as the other end sent.
    ///
    /// # Errors
    /// The system's; another number of handles is [`io::ErrorKind::InvalidData`].
    pub fn receive(&self, count: usize) -> io::Result<Vec<MemoryHandle>> {
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let received = recvmsg(&self.0, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut handles = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                handles.extend(descriptors);
            }
        }
        if handles.len() == count {
            return Ok(handles);
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} handles where {count} were sent", handles.len())))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    fn handles_arrive_in_their_order() {
        let listener = Listener::new().unwrap();
        let path = listener.path().to_owned();
        let worker = Handles::connect(path.to_str().unwrap()).unwrap();
        let program = listener.accept().unwrap();
        assert!(!path.exists(), "nobody else finds it");
        let file = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            MemoryHandle::from(file)
        };
        let sent: Vec<_> = (0..MAX_LINKED_DEVICES).map(|number| file(&number.to_string())).collect();
        program.send(&sent.iter().collect::<Vec<_>>()).unwrap();
        drop(sent);
        for (number, handle) in worker.receive(MAX_LINKED_DEVICES).unwrap().into_iter().enumerate() {
            let (mut file, mut text) = (File::from(handle), String::new());
            file.rewind().unwrap();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, number.to_string());
        }
        worker.send(&[&file("back")]).unwrap();
        assert_eq!(program.receive(2).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(worker);
        assert_eq!(program.receive(1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
