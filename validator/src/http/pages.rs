//! The pages.

use std::sync::Arc;

use axum::Router;

use super::Web;

/// The routes of the pages.
pub fn routes() -> Router<Arc<Web>> {
    Router::new()
}
