//! HTTP/1.1, one request a connection: the client of logs and witnesses, and the server of a witness.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use assay_transport::http::{self, MAX_HEAD_BYTES};
use assay_transport::origin::origin;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::error::LogError;

/// How long an exchange may take.
const EXCHANGE_LIMIT: Duration = Duration::from_secs(10);
/// Pauses after answers that ask for one.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Attempts of a request whose answers ask for a pause.
const MAX_ATTEMPTS: u32 = 30;
/// Connections of a server at once, and of one address (IPv6: one /64 network).
const MAX_CONNECTIONS: usize = 64;
const MAX_OF_ADDRESS: usize = 16;
/// How long the head of a request may take.
const HEAD_LIMIT: Duration = Duration::from_secs(2);

/// Where a log or a witness is: `http://HOST[:PORT]/PREFIX`, `https://…`, or `https://…#KEY` for a validator whose
/// certificate is its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url(http::Url);

impl FromStr for Url {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        let url: http::Url = text.parse().map_err(|error: http::UrlError| LogError::malformed(error.to_string()))?;
        match url.path.query() {
            Some(_) => Err(LogError::malformed("expected http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH[#KEY]")),
            None => Ok(Self(url)),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0, self.prefix())
    }
}

impl Url {
    /// The path without a slash at its end.
    fn prefix(&self) -> &str {
        self.0.path.path().trim_end_matches('/')
    }

    /// Gets a path below the prefix; `None`: there is none.
    pub async fn get(&self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, LogError> {
        match self.exchange(Method::GET, path, Bytes::new(), max_bytes).await? {
            (StatusCode::OK, body) => Ok(Some(body.into())),
            (StatusCode::NOT_FOUND | StatusCode::GONE, _) => Ok(None),
            (status, _) => Err(LogError::Http(format!("{self}/{path}: the server answered {status}"))),
        }
    }

    /// Posts a body to a path below the prefix.
    pub async fn post(&self, path: &str, body: String, max_bytes: u64) -> Result<(StatusCode, Bytes), LogError> {
        self.exchange(Method::POST, path, body.into(), max_bytes).await
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        max_bytes: u64,
    ) -> Result<(StatusCode, Bytes), LogError> {
        let failed = |why| LogError::Http(format!("{self}/{path}: {why}"));
        let mut attempt = 1;
        loop {
            let request = Request::builder().method(method.clone()).uri(format!("{}/{path}", self.prefix()));
            let request = request.header(HOST, self.0.address.to_string()).body(Full::new(body.clone()));
            let request = request.map_err(|error| failed(error.to_string()))?;
            let late = |_| Err(format!("no answer within {EXCHANGE_LIMIT:?}"));
            let answer = timeout(EXCHANGE_LIMIT, self.ask(request, max_bytes)).await;
            let answer = answer.unwrap_or_else(late).map_err(failed)?;
            if answer.0 != StatusCode::TOO_MANY_REQUESTS || attempt == MAX_ATTEMPTS {
                return Ok(answer);
            }
            attempt += 1;
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn ask(&self, request: Request<Full<Bytes>>, max_bytes: u64) -> Result<(StatusCode, Bytes), String> {
        let address = &self.0.address;
        let stream =
            TcpStream::connect((address.host.as_str(), address.port)).await.map_err(|error| error.to_string())?;
        let answer = self.0.speak(stream).await?.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let body = Limited::new(answer.into_body(), max_bytes).collect().await;
        Ok((status, body.map_err(|error| format!("{error}, at most {max_bytes} bytes are read"))?.to_bytes()))
    }
}

/// The answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

/// Serves requests for ever. `answer` is given the method, the path, and a body of at most `max_bytes`.
pub async fn serve<F>(listener: TcpListener, max_bytes: usize, answer: F)
where
    F: Fn(&Method, &str, &[u8]) -> Answer + Send + Sync + 'static,
{
    let (answer, places) = (Arc::new(answer), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
    let addresses = Arc::new(Mutex::new(HashMap::<IpAddr, usize>::new()));
    loop {
        // The semaphore is never closed; a failed accept may be a lack of file descriptors, which passes.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(RETRY_PAUSE).await;
            continue;
        };
        let Some(of_address) = OfAddress::take(&addresses, origin(peer.ip())) else { continue };
        let answer = answer.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| respond(request, max_bytes, answer.clone()));
            let mut server = hyper::server::conn::http1::Builder::new();
            let server = server
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_LIMIT)
                .max_buf_size(MAX_HEAD_BYTES)
                .keep_alive(false);
            // A client that breaks off hears nothing more.
            let _ = timeout(EXCHANGE_LIMIT, server.serve_connection(TokioIo::new(stream), service)).await;
            drop((place, of_address));
        });
    }
}

/// A place among the connections of an address.
struct OfAddress(Arc<Mutex<HashMap<IpAddr, usize>>>, IpAddr);

impl OfAddress {
    fn take(all: &Arc<Mutex<HashMap<IpAddr, usize>>>, address: IpAddr) -> Option<Self> {
        let mut counts = all.lock();
        let count = counts.entry(address).or_default();
        let is_free = *count < MAX_OF_ADDRESS;
        *count += usize::from(is_free);
        is_free.then(|| Self(all.clone(), address))
    }
}

impl Drop for OfAddress {
    fn drop(&mut self) {
        let mut counts = self.0.lock();
        if let Entry::Occupied(mut count) = counts.entry(self.1) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

async fn respond<F>(
    request: Request<Incoming>,
    max_bytes: usize,
    answer: Arc<F>,
) -> Result<Response<Full<Bytes>>, hyper::http::Error>
where
    F: Fn(&Method, &str, &[u8]) -> Answer,
{
    let (head, body) = request.into_parts();
    let answer = match Limited::new(body, max_bytes).collect().await {
        Ok(body) => answer(&head.method, head.uri.path(), &body.to_bytes()),
        Err(_) => {
            Answer { status: 413, content_type: "text/plain", body: format!("at most {max_bytes} bytes\n").into() }
        }
    };
    let response = Response::builder().status(answer.status).header(CONTENT_TYPE, answer.content_type);
    response.body(Full::new(answer.body.into()))
}
