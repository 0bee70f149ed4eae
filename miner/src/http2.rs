//! HTTP/2 on a stream that is there already.

use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::transport::{Channel, Endpoint, Error, Uri};

/// How often an idle connection is tried, so that a peer that went away without a word is noticed.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long its answer may take.
const KEEPALIVE_LIMIT: Duration = Duration::from_secs(20);

/// HTTP/2 with an authority (HOST:PORT), on a stream that speaks TLS already or none at all.
///
/// # Errors
/// No authority, or no HTTP/2 at the other end.
pub async fn connect<S>(authority: &str, is_secured: bool, stream: S) -> Result<Channel, Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut endpoint = Endpoint::from_shared(format!("http://{authority}"))?;
    if is_secured {
        // The URL of requests. A connection to such a URL would have tonic add TLS of its own.
        endpoint = endpoint.origin(Endpoint::from_shared(format!("https://{authority}"))?.uri().clone());
    }
    let endpoint =
        endpoint.http2_keep_alive_interval(KEEPALIVE).keep_alive_timeout(KEEPALIVE_LIMIT).keep_alive_while_idle(true);
    let mut once = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_: Uri| {
        let stream = once.take().ok_or_else(|| std::io::Error::other("the connection is over"));
        std::future::ready(stream)
    });
    endpoint.connect_with_connector(connector).await
}
