//! The Prometheus endpoint, and the counts of requests.

use std::sync::Arc;
use std::time::Instant;

use assay_api::ProblemCode;
use assay_observe::page::TEXT;
use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::caller::Caller;
use super::problem::{ApiError, Result};
use super::{Web, WebState, scrape};

pub fn routes() -> Router<Arc<Web>> {
    Router::new().route("/metrics", get(page))
}

async fn page(State(web): WebState, _reader: Caller) -> Result<Response> {
    let page = scrape::page(&web.running.validator)
        .await
        .map_err(|error| ApiError::new(ProblemCode::Internal, error.to_string()))?;
    Ok(([(CONTENT_TYPE, TEXT)], page).into_response())
}

/// Counts every request by its route, including refused requests and those without a route.
pub async fn observe(State(web): WebState, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map(MatchedPath::as_str);
    web.running.validator.reports.metrics.families.request(route, response.status(), began);
    response
}
