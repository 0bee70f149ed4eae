//! A client of a validator's HTTP API, used by every command to a running validator, over its control socket or over
//! the network.

#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
pub mod device_spec;
mod events;
mod failure;
mod follow;
pub mod place;
mod reach;
pub mod render;
mod sse;
mod url;

use std::sync::Arc;
use std::time::Duration;

use assay_api::{Cursor, ListPage, ProblemDetails};
use assay_work::text::printable;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::events::LAST_EVENT_ID;
pub use self::events::{Events, ServerEvent};
pub use self::failure::{ClientError, Result};
pub use self::follow::Updates;
use self::place::ApiLocation;
use self::reach::Connector;

/// Time limit of an answer. A validator answers within milliseconds: a silent server is not a validator.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// The largest accepted answer in bytes; lists come in pages.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Items on a page of a list.
const PAGE: u32 = 500;
/// Prefix of every path.
const API: &str = "/api/v1";
/// Interval of HTTP/2 pings, and the time limit of their answer.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Name of the program for the validator's log.
const AGENT: &str = concat!("assay-validator/", env!("CARGO_PKG_VERSION"));

/// A client of one validator. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    http: HttpClient<Connector, Full<Bytes>>,
    place: Arc<ApiLocation>,
    origin: Arc<str>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.place)
    }
}

impl Client {
    /// Creates a client; it connects on first use.
    pub fn of(place: &ApiLocation) -> Self {
        let place = Arc::new(place.clone());
        let http = HttpClient::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(KEEPALIVE)
            .http2_keep_alive_timeout(KEEPALIVE)
            .build(Connector(place.clone()));
        let origin = match &*place {
            ApiLocation::Socket(_) => "http://localhost".into(),
            ApiLocation::Server(server) => server.url.to_string().into(),
        };
        Self { http, place, origin }
    }

    pub fn place(&self) -> &ApiLocation {
        &self.place
    }

    /// Gets the document at a path.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.ask(Method::GET, path, None, Some(ANSWER_LIMIT)).await
    }

    /// Gets the first items of a list, at most `most`, over all pages needed.
    pub async fn list<T: DeserializeOwned>(&self, path: &str, query: &impl Serialize, most: u32) -> Result<Vec<T>> {
        let (mut found, mut cursor) = (Vec::new(), None::<Cursor>);
        loop {
            let limit = most.saturating_sub(found.len() as u32).min(PAGE);
            let page = PageRequest { query, limit, cursor };
            let ListPage { items, next } = self.get(&format!("{path}{}", query_of(&page))).await?;
            let is_empty = items.is_empty();
            found.extend(items);
            // An empty page could be followed by others without end.
            if next.is_none() || is_empty || found.len() >= most as usize {
                return Ok(found);
            }
            cursor = next;
        }
    }

    /// Runs an action; returns its result.
    pub async fn act<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.ask(Method::POST, path, None, Some(ANSWER_LIMIT)).await
    }

    /// Runs an action as [`Client::act`], without a time limit.
    pub async fn act_slow<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.ask(Method::POST, path, None, None).await
    }

    /// Posts a document to a path; returns the result.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, document: &impl Serialize) -> Result<T> {
        self.ask(Method::POST, path, Some(json(document)), Some(ANSWER_LIMIT)).await
    }

    /// Posts as [`Client::post`], without a time limit.
    pub async fn post_slow<T: DeserializeOwned>(&self, path: &str, document: &impl Serialize) -> Result<T> {
        self.ask(Method::POST, path, Some(json(document)), None).await
    }

    /// Changes the item at a path; returns the result.
    pub async fn patch<T: DeserializeOwned>(&self, path: &str, document: &impl Serialize) -> Result<T> {
        self.ask(Method::PATCH, path, Some(json(document)), Some(ANSWER_LIMIT)).await
    }

    /// Deletes the item at a path; returns the result.
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.ask(Method::DELETE, path, None, Some(ANSWER_LIMIT)).await
    }

    /// Streams the events at a path; `after`: from the event behind this id on.
    pub async fn events(&self, path: &str, after: Option<&str>) -> Result<Events> {
        let mut request = self.request(Method::GET, path, None)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(after) = after {
            let after = HeaderValue::from_str(after).map_err(|error| failure::no_answer(&self.place, error))?;
            request.headers_mut().insert(LAST_EVENT_ID, after);
        }
        let sent = tokio::time::timeout(ANSWER_LIMIT, self.send(request)).await;
        let answer = sent.map_err(|_| failure::slow(&self.place))??;
        if answer.status() != StatusCode::OK {
            return Err(self.refused(answer).await);
        }
        Ok(Events::new(answer))
    }

    /// Gets the public keys of the validator's receipts, a JWK set.
    pub async fn receipt_keys(&self) -> Result<Value> {
        self.answer(self.request_at(Method::GET, "/.well-known/jwks.json", None)?, Some(ANSWER_LIMIT)).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        limit: Option<Duration>,
    ) -> Result<T> {
        self.answer(self.request(method, path, body)?, limit).await
    }

    async fn answer<T: DeserializeOwned>(&self, request: Request<Full<Bytes>>, limit: Option<Duration>) -> Result<T> {
        let answer = async {
            let answer = self.send(request).await?;
            if !answer.status().is_success() {
                return Err(self.refused(answer).await);
            }
            self.body(answer).await
        };
        let answer = match limit {
            Some(limit) => tokio::time::timeout(limit, answer).await.map_err(|_| failure::slow(&self.place))?,
            None => answer.await,
        };
        let bytes = answer?;
        // An answer without content counts as `null`.
        let bytes = if bytes.is_empty() { Bytes::from_static(b"null") } else { bytes };
        serde_json::from_slice(&bytes).map_err(|error| failure::no_answer(&self.place, error))
    }

    fn request(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Request<Full<Bytes>>> {
        self.request_at(method, &format!("{API}{path}"), body)
    }

    /// A request to a path that need not be of the API.
    fn request_at(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.origin));
        request = request.header(USER_AGENT, AGENT).header(ACCEPT, "application/json");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let ApiLocation::Server(server) = &*self.place
            && let Some(token) = &server.token
            && let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", token.secret()))
        {
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::from(body.unwrap_or_default()));
        request.map_err(|error| failure::no_answer(&self.place, error))
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        self.http.request(request).await.map_err(|error| failure::unreachable(&self.place, &error))
    }

    async fn body(&self, answer: Response<Incoming>) -> Result<Bytes> {
        let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| ClientError::Broken(error.to_string()))
    }

    /// The problem in an error answer.
    async fn refused(&self, answer: Response<Incoming>) -> ClientError {
        let status = answer.status();
        let body = match self.body(answer).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        match serde_json::from_slice::<ProblemDetails>(&body) {
            Ok(problem) => ClientError::Refused(Box::new(problem)),
            Err(_) => failure::no_answer(&self.place, format!("HTTP status {status}")),
        }
    }
}

/// The query of one page of a list.
#[derive(Serialize)]
struct PageRequest<'a, Q> {
    #[serde(flatten)]
    query: &'a Q,
    limit: u32,
    cursor: Option<Cursor>,
}

/// Runs requests to a validator to completion.
///
/// # Errors
/// Those of the runtime or of the requests.
pub fn block_on<T>(conversation: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(conversation)
}

/// Documents of ours always become JSON.
fn json(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(document).unwrap_or_default()
}

/// The query string with the fields that are set, with its `?`.
pub fn query_of(query: &impl Serialize) -> String {
    let Ok(Value::Object(fields)) = serde_json::to_value(query) else { return String::new() };
    let text = |value: Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    };
    let pairs = fields.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", escaped(&text(value)?))));
    let pairs: Vec<_> = pairs.collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// Percent-encodes a text for a path or a query (RFC 3986, 2.1).
pub fn escaped(text: &str) -> String {
    let sign = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(sign).collect()
}

/// Makes text of another machine's program safe to show.
fn said(text: &str) -> String {
    printable(text, 256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_the_fields_that_are_set() {
        #[derive(Serialize)]
        struct Asked {
            label: Option<&'static str>,
            state: Option<&'static str>,
            connected: bool,
        }
        let query = |state| {
            let asked = Asked { label: Some("rack=7,dc=Hal le&ü"), state, connected: true };
            query_of(&PageRequest { query: &asked, limit: 7, cursor: None })
        };
        let expected = "?connected=true&label=rack%3D7%2Cdc%3DHal%20le%26%C3%BC&limit=7";
        assert_eq!(query(None), expected);
        assert_eq!(query(Some("a")), format!("{expected}&state=a"));
        assert_eq!(query_of(&serde_json::json!({})), "");
    }
}
