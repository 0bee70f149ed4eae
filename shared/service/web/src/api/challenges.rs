//! Challenges: begin, follow and end them; and the live events.

use std::sync::Arc;

use assay_api::{BeginChallenge, ChallengeDetail, ChallengeProgress, EventsQuery, ListPage, StreamEvent};
use assay_keeper::operations::{read, running};
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, ChallengePath, StatusResult};
use crate::caller::{Caller, Operator};
use crate::extract::{Json, NoParameters, Path, Query};
use crate::origin::RequestOrigin;
use crate::problem::Result;
use crate::{Web, WebState, events, watched};

pub(super) fn routes() -> OpenApiRouter<Arc<Web>> {
    OpenApiRouter::new()
        .routes(routes!(challenges, begin))
        .routes(routes!(challenge, cancel))
        .routes(routes!(challenge_events))
        .routes(routes!(live_events))
}

/// The challenges that run
#[utoipa::path(get, path = "/api/v1/challenges", tag = "challenges",
    responses((status = 200, description = "All of this validator", body = ListPage<ChallengeProgress>)),
    security(("token" = ["read"])))]
async fn challenges(_: Caller, State(web): WebState, _: Query<NoParameters>) -> Json<ListPage<ChallengeProgress>> {
    Json(ListPage::all(running::challenges(&web.running.validator)))
}

/// Challenges a miner
#[utoipa::path(post, path = "/api/v1/challenges", tag = "challenges", request_body = BeginChallenge,
    responses((status = 202, description = "It began; `Location` is where it goes on", body = ChallengeProgress)),
    security(("token" = ["operate"])))]
async fn begin(
    Operator(caller): Operator,
    State(web): WebState,
    Json(asked): Json<BeginChallenge>,
) -> Result<Response> {
    let running = running::begin(&web.running.validator, asked).await?;
    let (id, miner) = (running.challenge_id, running.miner_key);
    tracing::info!(challenge = %id, %miner, by = caller.actor.name, "an operator began a challenge");
    let mut response = (StatusCode::ACCEPTED, Json(running)).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/api/v1/challenges/{id}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// A challenge, judged or not
#[utoipa::path(get, path = "/api/v1/challenges/{challenge}", tag = "challenges", params(ChallengePath),
    responses((status = 200, description = "The challenge", body = ChallengeDetail)), security(("token" = ["read"])))]
async fn challenge(
    _: Caller,
    State(web): WebState,
    Path(ChallengePath { challenge }): Path<ChallengePath>,
) -> ApiResult<ChallengeDetail> {
    Ok(Json(read::challenge(&web.running.validator, &challenge).await?))
}

/// Ends a challenge that runs: its verdict is inconclusive
#[utoipa::path(delete, path = "/api/v1/challenges/{challenge}", tag = "challenges", params(ChallengePath),
    responses((status = 202, description = "It ends", body = ChallengeProgress)), security(("token" = ["operate"])))]
async fn cancel(
    Operator(caller): Operator,
    State(web): WebState,
    Path(ChallengePath { challenge }): Path<ChallengePath>,
) -> StatusResult<ChallengeProgress> {
    let running = running::cancel(&web.running.validator, &challenge, &caller.actor).await?;
    Ok((StatusCode::ACCEPTED, Json(running)))
}

/// How a challenge goes on, as server-sent events: `running` with its progress, and at the end `verdict`
#[utoipa::path(get, path = "/api/v1/challenges/{challenge}/events", tag = "challenges", params(ChallengePath),
    responses((status = 200, description = "Events until its verdict: the data of `running` is a `Running`, that of \
        `verdict` a `Verdict`", content_type = "text/event-stream", body = StreamEvent)),
    security(("token" = ["read"])))]
async fn challenge_events(
    caller: Caller,
    origin: RequestOrigin,
    State(web): WebState,
    Path(ChallengePath { challenge }): Path<ChallengePath>,
) -> Result<Response> {
    watched::stream(web, caller, origin, &challenge).await
}

/// What happens, as server-sent events that can be resumed
///
/// The data of each is a `LiveEvent`. The header `Last-Event-ID`, or `after`, has the stream go on after that event.
#[utoipa::path(get, path = "/api/v1/events", tag = "challenges",
    params(EventsQuery, ("last-event-id" = Option<i64>, Header, description = "The last event that was seen")),
    responses((status = 200, description = "Events without an end, each with a `LiveEvent` as its data, and `gap` with \
        a `Gap`", content_type = "text/event-stream", body = StreamEvent,
        headers(("last-event-id" = i64, description = "The event after which they begin")))),
    security(("token" = ["read"])))]
async fn live_events(
    caller: Caller,
    origin: RequestOrigin,
    State(web): WebState,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response> {
    events::stream(web, caller, origin, query, &headers).await
}
