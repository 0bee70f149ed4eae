//! The codec of every service: prost's, with a tighter bound on messages from a peer that is not authenticated yet.
//!
//! An empty entry of a list takes two bytes on the wire and a hundred in memory, and decoding allocates it before the
//! bound of the list is checked.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use super::limits::{HANDSHAKE_MESSAGES, MAX_HANDSHAKE_BYTES};
use super::v1::SessionRequest;

/// Prost's codec, with a bound on the first messages that a miner sends.
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
        ProstCodec::<T, U>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        // Every other message comes from a peer that this side has chosen to dial.
        let from_miner = std::any::TypeId::of::<U>() == std::any::TypeId::of::<SessionRequest>();
        let bounded_messages = if from_miner { HANDSHAKE_MESSAGES } else { 0 };
        BoundedDecoder { inner: ProstCodec::<T, U>::raw_decoder(BufferSettings::default()), bounded_messages }
    }
}

/// Prost's decoder, with a bound on the first messages of a stream.
#[derive(Debug, Clone)]
pub struct BoundedDecoder<U> {
    inner: ProstDecoder<U>,
    /// How many of the next messages are bounded.
    bounded_messages: u32,
}

impl<U: Message + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        if self.bounded_messages > 0 {
            self.bounded_messages -= 1;
            let bytes = bytes::Buf::remaining(buf);
            if bytes > MAX_HANDSHAKE_BYTES {
                return Err(Status::out_of_range(format!(
                    "a message of the handshake has {bytes} bytes, at most {MAX_HANDSHAKE_BYTES} are allowed"
                )));
            }
        }
        self.inner.decode(buf)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.inner.buffer_settings()
    }
}
