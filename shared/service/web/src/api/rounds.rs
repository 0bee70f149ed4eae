//! Synchronised rounds.

use std::sync::Arc;

use assay_api::{BeginRound, ListPage, PageQuery, Round, StartedRound};
use assay_keeper::operations::{read, rounds as operation};
use assay_records::RoundRecord;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, ListResult, StatusResult};
use crate::caller::{Caller, Operator};
use crate::extract::{Json, Path, Query};
use crate::{Web, WebState};

pub(super) fn routes() -> OpenApiRouter<Arc<Web>> {
    OpenApiRouter::new().routes(routes!(rounds, begin)).routes(routes!(round))
}

/// Rounds, newest first
#[utoipa::path(get, path = "/api/v1/rounds", tag = "rounds", params(PageQuery),
    responses((status = 200, description = "A page of them", body = ListPage<RoundRecord>)),
    security(("token" = ["read"])))]
async fn rounds(_: Caller, State(web): WebState, Query(query): Query<PageQuery>) -> ListResult<RoundRecord> {
    Ok(Json(read::rounds(&web.running.validator, query).await?))
}

/// Challenges the members of a group in the same moment
#[utoipa::path(post, path = "/api/v1/rounds", tag = "rounds", request_body = BeginRound,
    responses((status = 202, description = "It begins", body = StartedRound)), security(("token" = ["operate"])))]
async fn begin(
    Operator(caller): Operator,
    State(web): WebState,
    Json(asked): Json<BeginRound>,
) -> StatusResult<StartedRound> {
    let begun = operation::begin(web.running.validator.clone(), asked, &caller.actor).await?;
    Ok((StatusCode::ACCEPTED, Json(begun)))
}

/// A round with its members
#[utoipa::path(get, path = "/api/v1/rounds/{round}", tag = "rounds",
    params(("round" = String, Path, description = "Its id, or the first digits", min_length = 4, max_length = 32,
        pattern = "^[0-9a-fA-F]{4,32}$")),
    responses((status = 200, description = "The round", body = Round)), security(("token" = ["read"])))]
async fn round(_: Caller, State(web): WebState, Path(round): Path<String>) -> ApiResult<Round> {
    Ok(Json(read::round(&web.running.validator, &round).await?))
}
