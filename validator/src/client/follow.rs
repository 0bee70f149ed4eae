//! The updates of a challenge, up to its verdict.

use std::time::Duration;

use assay_api::ChallengeUpdate;
use assay_work::ChallengeId;

use super::{Client, ClientError, Events, said};

/// How often a server whose connection was lost is tried again, and how long after each time.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// The updates of a challenge. A connection over the network that is lost is made again.
#[derive(Debug)]
pub struct Updates {
    client: Client,
    path: String,
    events: Option<Events>,
    /// Why the last connection was lost, and how often it was tried since.
    lost: Option<(String, u32)>,
}

impl Updates {
    /// Those of a challenge that was begun.
    #[must_use]
    pub fn of(client: &Client, challenge: ChallengeId) -> Self {
        Self { client: client.clone(), path: format!("/challenges/{challenge}/events"), events: None, lost: None }
    }

    /// The next one; nothing follows a verdict. Cancel safe.
    ///
    /// # Errors
    /// [`ClientError`]: the validator is gone, or knows the challenge no more.
    pub async fn next(&mut self) -> Result<ChallengeUpdate, ClientError> {
        loop {
            if let Some((_, 1..)) = self.lost {
                tokio::time::sleep(PAUSE).await;
            }
            let error = match self.one().await {
                Ok(update) => {
                    self.lost = None;
                    return Ok(update);
                }
                Err(error) => error,
            };
            self.events = None;
            let most = if self.client.place().is_socket() { 0 } else { TRIES };
            let (why, tried) = self.lost.take().unwrap_or_else(|| (error.to_string(), 0));
            if tried >= most || error.code().is_some() {
                return Err(ClientError::Broken(why));
            }
            self.lost = Some((why, tried + 1));
        }
    }

    async fn one(&mut self) -> Result<ChallengeUpdate, ClientError> {
        loop {
            let events = match &mut self.events {
                Some(events) => events,
                none => none.insert(self.client.events(&self.path, None).await?),
            };
            let Some(event) = events.next().await? else {
                return Err(ClientError::Broken("the stream ended".to_owned()));
            };
            let update = ChallengeUpdate::read(&event.name, &event.data);
            if let Some(update) = update.map_err(|error| ClientError::Broken(said(&error.to_string())))? {
                return Ok(update);
            }
        }
    }
}
