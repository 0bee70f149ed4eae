//! What a validator tells, as it happens: a picture of everything at the beginning, then its events.

use std::time::Duration;

use assay_api::{LiveEvent, Miner, MinerDetail, MinersQuery, ProblemCode, Status, VerdictsQuery};
use assay_program::exit::Failure;
use assay_records::VerdictRecord;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::client::{Client, ClientError, Events, escaped};

/// The most miners that are shown: of more than that a filter of the page or of `miners` shows those that matter.
pub const MAX_MINERS: u32 = 2000;
/// The most verdicts that are kept.
pub const MAX_VERDICTS: u32 = 100;
/// How often the status is asked for, with how far challenges are.
const STATUS: Duration = Duration::from_secs(1);
/// The shortest time between two lists of the miners, and how much longer it is for each of them.
const LIST: Duration = Duration::from_secs(2);
const LIST_EACH: Duration = Duration::from_millis(5);
/// How long a validator that was lost is left alone, at first and at most.
const PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// Something new.
#[derive(Debug)]
pub enum Update {
    /// What the validator does.
    Status(Box<Status>),
    /// The miners, and whether these are all.
    Miners(Vec<Miner>, bool),
    /// The last verdicts, newest first.
    Verdicts(Vec<VerdictRecord>),
    /// Something happened.
    Event(Box<LiveEvent>),
    /// A miner that was asked for; `None`: there is no more of it.
    Detail(Option<Box<MinerDetail>>),
    /// Everything that was shown is up to date.
    Live,
    /// The validator does not answer, and is waited for.
    Lost(String),
}

/// Nobody wants to know any more.
struct Unwanted;

/// Why following ended.
enum End {
    Unwanted,
    Lost(ClientError),
}

impl From<Unwanted> for End {
    fn from(_: Unwanted) -> Self {
        Self::Unwanted
    }
}

impl From<ClientError> for End {
    fn from(error: ClientError) -> Self {
        Self::Lost(error)
    }
}

/// Tells what happens until nobody wants to know. A validator that is lost is waited for.
pub async fn follow(client: Client, told: mpsc::Sender<Update>, mut asked: mpsc::Receiver<String>) {
    let mut feed = Feed { client, told, last: None, is_stale: true };
    let mut pause = PAUSE;
    loop {
        let began = Instant::now();
        let error = match feed.connection(&mut asked).await {
            End::Unwanted => return,
            End::Lost(error) => error,
        };
        if error.code() == Some(ProblemCode::Gone) {
            // The events since then are kept no longer: what is there now says the same.
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
    /// The last event that was told.
    last: Option<String>,
    /// Whether miners changed since they were listed.
    is_stale: bool,
}

impl Feed {
    async fn tell(&self, update: Update) -> Result<(), Unwanted> {
        self.told.send(update).await.map_err(|_| Unwanted)
    }

    /// Follows one connection until it is lost.
    async fn connection(&mut self, asked: &mut mpsc::Receiver<String>) -> End {
        // Events first: what happens while everything is listed is told after it.
        match self.client.events("/events", self.last.as_deref()).await {
            Ok(mut events) => self.all(&mut events, asked).await.unwrap_or_else(|end| end),
            Err(error) => error.into(),
        }
    }

    async fn all(&mut self, events: &mut Events, asked: &mut mpsc::Receiver<String>) -> Result<End, End> {
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
                    None => return Err(End::Unwanted),
                },
                _ = status.tick() => self.status().await?,
                () = tokio::time::sleep_until(next_list), if self.is_stale => {
                    next_list = Instant::now() + self.miners().await?;
                }
            }
        }
    }

    async fn status(&self) -> Result<(), End> {
        let status = self.client.get("/status").await?;
        Ok(self.tell(Update::Status(status)).await?)
    }

    /// Lists the miners, and says how long not to do so again.
    async fn miners(&mut self) -> Result<Duration, End> {
        self.is_stale = false;
        let began = Instant::now();
        let mut miners: Vec<Miner> = self.client.list("/miners", &MinersQuery::default(), MAX_MINERS + 1).await?;
        let is_all = miners.len() <= MAX_MINERS as usize;
        miners.truncate(MAX_MINERS as usize);
        let pause = LIST + LIST_EACH * miners.len() as u32 + 4 * began.elapsed();
        self.tell(Update::Miners(miners, is_all)).await?;
        Ok(pause)
    }

    async fn event(&mut self, id: &str, data: &str) -> Result<(), End> {
        self.last = Some(id.to_owned()).filter(|id| !id.is_empty()).or(self.last.take());
        self.is_stale = true;
        match serde_json::from_str(data) {
            Ok(event) => Ok(self.tell(Update::Event(event)).await?),
            // Of a kind that a later release tells: the next list shows what came of it.
            Err(_) => Ok(()),
        }
    }

    async fn detail(&self, miner: &str) -> Result<(), End> {
        let detail = match self.client.get(&format!("/miners/{}", escaped(miner))).await {
            Ok(detail) => Some(detail),
            Err(error) if error.code() == Some(ProblemCode::NotFound) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(self.tell(Update::Detail(detail)).await?)
    }
}
