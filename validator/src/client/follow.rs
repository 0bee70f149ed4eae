//! The updates of a challenge, up to its verdict.

use std::time::Duration;

use assay_api::ChallengeUpdate;
use assay_protocol::verdict::Verdict;
use assay_records::FullVerdict;
use assay_work::ChallengeId;

use super::{Client, ClientError, Events, said};

/// How often a server whose connection was lost is tried again, and how long after each time.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// The updates of a challenge. A connection over the network that is lost is made again.
#[derive(Debug)]
pub struct Updates {
    client: Client,
    challenge: ChallengeId,
    events: Option<Events>,
    /// The verdict, whose receipt is still to be fetched.
    judged: Option<Box<Verdict>>,
    /// Why the last connection was lost, and how often it was tried since.
    lost: Option<(String, u32)>,
}

impl Updates {
    /// Those of a challenge that was begun.
    #[must_use]
    pub fn of(client: &Client, challenge: ChallengeId) -> Self {
        Self { client: client.clone(), challenge, events: None, judged: None, lost: None }
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
            if self.judged.is_some() {
                let receipt = self.receipt().await;
                // Taken only now: nothing is lost where this was not waited for.
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

    /// The receipt of the verdict, which a verdict's document does not have: it is in the records before the verdict is
    /// told. A verdict counts without one too, such as that of a validator that ends.
    async fn receipt(&self) -> Option<String> {
        let verdict = self.client.get::<FullVerdict>(&format!("/verdicts/{}", self.challenge)).await.ok()?;
        verdict.receipts.into_iter().next_back().map(|receipt| receipt.token)
    }
}
