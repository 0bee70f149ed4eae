//! Streams of the API that follow one challenge.

use std::sync::Arc;

use assay_api::{ChallengeProgress, ChallengeUpdate, verdict_of};
use assay_keeper::course::Course;
use assay_keeper::operations::{read, running};
use assay_listen::bounds::{MAX_CALLER_EVENT_STREAMS, MAX_EVENT_STREAMS};
use axum::response::Response;
use axum::response::sse::Event;
use tokio::sync::watch;

use super::Web;
use super::caller::Caller;
use super::events::{StreamLifetime, answer};
use super::origin::RequestOrigin;
use super::problem::Result;

/// Streams the events of a challenge until its verdict.
///
/// # Errors
/// An unknown challenge, or too many streams.
pub async fn stream(web: Arc<Web>, caller: Caller, origin: RequestOrigin, challenge: &str) -> Result<Response> {
    // A challenge that has just begun may not be in the records yet.
    let registry = &web.running.validator.registry;
    let named = challenge.to_ascii_lowercase();
    let id = match registry.course(&named) {
        Some(_) => named,
        None => read::challenge_id(&web.running.validator, challenge).await?,
    };
    let place = web.streams.enter(&caller, MAX_CALLER_EVENT_STREAMS, MAX_EVENT_STREAMS)?;
    let mut until = StreamLifetime::new(web.clone(), caller, origin);
    let course = registry.course(&id);
    Ok(answer(async_stream::stream! {
        let _place = place;
        if let Some(course) = course {
            for await event in followed(course.clone(), &mut until) {
                yield Ok(event);
            }
            // A course without a sender is that of a session that ended.
            if course.borrow().verdict.is_some() || course.has_changed().is_ok() {
                return;
            }
        }
        // Its session is another validator's, or ended before it was judged.
        for await event in elsewhere(web, id, until) {
            yield Ok(event);
        }
    }))
}

/// The whole course of a challenge, and its further course.
fn followed(course: watch::Receiver<Course>, until: &mut StreamLifetime) -> impl tokio_stream::Stream<Item = Event> {
    async_stream::stream! {
        let (mut course, mut told): (_, Vec<ChallengeProgress>) = (course, Vec::new());
        loop {
            let (phases, verdict) = {
                let course = course.borrow_and_update();
                (course.phases().map(running::so_far).collect::<Vec<_>>(), course.verdict.clone())
            };
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
            tokio::select! {
                changed = course.changed() => if changed.is_err() { return },
                is_over = until.looks() => if is_over { return },
            }
        }
    }
}

/// A challenge of another validator, or one that ended a while ago: the records' data.
fn elsewhere(web: Arc<Web>, id: String, mut until: StreamLifetime) -> impl tokio_stream::Stream<Item = Event> {
    async_stream::stream! {
        let mut news = web.running.validator.records.event_watch();
        loop {
            news.mark_unchanged();
            // On a read error the stream ends: the client reconnects and reads again.
            let Ok(challenge) = read::challenge(&web.running.validator, &id).await else { return };
            if let Some(verdict) = challenge.verdict {
                let Ok(verdict) = verdict_of(&verdict.record) else { return };
                yield event_of(&ChallengeUpdate::Verdict(Box::new(verdict)));
                return;
            }
            tokio::select! {
                changed = news.changed() => if changed.is_err() { return },
                is_over = until.looks() => if is_over { return },
            }
        }
    }
}

fn event_of(update: &ChallengeUpdate) -> Event {
    // Texts and numbers always become JSON.
    Event::default().event(update.event()).data(update.data().unwrap_or_default())
}
