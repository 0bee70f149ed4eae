//! Feed of a validator's state: everything at the beginning, then its events.

use std::time::Duration;

use assay_api::record::VerdictRecord;
use assay_api::{LiveEvent, Miner, MinerDetail, MinersQuery, ProblemCode, ServerStatus, VerdictsQuery};
use assay_program::exit::Failure;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::{Client, ClientError, Events, escaped};

/// The most miners shown: filters of the page or of `miners` select among more.
pub const MAX_MINERS: u32 = 2000;
/// The most verdicts kept.
pub const MAX_VERDICTS: u32 = 100;
/// Interval of reading the status, with the progress of challenges.
const STATUS: Duration = Duration::from_secs(1);
/// The shortest interval of listing the miners, and its increase for each of them.
const LIST: Duration = Duration::from_secs(2);
const LIST_EACH: Duration = Duration::from_millis(5);
/// Pauses before reconnecting to a lost validator: the first and the longest.
const PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// An update of the view.
#[derive(Debug)]
pub enum Update {
    /// State of the validator.
    Status(Box<ServerStatus>),
    /// The miners, and whether the list is complete.
    Miners(Vec<Miner>, bool),
    /// The last verdicts, newest first.
    Verdicts(Vec<VerdictRecord>),
    Event(Box<LiveEvent>),
    /// Details of a requested miner; `None`: it no longer exists.
    Detail(Option<Box<MinerDetail>>),
    /// The view is up to date.
    Live,
    /// The connection is lost and will be retried.
    Lost(String),
}

/// Reason for the end of a connection.
enum FeedEnd {
    /// The view was closed.
    Unwanted,
    Lost(ClientError),
}

impl From<ClientError> for FeedEnd {
    fn from(error: ClientError) -> Self {
        Self::Lost(error)
    }
}

/// Sends updates until the view is closed. Reconnects to a lost validator.
pub async fn follow(client: Client, told: mpsc::Sender<Update>, mut asked: mpsc::Receiver<String>) {
    let mut feed = Feed { client, told, last: None, is_stale: true };
    let mut pause = PAUSE;
    loop {
        let began = Instant::now();
        let error = match feed.connection(&mut asked).await {
            FeedEnd::Unwanted => return,
            FeedEnd::Lost(error) => error,
        };
        if error.code() == Some(ProblemCode::Gone) {
            // Later events are no longer kept: the current lists replace them.
            feed.last = None;
        }
        if feed.tell(Update::Lost(Failure::from(error).to_string())).await.is_err() {
            return;
        }
        pause = if began.elapsed() > MAX_PAUSE { PAUSE } else { pause };
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(MAX_PAUSE);
    }
}

struct Feed {
    client: Client,
    told: mpsc::Sender<Update>,
    /// The last event that was told, at first the one before the stream.
    last: Option<String>,
    /// Whether miners changed since they were listed.
    is_stale: bool,
}

impl Feed {
    async fn tell(&self, update: Update) -> Result<(), FeedEnd> {
        self.told.send(update).await.map_err(|_| FeedEnd::Unwanted)
    }

    /// Follows one connection until it is lost.
    async fn connection(&mut self, asked: &mut mpsc::Receiver<String>) -> FeedEnd {
        // Subscribes first: events during the listing are applied after it.
        match self.client.events("/events", self.last.as_deref()).await {
            Ok(mut events) => {
                // Also where it is lost before anything is told.
                self.last = events.after.take().or(self.last.take());
                self.all(&mut events, asked).await.unwrap_or_else(|end| end)
            }
            Err(error) => error.into(),
        }
    }

    async fn all(&mut self, events: &mut Events, asked: &mut mpsc::Receiver<String>) -> Result<FeedEnd, FeedEnd> {
        self.status().await?;
        let verdicts = self.client.list("/verdicts", &VerdictsQuery::default(), MAX_VERDICTS).await?;
        self.tell(Update::Verdicts(verdicts)).await?;
        let mut next_list = Instant::now() + self.miners().await?;
        self.tell(Update::Live).await?;
        let mut status = tokio::time::interval(STATUS);
        status.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = events.next() => match event? {
                    Some(event) => self.event(&event.id, &event.data).await?,
                    None => return Err(ClientError::Broken("the stream of events ended".to_owned()).into()),
                },
                miner = asked.recv() => match miner {
                    Some(miner) => self.detail(&miner).await?,
                    None => return Err(FeedEnd::Unwanted),
                },
                _ = status.tick() => self.status().await?,
                () = tokio::time::sleep_until(next_list), if self.is_stale => {
                    next_list = Instant::now() + self.miners().await?;
                }
            }
        }
    }

    async fn status(&self) -> Result<(), FeedEnd> {
        let status = self.client.get("/status").await?;
        self.tell(Update::Status(status)).await
    }

    /// Lists the miners; returns the wait before the next listing.
    async fn miners(&mut self) -> Result<Duration, FeedEnd> {
        self.is_stale = false;
        let began = Instant::now();
        let mut miners: Vec<Miner> = self.client.list("/miners", &MinersQuery::default(), MAX_MINERS + 1).await?;
        let is_all = miners.len() <= MAX_MINERS as usize;
        miners.truncate(MAX_MINERS as usize);
        let pause = LIST + LIST_EACH * miners.len() as u32 + 4 * began.elapsed();
        self.tell(Update::Miners(miners, is_all)).await?;
        Ok(pause)
    }

    async fn event(&mut self, id: &str, data: &str) -> Result<(), FeedEnd> {
        self.last = Some(id.to_owned()).filter(|id| !id.is_empty()).or(self.last.take());
        self.is_stale = true;
        match serde_json::from_str(data) {
            Ok(event) => self.tell(Update::Event(event)).await,
            // An event of a later release: the next list shows its effect.
            Err(_) => Ok(()),
        }
    }

    async fn detail(&self, miner: &str) -> Result<(), FeedEnd> {
        let detail = match self.client.get(&format!("/miners/{}", escaped(miner))).await {
            Ok(detail) => Some(detail),
            Err(error) if error.code() == Some(ProblemCode::NotFound) => None,
            Err(error) => return Err(error.into()),
        };
        self.tell(Update::Detail(detail)).await
    }
}
