//! Messages on a pipe: each preceded by its length, four bytes, little-endian.
//!
//! The messages are encoded by postcard. The other end may be a dying process that writes malformed bytes: a length
//! beyond the bound is refused before memory is allocated for it, and the end of a pipe is an error, never a panic.

use std::io::{self, ErrorKind, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of data in one message: parts of this size come thousands a second, and heartbeats go out between them.
pub const MAX_DATA_BYTES: usize = 256 << 10;
/// Bytes of one message: the largest data, or the longest list of devices (64, each with 4 KiB of its backend's own).
pub const MAX_FRAME_BYTES: usize = 384 << 10;

/// A failure to read a message.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The pipe ended between two messages.
    #[error("the pipe was closed")]
    End,
    /// The pipe broke, or ended within a message.
    #[error("the pipe broke: {0}")]
    Broken(#[from] io::Error),
    /// The bytes are not a message.
    #[error("malformed message: {0}")]
    Malformed(String),
}

pub fn read<M: DeserializeOwned>(from: &mut impl Read) -> Result<M, FrameError> {
    let mut length = [0; 4];
    if !read_or_end(from, &mut length)? {
        return Err(FrameError::End);
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME_BYTES {
        return Err(FrameError::Malformed(format!(
            "a length of {length} bytes, at most {MAX_FRAME_BYTES} are allowed"
        )));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    match postcard::take_from_bytes(&bytes) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(FrameError::Malformed(format!("{} bytes after its end", rest.len()))),
        Err(error) => Err(FrameError::Malformed(error.to_string())),
    }
}

/// Writes one message.
///
/// # Errors
/// The system's; `InvalidInput` for a message beyond the bound, of which no byte was written.
pub fn write<M: Serialize>(to: &mut impl Write, message: &M) -> io::Result<()> {
    // Room for the length, which is known once the message is encoded.
    let mut bytes = postcard::to_extend(message, vec![0; 4])
        .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error.to_string()))?;
    let length = bytes.len() - 4;
    if length > MAX_FRAME_BYTES {
        let text = format!("a message of {length} bytes, at most {MAX_FRAME_BYTES} are allowed");
        return Err(io::Error::new(ErrorKind::InvalidInput, text));
    }
    // The bound fits in 32 bits.
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    to.write_all(&bytes)?;
    to.flush()
}

/// Fills the buffer; `false` when the pipe ended before its first byte.
fn read_or_end(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{FromWorker, Reply};

    fn data(bytes: usize) -> FromWorker {
        let reply = Reply::Data { bytes: vec![0xa5; bytes], last: true };
        FromWorker::Reply { number: u64::MAX, done_steps: u64::MAX, reply }
    }

    fn read_back(bytes: &[u8]) -> Result<FromWorker, FrameError> {
        read(&mut &bytes[..])
    }

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let mut pipe = Vec::new();
        let sent = [data(0), data(MAX_DATA_BYTES), FromWorker::Heartbeat { number: 0, done_steps: 0 }];
        sent.iter().for_each(|message| write(&mut pipe, message).unwrap());
        let mut pipe = &pipe[..];
        for message in sent {
            assert_eq!(read::<FromWorker>(&mut pipe).unwrap(), message);
        }
        assert!(matches!(read::<FromWorker>(&mut pipe), Err(FrameError::End)));
    }

    #[test]
    fn a_length_beyond_the_bound_is_refused_before_its_bytes_are_read() {
        for length in [MAX_FRAME_BYTES as u32 + 1, u32::MAX, u32::from_le_bytes(*b"Segm")] {
            let Err(FrameError::Malformed(said)) = read_back(&length.to_le_bytes()) else {
                panic!("{length} was taken")
            };
            assert!(said.contains(&length.to_string()), "{said}");
        }
        // The largest length is accepted: the message is missing then.
        assert!(matches!(read_back(&(MAX_FRAME_BYTES as u32).to_le_bytes()), Err(FrameError::Broken(_))));
    }

    #[test]
    fn a_message_cut_off_is_a_broken_pipe() {
        let mut pipe = Vec::new();
        write(&mut pipe, &data(100)).unwrap();
        assert!(matches!(read_back(&[]), Err(FrameError::End)));
        for cut in 1..pipe.len() {
            assert!(matches!(read_back(&pipe[..cut]), Err(FrameError::Broken(_))), "{cut}");
        }
    }

    #[test]
    fn bytes_after_a_message_are_malformed() {
        let mut pipe = Vec::new();
        write(&mut pipe, &data(3)).unwrap();
        pipe.push(0);
        pipe[0] += 1;
        let Err(FrameError::Malformed(said)) = read_back(&pipe) else { panic!("it was taken") };
        assert_eq!(said, "1 bytes after its end");
    }

    #[test]
    fn a_message_beyond_the_bound_is_not_written() {
        let mut pipe = Vec::new();
        assert_eq!(write(&mut pipe, &data(MAX_FRAME_BYTES)).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(pipe.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(0_u8.., 0..300)) {
            let mut pipe = &bytes[..];
            while read::<FromWorker>(&mut pipe).is_ok() {}
        }
    }
}
