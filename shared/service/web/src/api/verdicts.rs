//! Verdicts, their evidence and their receipts.

use std::sync::Arc;

use assay_api::{ListPage, ReceiptDetail, ReceiptsQuery, VerdictsQuery};
use assay_keeper::operations::read;
use assay_records::{FullVerdict, ReceiptRecord, VerdictRecord};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, ChallengePath, ListResult};
use crate::caller::Caller;
use crate::extract::{Json, Path, Query};
use crate::problem::Result;
use crate::{Web, WebState, evidence};

pub(super) fn routes() -> OpenApiRouter<Arc<Web>> {
    OpenApiRouter::new()
        .routes(routes!(verdicts))
        .routes(routes!(verdict))
        .routes(routes!(stored_evidence))
        .routes(routes!(receipts))
        .routes(routes!(receipt))
}

/// Verdicts, newest first
#[utoipa::path(get, path = "/api/v1/verdicts", tag = "verdicts", params(VerdictsQuery),
    responses((status = 200, description = "A page of them", body = ListPage<VerdictRecord>)),
    security(("token" = ["read"])))]
async fn verdicts(_: Caller, State(web): WebState, Query(query): Query<VerdictsQuery>) -> ListResult<VerdictRecord> {
    Ok(Json(read::verdicts(&web.running.validator, query).await?))
}

/// The verdict of a challenge, with everything behind it
#[utoipa::path(get, path = "/api/v1/verdicts/{challenge}", tag = "verdicts", params(ChallengePath),
    responses((status = 200, description = "The verdict", body = FullVerdict)), security(("token" = ["read"])))]
async fn verdict(
    _: Caller,
    State(web): WebState,
    Path(ChallengePath { challenge }): Path<ChallengePath>,
) -> ApiResult<FullVerdict> {
    Ok(Json(read::verdict(&web.running.validator, &challenge).await?))
}

/// The evidence of a challenge as it is stored: zstd, for `assay-validator rejudge`
#[utoipa::path(get, path = "/api/v1/verdicts/{challenge}/evidence", tag = "verdicts", params(ChallengePath),
    responses((status = 200, description = "The stored bytes, whose BLAKE3 the verdict names",
        content_type = "application/zstd", body = Vec<u8>)), security(("token" = ["read"])))]
async fn stored_evidence(
    _: Caller,
    State(web): WebState,
    Path(ChallengePath { challenge }): Path<ChallengePath>,
    headers: HeaderMap,
) -> Result<Response> {
    evidence::stored(&web, &challenge, &headers).await
}

/// Receipts of a miner, newest first
#[utoipa::path(get, path = "/api/v1/receipts", tag = "verdicts", params(ReceiptsQuery),
    responses((status = 200, description = "A page of them", body = ListPage<ReceiptRecord>)),
    security(("token" = ["read"])))]
async fn receipts(_: Caller, State(web): WebState, Query(query): Query<ReceiptsQuery>) -> ListResult<ReceiptRecord> {
    Ok(Json(read::receipts(&web.running.validator, query).await?))
}

/// A receipt
#[utoipa::path(get, path = "/api/v1/receipts/{receipt}", tag = "verdicts",
    params(("receipt" = String, Path, description = "Its id, or the first digits", min_length = 4, max_length = 64,
        pattern = "^[0-9a-fA-F-]{4,64}$")),
    responses((status = 200, description = "The receipt", body = ReceiptDetail)), security(("token" = ["read"])))]
async fn receipt(_: Caller, State(web): WebState, Path(receipt): Path<String>) -> ApiResult<ReceiptDetail> {
    Ok(Json(read::receipt(&web.running.validator, &receipt).await?))
}
