//! The stylesheet, the script and the sign. They contain nothing about the validator: no login is required.

use assay_page::assets;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::problem::no_such_path;

/// Pages link each file with its entity tag, so that an address identifies its bytes.
const KEPT: &str = "public, max-age=31536000, immutable";

pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = assets().into_iter().find(|asset| asset.name == name) else {
        return no_such_path().await.into_response();
    };
    let shown = [(CONTENT_TYPE, asset.media_type), (CACHE_CONTROL, KEPT), (ETAG, asset.etag.as_str())];
    let has_it = headers.get(IF_NONE_MATCH).is_some_and(|tags| tags.as_bytes() == asset.etag.as_bytes());
    if has_it { (StatusCode::NOT_MODIFIED, shown).into_response() } else { (shown, asset.bytes).into_response() }
}
