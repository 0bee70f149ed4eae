//! The updates of a challenge, up to its verdict.

use std::time::Duration;

use assay_api::ChallengeUpdate;
use assay_api::record::FullVerdict;
use assay_protocol::verdict::Verdict;
use assay_work::ChallengeId;

use super::{Client, ClientError, Events, Result, said};

/// Reconnection attempts after a lost connection, and the pause before each.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// The updates of a challenge. A lost network connection is re-established.
#[derive(Debug)]
pub struct Updates {
    client: Client,
    challenge: ChallengeId,
    events: Option<Events>,
    /// The verdict, whose receipt is still to be fetched.
    judged: Option<Box<Verdict>>,
    /// Reason of the last loss, and attempts since.
    lost: Option<(String, u32)>,
}

impl Updates {
    /// Follows a challenge that was begun.
    pub fn of(client: &Client, challenge: ChallengeId) -> Self {
        Self { client: client.clone(), challenge, events: None, judged: None, lost: None }
    }

    /// Waits for the next update; none follows a verdict. Cancel safe.
    ///
    /// # Errors
    /// [`ClientError`]: the validator is gone, or no longer knows the challenge.
    pub async fn next(&mut self) -> Result<ChallengeUpdate> {
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

    async fn one(&mut self) -> Result<ChallengeUpdate> {
        loop {
            if self.judged.is_some() {
                let receipt = self.receipt().await;
                // Taken after the last wait, so that a cancelled call loses no data.
                if let Some(mut verdict) = self.judged.take() {
                    verdict.receipt = receipt;
                    return Ok(ChallengeUpdate::Verdict(verdict));
                }
            }
            let events = match &mut self.events {
                Some(events) => events,
                none => none.insert(self.client.events(&format!("/challenges/{}/events", self.challenge), None).await?),
            };
            let Some(event) = events.next().await? else {
                return Err(ClientError::Broken("the stream ended".to_owned()));
            };
            let update = ChallengeUpdate::read(&event.name, &event.data);
            match update.map_err(|error| ClientError::Broken(said(&error.to_string())))? {
                Some(ChallengeUpdate::Verdict(verdict)) => self.judged = Some(verdict),
                Some(update) => return Ok(update),
                None => {}
            }
        }
    }

    /// Fetches the receipt, which the verdict's document lacks: it is recorded before the verdict is published. A
    /// verdict is valid without one, for example from a validator that is ending.
    async fn receipt(&self) -> Option<String> {
        let verdict = self.client.get::<FullVerdict>(&format!("/verdicts/{}", self.challenge)).await.ok()?;
        verdict.receipts.into_iter().next_back().map(|receipt| receipt.token)
    }
}
