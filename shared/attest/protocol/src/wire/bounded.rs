//! The codec of the session service: prost's, with the lists of a message counted before they are decoded, and a
//! tighter bound on messages from a peer that is not authenticated yet.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use super::limits::{HANDSHAKE_MESSAGES, MAX_HANDSHAKE_BYTES};
use super::lists;
use super::v1::{SessionRequest, SessionResponse};

/// Bytes that a validator reserves for each direction of a session at its start: its messages are short, but for
/// openings, and most sessions wait.
const SESSION_BUFFER_BYTES: usize = 512;
/// Bytes of messages that are handed to HTTP/2 at once, as tonic has it.
const YIELD_BYTES: usize = 32 << 10;

/// Prost's codec, with bounds that hold before a message is decoded.
#[derive(Debug, Clone)]
pub struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(buffers(is::<T, SessionResponse>()))
    }

    fn decoder(&mut self) -> Self::Decoder {
        // Every other message comes from a peer that this side has chosen to dial.
        let from_miner = is::<U, SessionRequest>();
        let handshake_messages = if from_miner { HANDSHAKE_MESSAGES } else { 0 };
        BoundedDecoder { inner: ProstCodec::<T, U>::raw_decoder(buffers(from_miner)), handshake_messages }
    }
}

fn is<T: 'static, U: 'static>() -> bool {
    std::any::TypeId::of::<T>() == std::any::TypeId::of::<U>()
}

/// The room of a stream: of a validator's side of a session, or of any other.
fn buffers(is_validators: bool) -> BufferSettings {
    if is_validators { BufferSettings::new(SESSION_BUFFER_BYTES, YIELD_BYTES) } else { BufferSettings::default() }
}

/// Prost's decoder, with bounds on the lists of a message and on the first messages of a stream.
#[derive(Debug, Clone)]
pub struct BoundedDecoder<U> {
    inner: ProstDecoder<U>,
    /// How many of the next messages are those of a handshake.
    handshake_messages: u32,
}

impl<U: Message + Default + 'static> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        if self.handshake_messages > 0 {
            self.handshake_messages -= 1;
            let bytes = bytes::Buf::remaining(buf);
            if bytes > MAX_HANDSHAKE_BYTES {
                return Err(Status::out_of_range(format!(
                    "a message of the handshake has {bytes} bytes, at most {MAX_HANDSHAKE_BYTES} are allowed"
                )));
            }
        }
        // One message is one piece of memory here; of several, the first would be refused as incomplete.
        lists::check::<U>(bytes::Buf::chunk(buf)).map_err(|error| Status::out_of_range(error.to_string()))?;
        self.inner.decode(buf)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.inner.buffer_settings()
    }
}
