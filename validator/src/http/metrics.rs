//! The metrics.

use std::sync::Arc;

use axum::Router;

use super::Web;

/// The route of the metrics.
pub fn routes() -> Router<Arc<Web>> {
    Router::new()
}
