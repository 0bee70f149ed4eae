//! HTTP/2 by hand: frames as a client writes them that keeps to no rule, and as it reads them.

use std::io;

use prost::bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The client's first bytes.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
/// The end of a stream that the sender gives up.
pub const RST_STREAM: u8 = 3;
/// Settings for the other side.
pub const SETTINGS: u8 = 4;
/// A frame that is answered.
pub const PING: u8 = 6;
/// Room for more bytes.
pub const WINDOW_UPDATE: u8 = 8;
/// More of the headers.
pub const CONTINUATION: u8 = 9;
/// The flag of headers that are complete.
pub const END_HEADERS: u8 = 4;
/// The flag of an answer to settings and pings.
pub const ACK: u8 = 1;
/// The setting of a stream's window at its start.
pub const INITIAL_WINDOW_SIZE: u16 = 4;

/// A frame as its bytes.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame is small").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[must_use]
pub fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<_> =
        values.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// Room for `bytes` more of a stream, or with stream 0 of the connection.
#[must_use]
pub fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

/// The start of a connection: the preface, and these settings.
#[must_use]
pub fn opening(values: &[(u16, u32)]) -> Vec<u8> {
    [PREFACE, &settings(values)].concat()
}

/// The compressed headers of a call: literals, and names that every client and server knows by number.
#[must_use]
pub fn call_headers(path: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).expect("a short text")], text.as_bytes()].concat();
    // :method POST, :scheme http; then :path, :authority, content-type (31st of the table) and te.
    [
        vec![0x83, 0x86, 0x04],
        text(path),
        vec![0x01],
        text("localhost"),
        vec![0x0f, 16],
        text("application/grpc"),
        vec![0],
        text("te"),
        text("trailers"),
    ]
    .concat()
}

/// The headers that open a call, which more follows on.
#[must_use]
pub fn call(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &call_headers(path))
}

/// A message of gRPC: its prefix and its bytes.
#[must_use]
pub fn message(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("a message is small").to_be_bytes();
    [&[0], &length[..], bytes].concat()
}

/// A message of gRPC in frames of data.
#[must_use]
pub fn data(stream: u32, bytes: &[u8]) -> Vec<u8> {
    message(bytes).chunks(16_384).flat_map(|part| frame(DATA, 0, stream, part)).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct Frames(BytesMut);

impl Frames {
    pub async fn next(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.complete() {
                return Ok(frame);
            }
            if stream.read_buf(&mut self.0).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn complete(&mut self) -> Option<Frame> {
        let header: [u8; 9] = self.0.get(..9)?.try_into().ok()?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let payload = self.0.get(9..9 + length)?.to_vec();
        self.0.advance(9 + length);
        let stream = u32::from_be_bytes([header[5] & 0x7f, header[6], header[7], header[8]]);
        Some(Frame { kind: header[3], flags: header[4], stream, payload })
    }
}
