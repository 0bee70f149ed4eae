//! What is known without a token: the keys of receipts, and whether the validator lives and serves.

use std::sync::Arc;

use assay_api::ProblemCode;
use axum::Router;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::IntoResponse;
use axum::routing::get;

use super::Web;
use super::extract::Json;
use super::problem::Refused;

/// The keys change by an operator's doing only, and old ones stay in the set.
const KEYS_LIFETIME: &str = "public, max-age=300";

/// The routes.
pub fn routes() -> Router<Arc<Web>> {
    Router::new().route("/.well-known/jwks.json", get(keys)).route("/healthz", get(lives)).route("/readyz", get(serves))
}

/// The keys that receipts are signed with (RFC 7517).
async fn keys(State(web): State<Arc<Web>>) -> impl IntoResponse {
    let keys = web.running.validator.fleet.signer().key_set().to_json();
    ([(CACHE_CONTROL, KEYS_LIFETIME)], Json(keys))
}

/// The process lives: who asks restarts it where it does not answer.
async fn lives() -> &'static str {
    "ok\n"
}

/// The validator takes miners, and writes their verdicts: who asks sends miners elsewhere where it does not.
async fn serves(State(web): State<Arc<Web>>) -> Result<&'static str, Refused> {
    let validator = &web.running.validator;
    if validator.shutdown.is_draining() {
        return Err(Refused::new(ProblemCode::Draining, "the validator is draining"));
    }
    // Why is for callers that may read: the status has it.
    let not_recording = |_| Refused::new(ProblemCode::Records, "verdicts cannot be written now");
    validator.check_recording().map_err(not_recording)?;
    Ok("ok\n")
}
