//! Endpoints without a token: the keys of receipts, the log of verdicts, and the process's health.

use std::sync::Arc;

use assay_api::ProblemCode;
use assay_program::clock::unix_seconds;
use axum::Router;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::get;

use super::extract::{Json, Path};
use super::problem::{ApiError, Result};
use super::{Web, WebState};

/// Keys change only by an operator's action, and old ones stay in the set.
const KEYS_LIFETIME: &str = "public, max-age=300";

/// Tiles of the log never change.
const TILE_LIFETIME: &str = "public, max-age=31536000, immutable";
/// The checkpoint of the log does.
const CHECKPOINT_LIFETIME: &str = "no-cache";

/// Liveness of the process.
const LIVES: &str = "/healthz";
/// Readiness to serve.
const SERVES: &str = "/readyz";

/// Whether a path is a health check: it neither reads a body nor waits for the records.
pub fn is_health(path: &str) -> bool {
    [LIVES, SERVES].contains(&path)
}

pub fn routes() -> Router<Arc<Web>> {
    let router = Router::new().route("/.well-known/jwks.json", get(keys)).route("/log/{key}/{*path}", get(log));
    router.route(LIVES, get(lives)).route(SERVES, get(serves))
}

/// The keys that receipts are signed with (RFC 7517).
async fn keys(State(web): WebState) -> impl IntoResponse {
    let keys = web.running.validator.fleet.signer.key_set(unix_seconds()).to_json();
    ([(CACHE_CONTROL, KEYS_LIFETIME)], Json(keys))
}

/// A file of the log of a key of this validator (C2SP tlog-tiles).
async fn log(State(web): WebState, Path((key, path)): Path<(String, String)>) -> Result<impl IntoResponse> {
    let read = web.running.validator.reports.log.read(&key, &path).await;
    let unreadable = |error| {
        tracing::warn!(%error, path, "the log of verdicts cannot be read");
        ApiError::new(ProblemCode::Internal, "the log cannot be read now")
    };
    let none = || ApiError::new(ProblemCode::NotFound, "no log of this validator has such a file");
    let (bytes, changes) = read.map_err(unreadable)?.ok_or_else(none)?;
    let (media_type, lifetime) = match changes {
        true => ("text/plain; charset=utf-8", CHECKPOINT_LIFETIME),
        false => ("application/octet-stream", TILE_LIFETIME),
    };
    Ok(([(CONTENT_TYPE, media_type), (CACHE_CONTROL, lifetime)], bytes))
}

/// Liveness: a supervisor restarts the process when it does not answer.
async fn lives() -> &'static str {
    "ok\n"
}

/// Readiness: the validator takes miners and writes their verdicts; a load balancer sends miners elsewhere when not.
async fn serves(State(web): WebState) -> Result<&'static str> {
    let validator = &web.running.validator;
    if validator.shutdown.is_draining() {
        return Err(ApiError::new(ProblemCode::Draining, "the validator is draining"));
    }
    // The reason is for callers with the role to read: the status has it.
    let not_recording = |_| ApiError::new(ProblemCode::Records, "verdicts cannot be written now");
    validator.check_recording().map_err(not_recording)?;
    Ok("ok\n")
}
