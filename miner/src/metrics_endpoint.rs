//! The page of metrics over HTTP: one path, few connections, little time for each. It shares nothing with a challenge
//! but the runtime.

use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use assay_observe::metrics::MetricsError;
use assay_observe::page::TEXT;
use assay_program::address::{Address, AddressError};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Scrapes at once: a Prometheus, its replica, and a person.
const MAX_CONNECTIONS: usize = 8;
/// How long a connection may stand, its answer included.
const CONNECTION_LIMIT: Duration = Duration::from_secs(10);
const MAX_REQUEST_BYTES: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
/// How long to wait after the system would not give another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);
const PATH: &str = "/metrics";

/// Where the page is served: a port of this machine's loopback, or an address that is given whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsAddress(Address);

impl FromStr for MetricsAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self(Address { host: IpAddr::V4(Ipv4Addr::LOCALHOST).to_string(), port }));
        }
        text.parse().map(Self)
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl MetricsAddress {
    pub async fn bind(&self) -> std::io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind((self.0.host.as_str(), self.0.port)).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    }
}

/// Writes the page.
pub type PageWriter = Arc<dyn Fn() -> Result<String, MetricsError> + Send + Sync>;

/// Serves the page for ever.
pub async fn serve(listener: TcpListener, page: PageWriter) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed. While all places are taken, connections wait with the system.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let page = page.clone();
                tokio::spawn(async move {
                    // Late or broken: the scraper sees its connection close.
                    let _ = tokio::time::timeout(CONNECTION_LIMIT, answer(stream, page)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection to metrics_listen cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, page: PageWriter) -> Result<(), hyper::Error> {
    let service = service_fn(move |request| {
        let page = page.clone();
        async move { Ok::<_, Infallible>(response(&request, &page)) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_LIMIT)
        .keep_alive(false)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_REQUEST_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn response(request: &Request<Incoming>, page: &PageWriter) -> Response<Full<Bytes>> {
    if request.uri().path() != PATH {
        return text(StatusCode::NOT_FOUND, "the metrics are at /metrics\n".to_owned());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "GET /metrics\n".to_owned());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match page() {
        Ok(metrics) => {
            let mut page = text(StatusCode::OK, metrics);
            page.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
            page
        }
        Err(error) => {
            tracing::error!(%error, "no metrics");
            text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be made: see the log\n".to_owned())
        }
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        let parsed = |text: &str| text.parse::<MetricsAddress>().map(|address| address.to_string());
        assert_eq!(parsed("9464"), Ok("127.0.0.1:9464".into()));
        assert_eq!(parsed("0.0.0.0:9464"), Ok("0.0.0.0:9464".into()));
        assert_eq!(parsed("[::1]:9464"), Ok("[::1]:9464".into()));
        assert!(parsed("0.0.0.0").is_err() && parsed("").is_err() && parsed("65536").is_err());
    }

    /// The answer to a request, over a real socket.
    async fn ask(request: &'static str) -> String {
        let (listener, address) = "0".parse::<MetricsAddress>().unwrap().bind().await.unwrap();
        let page: PageWriter = Arc::new(|| Ok("assay_test 1\n".to_owned()));
        let server = tokio::spawn(serve(listener, page));
        let exchange = move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let answer = tokio::task::spawn_blocking(exchange).await.unwrap();
        server.abort();
        answer
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_path_is_served_and_nothing_is_taken() {
        let page = ask("GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("version=0.0.4"), "{page}");
        assert!(page.ends_with("\r\n\r\nassay_test 1\n"), "{page}");
        assert!(ask("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.starts_with("HTTP/1.1 404 "));
        assert!(
            ask("POST /metrics HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").await.starts_with("HTTP/1.1 405 ")
        );
        assert!(!ask("nonsense\r\n\r\n").await.contains("200"));
    }
}
