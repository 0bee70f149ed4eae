//! The codec of the session service: protobuf, with the lists of a message counted before they are decoded, and a
//! tighter bound on messages from a peer that is not authenticated yet.

use std::marker::PhantomData;

use bytes::{Buf, Bytes};
use prost::{DecodeError, EncodeError, Message};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use super::limits::{HANDSHAKE_MESSAGES, MAX_HANDSHAKE_BYTES};
use super::lists;
use super::v1::{SessionRequest, SessionResponse};

/// Bytes that a validator reserves for each direction of a session at its start: its messages are short, but for
/// openings, and most sessions wait.
const SESSION_BUFFER_BYTES: usize = 512;
/// Bytes of messages that are handed to HTTP/2 at once, as tonic has it.
const YIELD_BYTES: usize = 32 << 10;

/// A message of a session. Prost's functions are generic, and compiled with the crate that calls them: here, at this
/// crate's level of optimisation, wherever the stream is.
pub trait SessionMessage: Message + Default + 'static {
    /// # Errors
    /// Bytes that are not this message.
    fn from_wire(bytes: Bytes) -> Result<Self, DecodeError>;

    /// # Errors
    /// Too little room in the buffer.
    fn to_wire(&self, buf: &mut EncodeBuf<'_>) -> Result<(), EncodeError>;
}

macro_rules! session_message {
    ($($message:ty),*) => {$(
        impl SessionMessage for $message {
            fn from_wire(bytes: Bytes) -> Result<Self, DecodeError> {
                Self::decode(bytes)
            }

            fn to_wire(&self, buf: &mut EncodeBuf<'_>) -> Result<(), EncodeError> {
                self.encode(buf)
            }
        }
    )*};
}

session_message!(SessionRequest, SessionResponse);

/// The codec of messages `T` out and `U` in, with bounds that hold before a message is decoded.
#[derive(Debug, Clone)]
pub struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: SessionMessage, U: SessionMessage> Codec for BoundedCodec<T, U> {
    type Encode = T;
    type Decode = U;
    type Encoder = SessionEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        SessionEncoder { buffers: buffers(is::<T, SessionResponse>()), of: PhantomData }
    }

    fn decoder(&mut self) -> Self::Decoder {
        // Every other message comes from a peer that this side has chosen to dial.
        let from_miner = is::<U, SessionRequest>();
        let handshake_messages = if from_miner { HANDSHAKE_MESSAGES } else { 0 };
        BoundedDecoder { buffers: buffers(from_miner), handshake_messages, of: PhantomData }
    }
}

fn is<T: 'static, U: 'static>() -> bool {
    std::any::TypeId::of::<T>() == std::any::TypeId::of::<U>()
}

/// The room of a stream: of a validator's side of a session, or of any other.
fn buffers(is_validators: bool) -> BufferSettings {
    if is_validators { BufferSettings::new(SESSION_BUFFER_BYTES, YIELD_BYTES) } else { BufferSettings::default() }
}

/// The encoder of a session's messages.
#[derive(Debug, Clone)]
pub struct SessionEncoder<T> {
    buffers: BufferSettings,
    of: PhantomData<T>,
}

impl<T: SessionMessage> Encoder for SessionEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.to_wire(buf).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.buffers
    }
}

/// The decoder of a session's messages, with bounds on the lists of a message and on the first messages of a stream.
#[derive(Debug, Clone)]
pub struct BoundedDecoder<U> {
    buffers: BufferSettings,
    /// How many of the next messages are those of a handshake.
    handshake_messages: u32,
    of: PhantomData<U>,
}

impl<U: SessionMessage> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let encoded = buf.copy_to_bytes(buf.remaining());
        if self.handshake_messages > 0 {
            self.handshake_messages -= 1;
            let bytes = encoded.len();
            if bytes > MAX_HANDSHAKE_BYTES {
                return Err(Status::out_of_range(format!(
                    "a message of the handshake has {bytes} bytes, at most {MAX_HANDSHAKE_BYTES} are allowed"
                )));
            }
        }
        lists::check::<U>(&encoded).map_err(|error| Status::out_of_range(error.to_string()))?;
        U::from_wire(encoded).map(Some).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.buffers
    }
}
