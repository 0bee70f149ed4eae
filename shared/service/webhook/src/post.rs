//! Posts events to a server: one after the other over one connection, each with a time limit and a bound on the answer.
//! Redirects are not followed: a receiver must not choose other hosts for this machine.

use std::time::Duration;

use assay_program::clock::unix_seconds;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response, StatusCode};

use super::address::connect;
use super::message::WebhookMessage;
use super::sign::SigningSecret;
use super::url::Url;

/// The most bytes of an answer's body, read only to reuse the connection, and discarded.
const MAX_ANSWER_BYTES: usize = 16 << 10;

/// A failed delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryFailure {
    /// The reason, for an operator.
    pub why: String,
    /// Retry time that the server asks for.
    pub retry_after: Option<Duration>,
    /// Whether the server wants no further events: 410 Gone.
    pub is_gone: bool,
}

impl DeliveryFailure {
    /// A failure that may be temporary.
    pub fn because(why: impl Into<String>) -> Self {
        Self { why: why.into(), retry_after: None, is_gone: false }
    }
}

/// A server that receives events.
#[derive(Debug)]
pub struct WebhookClient {
    url: Url,
    secret: SigningSecret,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl WebhookClient {
    /// Creates a poster for a URL, with the signing secret.
    pub const fn new(url: Url, secret: SigningSecret) -> Self {
        Self { url, secret, connection: None }
    }

    /// Posts an event; any success status is an acceptance.
    pub async fn post(&mut self, message: &WebhookMessage, limit: Duration) -> Result<StatusCode, DeliveryFailure> {
        let posted = tokio::time::timeout(limit, self.exchange(message)).await;
        let posted =
            posted.unwrap_or_else(|_| Err(DeliveryFailure::because(format!("no answer came within {limit:?}"))));
        if posted.is_err() {
            self.connection = None;
        }
        posted
    }

    async fn exchange(&mut self, message: &WebhookMessage) -> Result<StatusCode, DeliveryFailure> {
        let answer = match self.connection.take().filter(|kept| !kept.is_closed()) {
            // The server may have just closed the idle connection.
            Some(kept) => match self.send(kept, message).await {
                Ok(answer) => answer,
                Err(_) => self.send_anew(message).await?,
            },
            None => self.send_anew(message).await?,
        };
        let (status, retry_after) = (answer.status(), retry_after(&answer));
        // A longer body leaves the connection unusable.
        if Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await.is_err() {
            self.connection = None;
        }
        if status.is_success() {
            return Ok(status);
        }
        let redirect = if status.is_redirection() { ", which is not followed" } else { "" };
        let why = format!("the server answered {status}{redirect}");
        Err(DeliveryFailure { why, retry_after, is_gone: status == StatusCode::GONE })
    }

    async fn send_anew(&mut self, message: &WebhookMessage) -> Result<Response<Incoming>, DeliveryFailure> {
        let url = &self.url.0;
        let stream = connect(&url.address.host, url.address.port).await.map_err(DeliveryFailure::because)?;
        let sender = url.speak(stream).await.map_err(DeliveryFailure::because)?;
        self.send(sender, message).await.map_err(DeliveryFailure::because)
    }

    async fn send(
        &mut self,
        mut sender: SendRequest<Full<Bytes>>,
        message: &WebhookMessage,
    ) -> Result<Response<Incoming>, String> {
        sender.ready().await.map_err(|error| error.to_string())?;
        let answer = sender.send_request(self.request(message)?).await.map_err(|error| error.to_string())?;
        self.connection = Some(sender);
        Ok(answer)
    }

    fn request(&self, message: &WebhookMessage) -> Result<Request<Full<Bytes>>, String> {
        let (WebhookMessage { id, body }, unix_s) = (message, unix_seconds());
        let request = Request::post(self.url.0.path.as_str())
            .header(HOST, self.url.0.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("assay-validator/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", id)
            .header("webhook-timestamp", unix_s)
            .header("webhook-signature", self.secret.sign(id, unix_s, body));
        request.body(Full::new(Bytes::copy_from_slice(body))).map_err(|error| error.to_string())
    }
}

/// Seconds of the header `Retry-After`; dates are ignored.
fn retry_after(answer: &Response<Incoming>) -> Option<Duration> {
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
