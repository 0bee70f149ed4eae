//! Events as they come.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;

pub use super::sse::SseEvent as ServerEvent;
use super::sse::SseParser;
use super::{ClientError, said};

/// How long nothing may come: a validator says at least that it is there three times as often.
const SILENCE: Duration = Duration::from_secs(45);

/// A stream of events.
#[derive(Debug)]
pub struct Events {
    body: Incoming,
    parser: SseParser,
}

impl Events {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, parser: SseParser::default() }
    }

    /// The next event; `None` where the validator ended the stream. Cancel safe.
    ///
    /// # Errors
    /// [`ClientError::Broken`].
    pub async fn next(&mut self) -> Result<Option<ServerEvent>, ClientError> {
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
