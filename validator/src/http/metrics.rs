//! The metrics, for Prometheus, and what is counted of every request.

use std::sync::Arc;
use std::time::Instant;

use assay_api::ProblemCode;
use assay_observe::metrics::TEXT;
use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::Web;
use super::caller::Caller;
use super::problem::Refused;
use crate::scrape;

/// The route of the metrics.
pub fn routes() -> Router<Arc<Web>> {
    Router::new().route("/metrics", get(page))
}

async fn page(State(web): State<Arc<Web>>, _reader: Caller) -> Result<Response, Refused> {
    let page = scrape::page(&web.running.validator)
        .await
        .map_err(|error| Refused::new(ProblemCode::Internal, error.to_string()))?;
    Ok(([(CONTENT_TYPE, TEXT)], page).into_response())
}

/// Counts requests by their route, those that are refused or have none included.
pub async fn observe(State(web): State<Arc<Web>>, request: Request, next: Next) -> Response {
    let (began, method) = (Instant::now(), request.method().clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map(MatchedPath::as_str);
    web.running.validator.metrics.http.note(route, &method, response.status(), began);
    response
}
