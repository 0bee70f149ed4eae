//! Connections to a validator: its control socket, TCP, or TLS, through the environment's proxy if it has one.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use assay_transport::client::{SecuredHttp, secure_http};
use assay_transport::dial::{DialError, dial};
use assay_transport::failure::TlsFailure;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tower::Service;

use super::place::{ApiLocation, Server};

/// Time limit of a connection's setup.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Reasons for a failed connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot connect to {path}: {source}")]
    Socket {
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Tls(#[from] TlsFailure),
    #[error("no connection within {CONNECT_LIMIT:?}")]
    Slow,
}

trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// A new connection, before any data.
pub struct ApiConnection {
    stream: Box<dyn Bytes>,
    is_http2: bool,
}

/// Connects to one validator, regardless of a request's address.
#[derive(Clone)]
pub struct Connector(pub Arc<ApiLocation>);

impl Service<Uri> for Connector {
    type Response = TokioIo<ApiConnection>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _address: Uri) -> Self::Future {
        let place = self.0.clone();
        Box::pin(async move {
            let reached = tokio::time::timeout(CONNECT_LIMIT, reach(&place)).await;
            reached.map_err(|_| ConnectError::Slow)?.map(TokioIo::new)
        })
    }
}

async fn reach(place: &ApiLocation) -> Result<ApiConnection, ConnectError> {
    match place {
        ApiLocation::Socket(path) => {
            let stream = UnixStream::connect(path).await;
            let stream = stream.map_err(|source| ConnectError::Socket { path: path.clone(), source })?;
            Ok(ApiConnection { stream: Box::new(stream), is_http2: false })
        }
        ApiLocation::Server(server) => over_network(server).await,
    }
}

async fn over_network(server: &Server) -> Result<ApiConnection, ConnectError> {
    let address = &server.url.address;
    let stream = dial(address, &server.proxies, CONNECT_LIMIT).await?;
    let Some(trust) = &server.trust else { return Ok(ApiConnection { stream: Box::new(stream), is_http2: false }) };
    let SecuredHttp { stream, is_http2 } = secure_http(stream, &address.host, trust).await?;
    Ok(ApiConnection { stream: Box::new(stream), is_http2 })
}

impl Connection for ApiConnection {
    fn connected(&self) -> Connected {
        let connected = Connected::new();
        if self.is_http2 { connected.negotiated_h2() } else { connected }
    }
}

impl AsyncRead for ApiConnection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for ApiConnection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
