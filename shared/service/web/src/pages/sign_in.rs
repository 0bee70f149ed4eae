//! Signing in with a token or a code, and signing out.

use std::sync::Arc;
use std::time::Instant;

use assay_api::ProblemCode;
use assay_page::LoginView;
use axum::Form;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::visitor::{Visitor, html};
use crate::caller::{Credential, cookie, cookie_name};
use crate::extract::Query;
use crate::login::{Login, set_cookie};
use crate::origin::RequestOrigin;
use crate::problem::ApiError;
use crate::{Web, WebState};
use assay_judge::entropy::OsEntropy;

/// Parameters in the page's address.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SignInQuery {
    /// A code of the control socket.
    code: String,
    /// Page to return to.
    then: String,
}

/// Contents of the form.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SignInForm {
    token: String,
    then: String,
}

/// Allows only pages of this validator as destinations.
fn safe(then: &str) -> &str {
    let is_page = then.starts_with('/')
        && !then.starts_with("//")
        && then.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_page { then } else { "/" }
}

/// Shows the sign-in page, or signs in by a code, but not for HEAD: a chat's preview of a link does not consume it.
pub(super) async fn page(
    State(web): WebState,
    origin: RequestOrigin,
    method: Method,
    Query(SignInQuery { code, then }): Query<SignInQuery>,
) -> Response {
    if code.is_empty() || method == Method::HEAD {
        return form(web, safe(&then), None).await;
    }
    match web.logins.redeem(&code, Instant::now()) {
        Some(login) => begin(&web, &origin, login, safe(&then)),
        None => {
            refused(web, &origin, safe(&then), "The code was used already, or its time is over: ask for another one.")
                .await
        }
    }
}

pub(super) async fn sign_in(
    State(web): WebState,
    origin: RequestOrigin,
    Form(SignInForm { token, then }): Form<SignInForm>,
) -> Response {
    let token = token.trim().to_owned();
    match web.caller(&origin, Credential::Token(token.clone())).await {
        Ok(Some(caller)) => {
            let login = Login { actor: caller.actor, role: caller.role, token: Some(token) };
            begin(&web, &origin, login, safe(&then))
        }
        Ok(None) => refused(web, &origin, safe(&then), "The token is unknown.").await,
        Err(ApiError(problem)) if problem.code == ProblemCode::Unauthorized => {
            refused(web, &origin, safe(&then), "The token is unknown, was revoked or has expired.").await
        }
        Err(refused) => refused.into_response(),
    }
}

pub(super) async fn sign_out(State(web): WebState, origin: RequestOrigin, headers: HeaderMap) -> Response {
    if let Some(cookie) = cookie(&headers, cookie_name(origin.is_encrypted())) {
        web.logins.end(&cookie);
    }
    ([(SET_COOKIE, set_cookie(None, origin.is_encrypted()))], Redirect::to("/login")).into_response()
}

fn begin(web: &Web, origin: &RequestOrigin, login: Login, then: &str) -> Response {
    let Ok(cookie) = web.logins.begin(login, &mut OsEntropy, Instant::now()) else {
        return ApiError::new(ProblemCode::Internal, "the system gives no random bytes").into_response();
    };
    ([(SET_COOKIE, set_cookie(Some(&cookie), origin.is_encrypted()))], Redirect::to(then)).into_response()
}

/// Shows the page again, after counting a wrong token or code.
async fn refused(web: Arc<Web>, origin: &RequestOrigin, then: &str, why: &str) -> Response {
    if let Some(address) = origin.address()
        && let Err(too_many) = web.rates.failed(address, Instant::now())
    {
        return too_many.into_response();
    }
    form(web, then, Some(why)).await
}

async fn form(web: Arc<Web>, then: &str, refused: Option<&str>) -> Response {
    let status = if refused.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK };
    match Visitor::new(web, None).await {
        Ok(visitor) => html(status, assay_page::login(&LoginView { frame: visitor.frame(), then, refused })),
        Err(refused) => refused.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn signing_in_leads_to_no_other_site() {
        for then in ["/", "/miners/ab12?done=approve", "/verdicts?outcome=fail&cursor=a-_"] {
            assert_eq!(safe(then), then);
        }
        for then in [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "/a\r\nset-cookie: x",
            "javascript:1",
            "/ü",
        ] {
            assert_eq!(safe(then), "/", "{then:?}");
        }
    }
}
