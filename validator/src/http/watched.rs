//! How a challenge goes on: its course from its beginning for whoever began it here, else as it is seen.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use assay_api::{ChallengeUpdate, Running, verdict_of};
use assay_protocol::verdict::Verdict;
use assay_work::ChallengeId;
use axum::response::Response;
use axum::response::sse::Event;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::Web;
use super::caller::Caller;
use super::events::{Until, answer};
use super::origin::RequestOrigin;
use super::problem::Refused;
use crate::bounds::{MAX_WATCHED, WATCHED_LIMIT};
use crate::operations::{read, running};
use crate::registry::Update;

/// The phases of a challenge that are kept: there are eight.
const MAX_PHASES: usize = 32;
/// How often a challenge is looked at that was not begun here.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The course of a challenge so far.
#[derive(Debug, Clone)]
struct Course {
    /// How far it was at the beginning of each phase; the last one is as far as it is.
    phases: Vec<Running>,
    /// Its end.
    verdict: Option<Box<Verdict>>,
    /// Whether more will be known of it.
    is_over: bool,
}

/// A challenge that was begun over the API.
#[derive(Debug)]
struct Watched {
    id: ChallengeId,
    course: watch::Receiver<Course>,
}

/// The challenges that were begun over the API.
#[derive(Debug, Default)]
pub struct Watches(Arc<Mutex<VecDeque<Watched>>>);

impl Watches {
    /// Keeps the course of a challenge that began.
    pub fn follow(&self, began: Running, mut updates: mpsc::Receiver<Update>) {
        let (id, since) = (began.challenge_id, Instant::now());
        let course = Course { phases: vec![began], verdict: None, is_over: false };
        let (sender, receiver) = watch::channel(course);
        {
            let mut watched = self.lock();
            if watched.len() >= MAX_WATCHED {
                watched.pop_front();
            }
            watched.push_back(Watched { id, course: receiver });
        }
        let all = self.0.clone();
        tokio::spawn(async move {
            while let Some(update) = updates.recv().await {
                sender.send_modify(|course| course.advance(update, since));
            }
            sender.send_modify(|course| course.is_over = true);
            drop(sender);
            sleep(WATCHED_LIMIT).await;
            all.lock().unwrap_or_else(PoisonError::into_inner).retain(|watched| watched.id != id);
        });
    }

    fn find(&self, id: &str) -> Option<watch::Receiver<Course>> {
        self.lock().iter().find(|watched| watched.id.to_string() == id).map(|watched| watched.course.clone())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Course {
    fn advance(&mut self, update: Update, since: Instant) {
        let has_room = self.phases.len() < MAX_PHASES;
        let Some(last) = self.phases.last_mut() else { return };
        let now = Running { seconds: since.elapsed().as_secs(), ..last.clone() };
        match update {
            Update::Phase(phase) if has_room => self.phases.push(Running { phase: phase.to_owned(), ..now }),
            Update::Phase(phase) => *last = Running { phase: phase.to_owned(), ..now },
            Update::Progress(done_slots, all_slots) => *last = Running { done_slots, all_slots, ..now },
            Update::Verdict(verdict) => self.verdict = Some(verdict),
        }
    }
}

/// The events of a challenge until its verdict.
///
/// # Errors
/// There is no such challenge, or too many streams stand.
pub async fn stream(
    web: Arc<Web>,
    caller: Caller,
    origin: RequestOrigin,
    challenge: &str,
) -> Result<Response, Refused> {
    // One that has just begun may not be in the records yet.
    let named = challenge.to_ascii_lowercase();
    let id = match web.watched.find(&named) {
        Some(_) => named,
        None => read::challenge_id(&web.running.validator, challenge).await?,
    };
    let place = web.streams.enter(&caller)?;
    let until = Until::new(web.clone(), caller, origin);
    Ok(match web.watched.find(&id) {
        Some(course) => answer(async_stream::stream! {
            let _place = place;
            for await event in followed(course, until) {
                yield Ok(event);
            }
        }),
        None => answer(async_stream::stream! {
            let _place = place;
            for await event in seen(web, id, until) {
                yield Ok(event);
            }
        }),
    })
}

/// The whole course of a challenge, and what it becomes.
fn followed(mut course: watch::Receiver<Course>, mut until: Until) -> impl tokio_stream::Stream<Item = Event> {
    async_stream::stream! {
        let mut told: Vec<Running> = Vec::new();
        loop {
            let Course { phases, verdict, is_over } = course.borrow_and_update().clone();
            let last = told.len().saturating_sub(1);
            for (number, running) in phases.iter().enumerate().skip(last) {
                if told.get(number) != Some(running) {
                    yield event_of(&ChallengeUpdate::Running(running.clone()));
                }
            }
            told = phases;
            if let Some(verdict) = verdict {
                yield event_of(&ChallengeUpdate::Verdict(verdict));
                return;
            }
            if is_over {
                return;
            }
            tokio::select! {
                // Without a sender it is over: the course says so.
                _ = course.changed() => {}
                is_over = until.looks() => if is_over { return },
            }
        }
    }
}

/// A challenge as it is seen from outside.
fn seen(web: Arc<Web>, id: String, mut until: Until) -> impl tokio_stream::Stream<Item = Event> {
    async_stream::stream! {
        let mut told = None;
        loop {
            // What cannot be read now is read when the client comes again.
            let Ok(challenge) = read::challenge(&web.running.validator, &id).await else { return };
            if let Some(verdict) = challenge.verdict {
                let Ok(verdict) = verdict_of(&verdict.record) else { return };
                yield event_of(&ChallengeUpdate::Verdict(Box::new(verdict)));
                return;
            }
            let key = challenge.record.begun.miner;
            // It is looked up in memory until it is over there.
            while let Some(now) = running::challenge(&web.running.validator, &key, &id) {
                if told.as_ref() != Some(&now) {
                    yield event_of(&ChallengeUpdate::Running(now.clone()));
                    told = Some(now);
                }
                tokio::select! {
                    () = sleep(LOOK_INTERVAL) => {}
                    is_over = until.looks() => if is_over { return },
                }
            }
            tokio::select! {
                () = sleep(LOOK_INTERVAL) => {}
                is_over = until.looks() => if is_over { return },
            }
        }
    }
}

fn event_of(update: &ChallengeUpdate) -> Event {
    // Texts and numbers always become JSON.
    Event::default().event(update.event()).data(update.data().unwrap_or_default())
}
