//! The visitor of a page, and its answer.

use std::sync::Arc;

use assay_api::{ProblemDetails, Role};
use assay_keeper::validator::Validator;
use assay_page::{Frame, ProblemView, Viewer};
use assay_program::clock::unix_ms;
use axum::extract::FromRequestParts;
use axum::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};

use super::PageResult;
use crate::Web;
use crate::caller::{Caller, Credential};
use crate::problem::{ApiError, Result};

/// Content policy of pages: nothing from elsewhere, nothing inline.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The visitor of a page.
pub(super) struct Visitor {
    pub(super) web: Arc<Web>,
    /// `None` before signing in: only the sign-in page takes such a visitor.
    pub(super) caller: Option<Caller>,
    validator_key: String,
    /// The last event before the page's data was read.
    last_event: i64,
    /// Result of the preceding action.
    pub(super) notice: Option<&'static str>,
}

impl Visitor {
    /// The least role without a caller.
    pub(super) fn role(&self) -> Role {
        self.caller.as_ref().map_or(Role::Read, |caller| caller.role)
    }

    pub(super) async fn new(web: Arc<Web>, caller: Option<Caller>) -> Result<Self> {
        let last_event = web.running.validator.records.last_event().await?;
        let validator_key = web.running.validator.access.admission.identity.public_key().to_string();
        Ok(Self { web, caller, validator_key, last_event, notice: None })
    }

    pub(super) fn validator(&self) -> &Arc<Validator> {
        &self.web.running.validator
    }

    /// The frame that all pages share.
    pub(super) fn frame(&self) -> Frame<'_> {
        let viewer = self.caller.as_ref().map(|caller| Viewer {
            name: &caller.actor.name,
            role: caller.role,
            is_signed_in: matches!(caller.credential(), Credential::Login(_)),
        });
        Frame {
            viewer,
            validator: &self.validator_key,
            version: env!("CARGO_PKG_VERSION"),
            now_ms: unix_ms(),
            last_event: self.last_event,
            notice: self.notice,
        }
    }

    /// A page, or a page about the problem.
    pub(super) fn answer(&self, shown: PageResult) -> Response {
        match shown {
            Ok(page) => html(StatusCode::OK, page),
            Err(ApiError(problem)) => self.problem(&problem),
        }
    }

    pub(super) fn problem(&self, problem: &ProblemDetails) -> Response {
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let remedy = remedy(problem);
        let mut response = html(status, assay_page::problem(&ProblemView { frame: self.frame(), problem, remedy }));
        // Marks the answer for the outer layers: it is a page already.
        response.extensions_mut().insert(problem.code);
        response
    }
}

/// Advice to the reader of a problem.
fn remedy(problem: &ProblemDetails) -> &'static str {
    match problem.status {
        404 => "Look for it from the fleet; ids may be cut to their first digits, but not to fewer than 4.",
        403 => "Sign in with a token of a higher role.",
        409 => "Look at the miner's page for what it does now.",
        429 => "Wait, and ask less often.",
        500.. => "Look at the validator's log, then reload.",
        _ => "Go back and correct what was asked for.",
    }
}

impl FromRequestParts<Arc<Web>> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Arc<Web>) -> Result<Self, Response> {
        let Some(caller) = parts.extensions.get::<Caller>().cloned() else {
            let then = parts.uri.path_and_query().map_or("/", |path| path.as_str());
            return Err(Redirect::to(&assay_page::login_address(then)).into_response());
        };
        Self::new(web.clone(), Some(caller)).await.map_err(IntoResponse::into_response)
    }
}

/// A page as a response.
pub(super) fn html(status: StatusCode, page: String) -> Response {
    // The browser names a form's page in the request, which proves it to be one of these; other sites get no referrer.
    let headers = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    ];
    (status, headers, Html(page)).into_response()
}
