//! The caller of a request, and its role.

use std::sync::Arc;

use assay_api::{ProblemCode, Role};
use assay_records::Actor;
use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};

use super::Web;
use super::origin::RequestOrigin;
use super::problem::{ApiError, Result};

/// The longest credential accepted, in bytes.
const MAX_CREDENTIAL_BYTES: usize = 256;

/// The name of the page's cookie. Behind `__Host-` a browser takes it from this host alone, and over TLS alone.
pub const fn cookie_name(is_encrypted: bool) -> &'static str {
    if is_encrypted { "__Host-assay_login" } else { "assay_login" }
}

/// A caller's credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// The control socket.
    Socket(Actor),
    /// A token of the API.
    Token(String),
    /// The cookie of a login on the page.
    Login(String),
    /// No credential.
    None,
}

/// The caller of a request. A handler that takes one requires the role to read; see [`Operator`] and [`Admin`] for
/// more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Author of the changes that it makes.
    pub actor: Actor,
    pub role: Role,
    credential: Credential,
}

/// A caller that may challenge miners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator(pub Caller);

/// A caller that may decide about miners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin(pub Caller);

/// A caller on the validator's own machine, over the control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalCaller(pub Caller);

impl Credential {
    /// Reads the credential of a request. A token takes precedence over a cookie.
    ///
    /// # Errors
    /// [`ProblemCode::Unauthorized`] for a header that is not a bearer token.
    pub fn of(origin: &RequestOrigin, headers: &HeaderMap) -> Result<Self> {
        if let RequestOrigin::Socket(actor) = origin {
            return Ok(Self::Socket(actor.clone()));
        }
        if let Some(header) = headers.get(AUTHORIZATION) {
            let token = bearer(header);
            let what = "the header Authorization is no bearer token: send `Authorization: Bearer assay_…`";
            return token.map(Self::Token).ok_or_else(|| ApiError::new(ProblemCode::Unauthorized, what));
        }
        Ok(cookie(headers, cookie_name(origin.is_encrypted())).map_or(Self::None, Self::Login))
    }

    /// Whether a browser sends it automatically, also with requests from another site's page.
    pub const fn is_ambient(&self) -> bool {
        matches!(self, Self::Login(_))
    }
}

fn bearer(header: &HeaderValue) -> Option<String> {
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    let is_token = scheme.eq_ignore_ascii_case("bearer") && token.len() <= MAX_CREDENTIAL_BYTES;
    is_token.then(|| token.trim().to_owned())
}

pub fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    let mut pairs = cookies.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(found, _)| *found == name)?;
    (value.len() <= MAX_CREDENTIAL_BYTES).then(|| value.to_owned())
}

impl Web {
    /// Finds the caller of a credential. Without one, or with the cookie of an ended login, the caller is an anonymous
    /// reader where the settings allow it, else `None`.
    ///
    /// # Errors
    /// [`ProblemCode::Unauthorized`] for an invalid credential, [`ProblemCode::Records`] where it cannot be checked.
    pub async fn caller(&self, origin: &RequestOrigin, credential: Credential) -> Result<Option<Caller>> {
        let known = match &credential {
            Credential::Socket(actor) => Some((actor.clone(), Role::Admin)),
            Credential::Token(token) => {
                let record = self.running.validator.records.api_token(token).await?;
                let record = record.ok_or_else(|| unauthorized("the token is unknown, was revoked or has expired"))?;
                Some((Actor::token(&record.name, &record.id), record.role))
            }
            Credential::Login(cookie) => match self.logins.find(cookie) {
                Some(login) => {
                    if let Some(token) = &login.token
                        && self.running.validator.records.api_token(token).await?.is_none()
                    {
                        self.logins.end(cookie);
                        return Ok(None);
                    }
                    Some((login.actor, login.role))
                }
                // A page that was open during the validator's restart must log in anew: its cookie is no error.
                None => None,
            },
            Credential::None => None,
        };
        if let Some((actor, role)) = known {
            return Ok(Some(Caller { actor, role, credential }));
        }
        let may_read = self.settings.anonymous_read
            && matches!(origin, RequestOrigin::Network { peer, .. } if peer.ip().to_canonical().is_loopback());
        let anonymous = || Actor { name: "anonymous".to_owned(), uid: None };
        Ok(may_read.then(|| Caller { actor: anonymous(), role: Role::Read, credential: Credential::None }))
    }
}

fn unauthorized(why: &str) -> ApiError {
    ApiError::new(ProblemCode::Unauthorized, why)
}

impl Caller {
    /// A caller with the role to read.
    #[cfg(test)]
    pub(super) fn for_tests() -> Self {
        Self { actor: Actor::token("t", "1"), role: Role::Read, credential: Credential::None }
    }

    /// Whether it still has the role that it had at first.
    pub async fn is_still_known(&self, web: &Web, origin: &RequestOrigin) -> bool {
        let now = web.caller(origin, self.credential.clone()).await;
        now.is_ok_and(|caller| caller.is_some_and(|caller| caller.role >= self.role))
    }

    pub const fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Returns the caller if its role suffices.
    fn at_least(self, role: Role) -> Result<Self> {
        if self.role >= role {
            return Ok(self);
        }
        let why = format!("this takes a token of role {role}, and the one shown has role {}", self.role);
        Err(ApiError::new(ProblemCode::Forbidden, why))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let why = "a token is needed: `assay-validator token create` makes one; send it as `Authorization: Bearer …`";
        parts.extensions.get::<Self>().cloned().ok_or_else(|| unauthorized(why))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let caller = Caller::from_request_parts(parts, state).await?.at_least(Role::Operate)?;
        without_parameters(parts).map(|()| Self(caller))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Admin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let caller = Caller::from_request_parts(parts, state).await?.at_least(Role::Admin)?;
        without_parameters(parts).map(|()| Self(caller))
    }
}

/// Refuses parameters of an operation that changes something: one that is ignored, such as `dry_run`, would mislead.
fn without_parameters(parts: &Parts) -> Result<()> {
    let has_parameters = parts.uri.query().is_some_and(|query| !query.is_empty());
    match has_parameters && !parts.method.is_safe() {
        true => Err(ApiError::new(ProblemCode::Invalid, "this takes no parameters: fields are in the body")),
        false => Ok(()),
    }
}

impl<S: Send + Sync> FromRequestParts<S> for LocalCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let caller = Caller::from_request_parts(parts, state).await?.at_least(Role::Admin)?;
        match caller.credential {
            Credential::Socket(_) => Ok(Self(caller)),
            _ => Err(ApiError::new(ProblemCode::LocalOnly, "this is done over the control socket only")),
        }
    }
}

impl FromRequestParts<Arc<Web>> for RequestOrigin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Web>) -> Result<Self> {
        // The listener that accepts a connection sets it.
        let missing = || ApiError::new(ProblemCode::Internal, "a request without an origin");
        parts.extensions.get::<Self>().cloned().ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers
                .append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_token_counts_more_than_a_cookie_and_the_socket_more_than_both() {
        let network = RequestOrigin::Network { peer: ([127, 0, 0, 1], 1).into(), is_encrypted: false };
        let of = |pairs: &[(&str, &str)]| Credential::of(&network, &headers(pairs));
        let token = Credential::Token("assay_read_x".to_owned());
        assert_eq!(of(&[("authorization", "Bearer assay_read_x"), ("cookie", "assay_login=1")]), Ok(token.clone()));
        assert_eq!(of(&[("authorization", "bearer assay_read_x")]), Ok(token), "schemes have no case");
        assert_eq!(of(&[("cookie", "a=b; assay_login=1")]), Ok(Credential::Login("1".to_owned())));
        assert_eq!(of(&[("cookie", "xassay_login=1; assay_login_=2")]), Ok(Credential::None));
        assert_eq!(of(&[]), Ok(Credential::None));
        // A cookie that another machine on the path set over plaintext is ignored over TLS.
        let tls = RequestOrigin::Network { peer: ([127, 0, 0, 1], 1).into(), is_encrypted: true };
        let over_tls = |cookie: &str| Credential::of(&tls, &headers(&[("cookie", cookie)]));
        assert_eq!(over_tls("assay_login=1; __Host-assay_login=2"), Ok(Credential::Login("2".to_owned())));
        assert_eq!(over_tls("assay_login=1"), Ok(Credential::None));
        for header in ["Basic YTpi", "Bearer", "assay_read_x", &format!("Bearer {}", "x".repeat(257))] {
            assert!(of(&[("authorization", header)]).is_err(), "{header}");
        }
        let actor = Actor { name: "root".to_owned(), uid: Some(0) };
        let socket = RequestOrigin::Socket(actor.clone());
        let shown = headers(&[("authorization", "nonsense")]);
        assert_eq!(Credential::of(&socket, &shown), Ok(Credential::Socket(actor)));
    }

    #[test]
    fn a_role_does_what_those_before_it_may() {
        let caller = |role| Caller { actor: Actor::token("t", "1"), role, credential: Credential::None };
        for (number, role) in Role::ALL.into_iter().enumerate() {
            let may = Role::ALL.map(|needed| caller(role).at_least(needed).is_ok());
            assert_eq!(may.iter().filter(|may| **may).count(), number + 1, "{role}");
        }
    }
}
