//! Join tokens of miners, and tokens of the API.

use std::sync::Arc;

use assay_api::{ApiToken, CreateApiToken, CreateJoinToken, CreatedJoinToken, ListPage, PageQuery, ProblemCode};
use assay_keeper::operations::{self, read};
use assay_records::{ApiTokenRecord, TokenRecord};
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ListResult, StatusResult};
use crate::caller::Admin;
use crate::extract::{Json, Path, Query};
use crate::problem::{ApiError, Result};
use crate::{Web, WebState};

pub(super) fn routes() -> OpenApiRouter<Arc<Web>> {
    OpenApiRouter::new()
        .routes(routes!(join_tokens, create_join_token))
        .routes(routes!(tokens, create_token))
        .routes(routes!(revoke_token))
}

/// Join tokens that were made, newest first: not the tokens themselves
#[utoipa::path(get, path = "/api/v1/join-tokens", tag = "tokens", params(PageQuery),
    responses((status = 200, description = "A page of them", body = ListPage<TokenRecord>)),
    security(("token" = ["admin"])))]
async fn join_tokens(_: Admin, State(web): WebState, Query(query): Query<PageQuery>) -> ListResult<TokenRecord> {
    Ok(Json(read::join_tokens(&web.running.validator, query).await?))
}

/// Makes a join token, which lets in one miner
#[utoipa::path(post, path = "/api/v1/join-tokens", tag = "tokens", request_body = CreateJoinToken,
    responses((status = 201, description = "The token, shown this once", body = CreatedJoinToken)),
    security(("token" = ["admin"])))]
async fn create_join_token(
    Admin(caller): Admin,
    State(web): WebState,
    Json(asked): Json<CreateJoinToken>,
) -> StatusResult<CreatedJoinToken> {
    let made = operations::enroll(&web.running.validator, asked, &caller.actor).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// Tokens of the API, newest first: not the tokens themselves
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", params(PageQuery),
    responses((status = 200, description = "A page of them", body = ListPage<ApiTokenRecord>)),
    security(("token" = ["admin"])))]
async fn tokens(_: Admin, State(web): WebState, Query(query): Query<PageQuery>) -> ListResult<ApiTokenRecord> {
    Ok(Json(read::api_tokens(&web.running.validator, query).await?))
}

/// Makes a token of the API
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", request_body = CreateApiToken,
    responses((status = 201, description = "The token, shown this once", body = ApiToken)),
    security(("token" = ["admin"])))]
async fn create_token(
    Admin(caller): Admin,
    State(web): WebState,
    Json(asked): Json<CreateApiToken>,
) -> StatusResult<ApiToken> {
    let made = operations::tokens::create(&web.running.validator, asked, &caller.actor).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// Revokes a token of the API, or a join token that no miner used
#[utoipa::path(delete, path = "/api/v1/tokens/{token}", tag = "tokens",
    params(("token" = String, Path, description = "Its id, or the hash of a join token", min_length = 1, max_length = 64,
        pattern = "^[0-9a-fA-F-]{1,64}$")),
    responses((status = 204, description = "It can be used no more")), security(("token" = ["admin"])))]
async fn revoke_token(Admin(caller): Admin, State(web): WebState, Path(token): Path<String>) -> Result<StatusCode> {
    if web.running.validator.records.revoke_api_token(&token, &caller.actor).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(ApiError::new(ProblemCode::NotFound, "no token that can be used has this id"))
}
