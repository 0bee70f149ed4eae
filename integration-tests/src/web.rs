//! A client of a validator's HTTP API that sends any request of a test, and gives the whole answer.

use std::net::SocketAddr;
use std::path::PathBuf;

use assay_api::{ApiToken, CreateApiToken, ProblemDetails, Role};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::daemon::PATIENCE;
use crate::validator::TestValidator;

#[derive(Debug, Clone)]
enum Place {
    Socket(PathBuf),
    Network(SocketAddr),
}

#[derive(Debug, Clone)]
pub struct Caller {
    place: Place,
    headers: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

#[derive(Debug)]
pub struct Events {
    /// The event after which the stream begins, where it says so.
    pub begins_after: Option<i64>,
    body: Incoming,
    buffer: String,
}

/// An event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamEvent {
    pub event: String,
    pub id: String,
    pub data: String,
}

impl Caller {
    /// The operator at a validator's control socket.
    #[must_use]
    pub fn at_socket(validator: &TestValidator) -> Self {
        Self { place: Place::Socket(validator.socket.clone()), headers: Vec::new() }
    }

    /// A caller without a token.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self { place: Place::Network(address), headers: Vec::new() }
    }

    /// Somebody with a token of a role, made by the operator at the socket.
    pub async fn of_role(validator: &TestValidator, address: SocketAddr, role: Role) -> Self {
        let ApiToken { token, .. } = Self::make_token(validator, role).await;
        Self::at(address).with("authorization", &format!("Bearer {token}"))
    }

    /// Makes a token of a role.
    pub async fn make_token(validator: &TestValidator, role: Role) -> ApiToken {
        let asked = CreateApiToken { role, name: format!("test {role}"), expires_s: 3600 };
        Self::at_socket(validator).post("/api/v1/tokens", &asked).await.expect(201).json()
    }

    /// The same caller, with a header more.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, Bytes::new()).await
    }

    pub async fn read<T: DeserializeOwned>(&self, path: &str) -> T {
        self.get(path).await.expect(200).json()
    }

    pub async fn post(&self, path: &str, document: &impl Serialize) -> Answer {
        let body = serde_json::to_vec(document).expect("a document");
        self.clone().with(CONTENT_TYPE.as_str(), "application/json").send(Method::POST, path, body.into()).await
    }

    pub async fn send(&self, method: Method, path: &str, body: Bytes) -> Answer {
        let response = timeout(PATIENCE, self.begin(method, path, body)).await.expect("an answer comes");
        let (head, body) = response.into_parts();
        let body = timeout(PATIENCE, body.collect()).await.expect("it ends").expect("it is whole").to_bytes();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }

    pub async fn follow(&self, path: &str) -> Events {
        let response = self.begin(Method::GET, path, Bytes::new()).await;
        assert_eq!(
            (response.status().as_u16(), response.headers()[CONTENT_TYPE].as_bytes()),
            (200, &b"text/event-stream"[..])
        );
        Events::of(response)
    }

    /// Follows events; `None` where the answer is not a stream.
    pub async fn try_follow(&self, path: &str) -> Option<Events> {
        let response = self.begin(Method::GET, path, Bytes::new()).await;
        response.status().is_success().then(|| Events::of(response))
    }

    async fn begin(&self, method: Method, path: &str, body: Bytes) -> Response<Incoming> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let names_host = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(HOST.as_str()));
        match &self.place {
            Place::Socket(path) => {
                let stream = UnixStream::connect(path).await.expect("the validator serves its socket");
                let request = if names_host { request } else { request.header(HOST, "validator") };
                sent(stream, request.body(Full::new(body)).expect("a request")).await
            }
            Place::Network(address) => {
                let stream = TcpStream::connect(address).await.expect("the validator serves the API");
                let request = if names_host { request } else { request.header(HOST, address.to_string()) };
                sent(stream, request.body(Full::new(body)).expect("a request")).await
            }
        }
    }
}

async fn sent<S>(stream: S, request: Request<Full<Bytes>>) -> Response<Incoming>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
    // It ends with the answer, or with the server.
    tokio::spawn(connection);
    sender.send_request(request).await.expect("an answer")
}

impl Answer {
    #[must_use]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    #[must_use]
    pub fn json<T: DeserializeOwned>(&self) -> T {
        let read = serde_json::from_slice(&self.body);
        read.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The problem that it is, with the status that it says.
    #[must_use]
    pub fn problem(&self) -> ProblemDetails {
        assert_eq!(self.header(CONTENT_TYPE.as_str()), Some("application/problem+json"), "{self:?}");
        let problem: ProblemDetails = self.json();
        assert_eq!((problem.status, problem.code.status()), (self.status, self.status));
        problem
    }

    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Events {
    fn of(response: Response<Incoming>) -> Self {
        let begins_after = response.headers().get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
        Self { begins_after, body: response.into_body(), buffer: String::new() }
    }

    /// The next one; comments are left out. `None` at the end of the stream.
    ///
    /// # Panics
    /// When none comes for as long as a test waits.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let told = told(block);
                self.buffer = rest.to_owned();
                if told != StreamEvent::default() {
                    return Some(told);
                }
                continue;
            }
            let frame = timeout(PATIENCE, self.body.frame()).await.expect("something comes")?;
            // A server that is gone breaks the stream off.
            let frame = frame.ok()?;
            if let Some(data) = frame.data_ref() {
                self.buffer.push_str(std::str::from_utf8(data).expect("events are UTF-8"));
            }
        }
    }

    /// The next one of a kind, with those before it left out.
    pub async fn next_of(&mut self, event: &str) -> StreamEvent {
        loop {
            let told = self.next().await.unwrap_or_else(|| panic!("the stream ends before {event}"));
            if told.event == event {
                return told;
            }
        }
    }
}

fn told(block: &str) -> StreamEvent {
    let mut told = StreamEvent::default();
    for (field, value) in block.lines().filter_map(|line| line.split_once(": ")) {
        match field {
            "event" => value.clone_into(&mut told.event),
            "id" => value.clone_into(&mut told.id),
            "data" => value.clone_into(&mut told.data),
            _ => {}
        }
    }
    told
}
