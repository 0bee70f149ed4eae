//! The pages: handlers that get documents from the operations, like those of the API, and render them.
//!
//! Filters and forms of a page send the parameters of the API. A browser without a login is redirected to sign in.

mod assets;
mod challenge;
mod devices;
mod fleet;
mod miner;
mod names;
mod rounds;
mod sign_in;
mod verdicts;
mod visitor;

use std::sync::Arc;

use assay_api::ProblemCode;
use axum::Router;
use axum::extract::Query;
use axum::http::Uri;
use axum::routing::{get, post};
use serde::de::DeserializeOwned;

use super::Web;
use super::problem::{ApiError, Result};

/// Rows of a list on one page.
const ROWS: u32 = 100;

/// A rendered page, or the problem instead of it.
type PageResult = Result<String>;

pub fn routes() -> Router<Arc<Web>> {
    Router::new()
        .route("/", get(fleet::page))
        .route("/miners/{miner}", get(miner::page))
        .route("/miners/{miner}/challenge", post(miner::challenge))
        .route("/miners/{miner}/{decision}", post(miner::decide))
        .route("/devices", get(devices::list))
        .route("/devices/{device}", get(devices::page))
        .route("/verdicts", get(verdicts::list))
        .route("/verdicts/{challenge}", get(verdicts::page))
        .route("/challenges/{challenge}", get(challenge::page))
        .route("/rounds", get(rounds::list))
        .route("/rounds/{round}", get(rounds::page))
        .route("/login", get(sign_in::page).post(sign_in::sign_in))
        .route("/logout", post(sign_in::sign_out))
        .route("/assets/{name}", get(assets::file))
}

/// Parses the parameters of a page's address: they are those of the API.
fn asked<T: DeserializeOwned>(address: &str) -> Result<T> {
    let invalid = |why: String| ApiError::new(ProblemCode::Invalid, why);
    let uri: Uri = address.parse().map_err(|_| invalid("this is not an address of a page".to_owned()))?;
    Query::try_from_uri(&uri).map(|Query(query)| query).map_err(|rejection| invalid(rejection.body_text()))
}
