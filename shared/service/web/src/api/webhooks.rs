//! Webhooks: servers that receive events.

use std::sync::Arc;

use assay_api::{AddWebhook, AddedWebhook, ListPage, PageQuery, TestedWebhook};
use assay_keeper::operations::webhooks as operation;
use assay_records::WebhookRecord;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, ListResult, StatusResult};
use crate::caller::Admin;
use crate::extract::{Json, Path, Query};
use crate::{Web, WebState};

pub(super) fn routes() -> OpenApiRouter<Arc<Web>> {
    OpenApiRouter::new().routes(routes!(webhooks, add)).routes(routes!(remove)).routes(routes!(test))
}

/// Webhooks, oldest first, and how far each is
#[utoipa::path(get, path = "/api/v1/webhooks", tag = "webhooks",
    responses((status = 200, description = "All of them", body = ListPage<WebhookRecord>)),
    security(("token" = ["admin"])))]
async fn webhooks(_: Admin, State(web): WebState, _: Query<PageQuery>) -> ListResult<WebhookRecord> {
    Ok(Json(ListPage::all(web.running.validator.records.webhooks().await?)))
}

/// Adds a webhook, which is sent what happens from now on
#[utoipa::path(post, path = "/api/v1/webhooks", tag = "webhooks", request_body = AddWebhook,
    responses((status = 201, description = "The webhook, with its secret, shown this once", body = AddedWebhook)),
    security(("token" = ["admin"])))]
async fn add(Admin(caller): Admin, State(web): WebState, Json(asked): Json<AddWebhook>) -> StatusResult<AddedWebhook> {
    let added = operation::add(&web.running.validator, asked, &caller.actor).await?;
    Ok((StatusCode::CREATED, Json(added)))
}

/// Removes a webhook: it is sent nothing more
#[utoipa::path(delete, path = "/api/v1/webhooks/{webhook}", tag = "webhooks", 
    params(("webhook" = String, Path, description = "Its id, or the first digits", min_length = 4, max_length = 64,
        pattern = "^[0-9a-fA-F-]{4,64}$")),
    responses((status = 200, description = "The webhook", body = WebhookRecord)), security(("token" = ["admin"])))]
async fn remove(Admin(caller): Admin, State(web): WebState, Path(webhook): Path<String>) -> ApiResult<WebhookRecord> {
    Ok(Json(operation::remove(&web.running.validator, &webhook, &caller.actor).await?))
}

/// Sends a webhook a message that tells of nothing
#[utoipa::path(post, path = "/api/v1/webhooks/{webhook}/test", tag = "webhooks", 
    params(("webhook" = String, Path, description = "Its id, or the first digits", min_length = 4, max_length = 64,
        pattern = "^[0-9a-fA-F-]{4,64}$")),
    responses((status = 200, description = "What it answered", body = TestedWebhook)), security(("token" = ["admin"])))]
async fn test(_: Admin, State(web): WebState, Path(webhook): Path<String>) -> ApiResult<TestedWebhook> {
    Ok(Json(operation::test(&web.running.validator, &webhook).await?))
}
