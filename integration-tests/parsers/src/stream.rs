//! The first bytes of connections: TLS, the messages of a session in pieces, and the answer of a proxy.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};

use assay_listen::handshake::HandshakeBound;
use assay_program::address::Address;
use assay_protocol::wire::bounded::BoundedCodec;
use assay_protocol::wire::limits::MAX_MESSAGE_BYTES;
use assay_protocol::wire::v1::{SessionRequest, SessionResponse};
use assay_transport::certificate::own;
use assay_transport::proxy::{Proxies, Proxy};
use assay_transport::server::ServerTls;
use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::io::{AsyncReadExt, join, sink};
use tonic::codec::{Codec, Streaming};
use tower::Service;

use crate::honest;

static TLS: LazyLock<ServerTls> = LazyLock::new(|| {
    let own = own(&honest::miner(), &[]).expect("a certificate is made of a key");
    ServerTls::new(own, None).expect("this build has TLS 1.3")
});
static TARGET: LazyLock<Address> = LazyLock::new(|| "[2001:db8::1]:7400".parse().expect("it is an address"));
static PROXY: LazyLock<Proxy> = LazyLock::new(|| {
    let proxies = Proxies::from_variables(|name| (name == "HTTPS_PROXY").then(|| "http://p:1".to_owned()));
    proxies.expect("the variable names a proxy").for_address(&TARGET).expect("every address has it")
});

/// The output of a future whose input is there at once; `None` where it waits for more.
fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// A client's first bytes: no handshake is complete without the client's second flight.
pub fn tls_hello(data: &[u8]) {
    let done = now(TLS.accept(join(data, sink())));
    assert!(done.is_none_or(|done| done.is_err()), "a handshake without its secret");
}

/// A proxy's answer: the bytes behind its empty line are left to the target.
pub fn proxy_answer(data: &[u8]) {
    let mut stream = join(data, sink());
    let Some(Ok(())) = now(PROXY.connect(&mut stream, &TARGET)) else { return };
    let mut rest = Vec::new();
    assert!(now(stream.read_to_end(&mut rest)).is_some());
    assert!(data.ends_with(&rest) && data[..data.len() - rest.len()].ends_with(b"\r\n\r\n"));
}

/// The body of a session's request, in pieces of this many bytes.
struct Pieces(Bytes, usize);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = self.1.min(self.0.len());
        Poll::Ready((bytes > 0).then(|| Ok(Frame::data(self.0.split_to(bytes)))))
    }
}

/// The messages of a request's body, as the server of sessions reads it.
async fn messages(data: &[u8], piece: usize) -> Vec<SessionRequest> {
    let read = |request: http::Request<tonic::body::Body>| async move {
        let decoder = BoundedCodec::<SessionResponse, SessionRequest>::default().decoder();
        let mut stream = Streaming::new_request(decoder, request.into_body(), None, Some(MAX_MESSAGE_BYTES));
        let mut messages = Vec::new();
        while let Ok(Some(message)) = stream.message().await {
            messages.push(message);
        }
        Ok::<_, Infallible>(messages)
    };
    let body = tonic::body::Body::new(Pieces(Bytes::copy_from_slice(data), piece));
    let mut service = HandshakeBound(tower::service_fn(read));
    service.call(http::Request::new(body)).await.unwrap_or_else(|never| match never {})
}

/// A session's stream. A piece with a bound's violation is refused whole, with the messages before it; else the pieces in
/// which a stream arrives make no difference.
pub fn session_stream(data: &[u8]) {
    let Some((piece, data)) = data.split_first() else { return };
    let (pieces, whole) = (now(messages(data, 1 + usize::from(*piece))), now(messages(data, usize::MAX)));
    let (pieces, whole) = pieces.zip(whole).expect("the body is there at once");
    assert!(pieces.starts_with(&whole));
}
