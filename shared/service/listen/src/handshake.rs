//! Bounds the messages of a handshake as they arrive: a peer without a proved key cannot make the server buffer a large
//! message.

use std::pin::Pin;
use std::task::{Context, Poll};

use assay_protocol::wire::limits::{HANDSHAKE_MESSAGES, MAX_HANDSHAKE_BYTES};
use http_body::{Body, Frame, SizeHint};
use tonic::Status;
use tonic::codegen::{Bytes, Service, http};
use tonic::server::NamedService;

/// Bytes before each gRPC message: its compression flag and its length.
const PREFIX_BYTES: usize = 5;

/// A service whose requests start with a handshake.
#[derive(Debug, Clone)]
pub struct HandshakeBound<S>(pub S);

impl<S: Service<http::Request<tonic::body::Body>>> Service<http::Request<tonic::body::Body>> for HandshakeBound<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> S::Future {
        let bounded = |body| tonic::body::Body::new(HandshakeBody { body, lengths: Lengths::default() });
        self.0.call(request.map(bounded))
    }
}

impl<S: NamedService> NamedService for HandshakeBound<S> {
    const NAME: &'static str = S::NAME;
}

/// A request's body that fails when a message of the handshake announces too great a length.
struct HandshakeBody {
    body: tonic::body::Body,
    lengths: Lengths,
}

impl Body for HandshakeBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => frame,
            other => return other,
        };
        let checked = frame.data_ref().map_or(Ok(()), |data| self.lengths.check(data));
        Poll::Ready(Some(checked.map(|()| frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Reads the lengths of a stream's first messages, from chunks of any size.
#[derive(Debug, Default)]
struct Lengths {
    /// Number of complete messages.
    messages: u32,
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    /// Missing bytes of the current message.
    missing_bytes: usize,
}

impl Lengths {
    fn check(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while self.messages < HANDSHAKE_MESSAGES && !data.is_empty() {
            if self.prefix_bytes < PREFIX_BYTES {
                self.prefix[self.prefix_bytes] = data[0];
                self.prefix_bytes += 1;
                data = &data[1..];
                let [_, a, b, c, d] = self.prefix;
                self.missing_bytes = u32::from_be_bytes([a, b, c, d]) as usize;
            }
            if self.prefix_bytes == PREFIX_BYTES {
                if self.missing_bytes > MAX_HANDSHAKE_BYTES {
                    let bytes = self.missing_bytes;
                    return Err(Status::out_of_range(format!(
                        "a message of the handshake has {bytes} bytes, at most {MAX_HANDSHAKE_BYTES} are allowed"
                    )));
                }
                let taken = data.len().min(self.missing_bytes);
                self.missing_bytes -= taken;
                data = &data[taken..];
                if self.missing_bytes == 0 {
                    *self = Self { messages: self.messages + 1, ..Self::default() };
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Vec<u8> {
        let length = u32::try_from(bytes).unwrap().to_be_bytes();
        [&[0][..], &length, &vec![7; bytes]].concat()
    }

    /// Checks a stream in pieces of this size.
    fn check(stream: &[u8], piece: usize) -> Result<(), Status> {
        let mut lengths = Lengths::default();
        stream.chunks(piece).try_for_each(|piece| lengths.check(piece))
    }

    #[test]
    fn the_messages_of_a_handshake_are_bounded_before_they_come() {
        let (most, more) = (message(MAX_HANDSHAKE_BYTES), message(MAX_HANDSHAKE_BYTES + 1));
        let prefix = &more[..PREFIX_BYTES];
        for piece in [1, 2, 3, 4, 5, 6, 7, 1000, usize::MAX] {
            assert!(check(prefix, piece).is_err(), "the prefix alone, by {piece}");
            assert!(check(&[&most, prefix].concat(), piece).is_err(), "the second message, by {piece}");
            assert!(check(&[&message(0), prefix].concat(), piece).is_err(), "after an empty one, by {piece}");
            // Later messages have the general bound.
            let session = [&most[..], &most, &more, &message(4 << 20)].concat();
            assert!(check(&session, piece).is_ok(), "by {piece}");
        }
        assert!(check(&prefix[..PREFIX_BYTES - 1], 1).is_ok(), "nothing is said yet");
    }
}
