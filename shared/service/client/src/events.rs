//! A stream of live events.

use std::time::Duration;

use http::Response;
use http_body_util::BodyExt;
use hyper::body::Incoming;

pub use super::sse::SseEvent as ServerEvent;
use super::sse::SseParser;
use super::{ClientError, Result, said};

/// The longest silence: a validator sends keep-alives three times as often.
const SILENCE: Duration = Duration::from_secs(45);

/// The event that a stream begins after: asked for, and told.
pub(super) const LAST_EVENT_ID: &str = "last-event-id";

/// A stream of events.
#[derive(Debug)]
pub struct Events {
    /// The event after which the stream begins.
    pub after: Option<String>,
    body: Incoming,
    parser: SseParser,
}

impl Events {
    pub(super) fn new(answer: Response<Incoming>) -> Self {
        let after = answer.headers().get(LAST_EVENT_ID).and_then(|after| after.to_str().ok());
        Self { after: after.map(str::to_owned), body: answer.into_body(), parser: SseParser::default() }
    }

    /// Waits for the next event; `None` where the validator ended the stream. Cancel safe.
    ///
    /// # Errors
    /// [`ClientError::Broken`].
    pub async fn next(&mut self) -> Result<Option<ServerEvent>> {
        loop {
            if let Some(event) = self.parser.next() {
                return Ok(Some(event));
            }
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await;
            let frame = frame.map_err(|_| ClientError::Broken(format!("nothing came for {SILENCE:?}")))?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| ClientError::Broken(said(&error.to_string())))?;
            if let Some(bytes) = frame.data_ref() {
                self.parser.take(bytes).map_err(|error| ClientError::Broken(error.to_string()))?;
            }
        }
    }
}
