//! Live events: streams that can be resumed.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use assay_api::{EventsQuery, Gap, LiveEvent, ProblemCode};
use assay_listen::bounds::{EVENT_STREAM_INTERVAL, MAX_CALLER_EVENT_STREAMS, MAX_EVENT_STREAMS};
use assay_records::{EventKind, with_api_limit};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_stream::Stream;

use super::Web;
use super::caller::Caller;
use super::origin::RequestOrigin;
use super::problem::{ApiError, Result};

/// Header with the last event that a client has seen.
const LAST_EVENT_ID: &str = "last-event-id";
/// Event that reports a gap: older events are no longer kept.
const GAP: &str = "gap";
/// Events read in one batch.
const BATCH: u32 = 256;

/// Streams events from a position on, while the caller may read and the validator runs.
///
/// # Errors
/// A position that is not a number, an unknown kind, or too many streams.
pub async fn stream(
    web: Arc<Web>,
    caller: Caller,
    origin: RequestOrigin,
    query: EventsQuery,
    headers: &HeaderMap,
) -> Result<Response> {
    let kinds = query.kinds.filter(|text| !text.is_empty()).map(|text| kinds_of(&text)).transpose()?;
    let place = web.streams.enter(&caller, MAX_CALLER_EVENT_STREAMS, MAX_EVENT_STREAMS)?;
    let after = match headers.get(LAST_EVENT_ID) {
        Some(header) => Some(event_id(header.to_str().unwrap_or_default())?),
        None => query.after,
    };
    if after.is_some_and(|after| after < 0) {
        return Err(ApiError::new(ProblemCode::Invalid, "after: an event's number is not below 0"));
    }
    let records = web.running.validator.records.clone();
    // Before the position is read, so that no event in between is missed.
    let mut news = records.event_watch();
    let last = records.last_event().await?;
    let oldest = records.first_event().await?.unwrap_or(last + 1);
    let (mut at, gap) = begin(after, oldest, last);
    let (mut until, mut given) = (StreamLifetime::new(web, caller, origin), at);
    let events = async_stream::stream! {
        let _place = place;
        if let Some(gap) = gap {
            yield Ok::<_, Infallible>(event(GAP, &gap).id(at.to_string()));
        }
        loop {
            // Also of a reader that is never up to date.
            if until.is_due() && until.looks().await {
                return;
            }
            news.mark_unchanged();
            // On a read error the stream ends: the client reconnects and reads again.
            let Ok(batch) = with_api_limit(records.events(at, BATCH)).await else { return };
            let is_full = batch.len() == BATCH as usize;
            for told in batch {
                at = told.seq;
                if kinds.as_ref().is_none_or(|kinds| kinds.contains(&told.kind())) {
                    given = at;
                    yield Ok(live(&told));
                }
            }
            if is_full {
                continue;
            }
            let has_looked = tokio::select! {
                changed = news.changed() => if changed.is_err() { return } else { false },
                is_over = until.looks() => if is_over { return } else { true },
            };
            // A stream of some kinds goes on from here too, and not from an event that is no longer kept.
            if has_looked && given < at {
                given = at;
                yield Ok(Event::default().id(at.to_string()));
            }
        }
    };
    let mut response = answer(events);
    // A client that hears of nothing before it is cut off knows where to go on.
    response.headers_mut().insert(LAST_EVENT_ID, at.into());
    Ok(response)
}

/// The event after which a stream begins, and its gap: events no longer kept, or events that these records do not have
/// yet, as after restoring a backup.
fn begin(after: Option<i64>, oldest: i64, last: i64) -> (i64, Option<Gap>) {
    match after {
        None => (last, None),
        Some(after) if after + 1 < oldest => (oldest - 1, Some(Gap { after, oldest })),
        Some(after) if after > last => (last, Some(Gap { after, oldest: last + 1 })),
        Some(after) => (after, None),
    }
}

fn event_id(text: &str) -> Result<i64> {
    let parsed = text.trim().parse::<i64>().ok().filter(|id| *id >= 0);
    parsed.ok_or_else(|| ApiError::new(ProblemCode::Invalid, "Last-Event-ID: not the number of an event"))
}

fn kinds_of(text: &str) -> Result<BTreeSet<EventKind>> {
    let each: Result<_, String> = text.split(',').map(|name| name.trim().parse()).collect();
    each.map_err(|why| ApiError::new(ProblemCode::Invalid, format!("kinds: {why}")))
}

fn live(told: &LiveEvent) -> Event {
    event(told.kind().name(), told).id(told.seq.to_string())
}

/// An event with a document as its data, on one line.
pub fn event(name: &str, document: &impl serde::Serialize) -> Event {
    // Texts and numbers always become JSON.
    Event::default().event(name).data(serde_json::to_string(document).unwrap_or_default())
}

/// A response with a stream of events.
pub fn answer(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let stands = KeepAlive::new().interval(EVENT_STREAM_INTERVAL);
    let mut response = Sse::new(events).keep_alive(stands).into_response();
    // A buffering proxy would delay events.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    // As in every answer of the API; stricter than the stream's own header.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Lifetime of a stream.
pub struct StreamLifetime {
    web: Arc<Web>,
    caller: Caller,
    origin: RequestOrigin,
    ending: watch::Receiver<bool>,
    next: Instant,
}

impl StreamLifetime {
    /// Lasts while the caller may read and the validator runs.
    pub fn new(web: Arc<Web>, caller: Caller, origin: RequestOrigin) -> Self {
        let ending = web.ending.subscribe();
        Self { web, caller, origin, ending, next: Instant::now() + EVENT_STREAM_INTERVAL }
    }

    /// Whether a check is due, or the validator ends.
    pub fn is_due(&self) -> bool {
        *self.ending.borrow() || Instant::now() >= self.next
    }

    /// Waits for the next check; returns whether the stream is over. Cancel safe: a check that was cut off is due.
    pub async fn looks(&mut self) -> bool {
        let is_ending = async { drop(self.ending.wait_for(|ending| *ending).await) };
        tokio::select! {
            () = is_ending => return true,
            () = sleep_until(self.next) => {}
        }
        let is_known = self.caller.is_still_known(&self.web, &self.origin).await;
        self.next = Instant::now() + EVENT_STREAM_INTERVAL;
        !is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_goes_on_after_the_last_event_seen_or_says_what_is_lacking() {
        assert_eq!(begin(None, 5, 9), (9, None), "from now on");
        assert_eq!(begin(Some(7), 5, 9), (7, None));
        assert_eq!(begin(Some(4), 5, 9), (4, None), "the oldest is the next");
        assert_eq!(begin(Some(3), 5, 9), (4, Some(Gap { after: 3, oldest: 5 })));
        assert_eq!(begin(Some(12), 5, 9), (9, Some(Gap { after: 12, oldest: 10 })), "of other records");
        assert_eq!(begin(Some(0), 1, 0), (0, None), "nothing has happened yet");
    }

    #[test]
    fn what_a_client_asks_for_is_checked() {
        assert_eq!(event_id(" 7 "), Ok(7));
        for text in ["", "-1", "x", "9999999999999999999999"] {
            assert!(event_id(text).is_err(), "{text}");
        }
        assert_eq!(kinds_of("verdict, state").unwrap().len(), 2);
        assert!(kinds_of("verdict,nonsense").is_err());
    }
}
