//! Who asks, and what it may do.

use std::sync::Arc;

use assay_api::{ProblemCode, Role};
use assay_records::Actor;
use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};

use super::Web;
use super::origin::RequestOrigin;
use super::problem::Refused;

/// The longest credential that is looked at.
const MAX_CREDENTIAL_BYTES: usize = 256;
/// The name of the page's cookie.
pub const COOKIE_NAME: &str = "assay_login";

/// What a caller shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// The control socket.
    Socket(Actor),
    /// A token of the API.
    Token(String),
    /// The cookie of a login on the page.
    Login(String),
    /// Nothing.
    None,
}

/// Who asks. A handler that takes one is for those alone that may read; see [`Operator`] and [`Admin`] for more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Whose doing a change is.
    pub actor: Actor,
    /// What it may do.
    pub role: Role,
    /// What it showed.
    credential: Credential,
}

/// A caller that may challenge miners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator(pub Caller);

/// A caller that may decide who takes part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin(pub Caller);

/// A caller on the validator's own machine, over the control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local(pub Caller);

impl Credential {
    /// What a request shows. A token counts more than a cookie.
    ///
    /// # Errors
    /// [`ProblemCode::Unauthorized`] for a header that is no bearer token.
    pub fn of(origin: &RequestOrigin, headers: &HeaderMap) -> Result<Self, Refused> {
        if let RequestOrigin::Socket(actor) = origin {
            return Ok(Self::Socket(actor.clone()));
        }
        if let Some(header) = headers.get(AUTHORIZATION) {
            let token = bearer(header);
            let what = "the header Authorization is no bearer token: send `Authorization: Bearer assay_…`";
            return token.map(Self::Token).ok_or_else(|| Refused::new(ProblemCode::Unauthorized, what));
        }
        Ok(cookie(headers, COOKIE_NAME).map_or(Self::None, Self::Login))
    }

    /// Whether a browser adds it by itself, also to what another site's page asks for.
    #[must_use]
    pub const fn is_ambient(&self) -> bool {
        matches!(self, Self::Login(_))
    }
}

fn bearer(header: &HeaderValue) -> Option<String> {
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    let is_token = scheme.eq_ignore_ascii_case("bearer") && token.len() <= MAX_CREDENTIAL_BYTES;
    is_token.then(|| token.trim().to_owned())
}

/// The value of a cookie.
#[must_use]
pub fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    let mut pairs = cookies.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(found, _)| *found == name)?;
    (value.len() <= MAX_CREDENTIAL_BYTES).then(|| value.to_owned())
}

impl Web {
    /// Who shows this; `None`: nobody that is known, and nothing was shown that is wrong.
    ///
    /// # Errors
    /// [`ProblemCode::Unauthorized`] for a credential that is not good, [`ProblemCode::Records`] where that cannot be
    /// found out.
    pub async fn caller(&self, origin: &RequestOrigin, credential: Credential) -> Result<Option<Caller>, Refused> {
        let known = match &credential {
            Credential::Socket(actor) => Some((actor.clone(), Role::Admin)),
            Credential::Token(token) => {
                let record = self.running.validator.records.api_token(token).await?;
                let record = record.ok_or_else(|| unauthorized("the token is unknown, was revoked or has expired"))?;
                Some((actor_of(&record.name), record.role))
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
                // A page that was open while the validator was restarted is to log in anew: nothing is wrong with it.
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

/// The holder of a token, in the records of what was done.
fn actor_of(name: &str) -> Actor {
    Actor { name: format!("token {name}"), uid: None }
}

fn unauthorized(why: &str) -> Refused {
    Refused::new(ProblemCode::Unauthorized, why)
}

impl Caller {
    /// Whether it may still do what it might when it came.
    pub async fn is_still_known(&self, web: &Web, origin: &RequestOrigin) -> bool {
        let now = web.caller(origin, self.credential.clone()).await;
        now.is_ok_and(|caller| caller.is_some_and(|caller| caller.role >= self.role))
    }

    /// What it showed.
    #[must_use]
    pub const fn credential(&self) -> &Credential {
        &self.credential
    }

    /// The same caller, where its role suffices.
    fn at_least(self, role: Role) -> Result<Self, Refused> {
        if self.role >= role {
            return Ok(self);
        }
        let why = format!("this takes a token of role {role}, and the one shown has role {}", self.role);
        Err(Refused::new(ProblemCode::Forbidden, why))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let why = "a token is needed: `assay-validator token create` makes one; send it as `Authorization: Bearer …`";
        parts.extensions.get::<Self>().cloned().ok_or_else(|| unauthorized(why))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        Caller::from_request_parts(parts, state).await?.at_least(Role::Operate).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Admin {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        Caller::from_request_parts(parts, state).await?.at_least(Role::Admin).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Local {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let caller = Caller::from_request_parts(parts, state).await?.at_least(Role::Admin)?;
        match caller.credential {
            Credential::Socket(_) => Ok(Self(caller)),
            _ => Err(Refused::new(ProblemCode::LocalOnly, "this is done over the control socket only")),
        }
    }
}

impl FromRequestParts<Arc<Web>> for RequestOrigin {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Web>) -> Result<Self, Refused> {
        // Whoever accepts a connection sets it.
        let missing = || Refused::new(ProblemCode::Internal, "a request without an origin");
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
        let caller = |role| Caller { actor: actor_of("t"), role, credential: Credential::None };
        for (number, role) in Role::ALL.into_iter().enumerate() {
            let may = Role::ALL.map(|needed| caller(role).at_least(needed).is_ok());
            assert_eq!(may.iter().filter(|may| **may).count(), number + 1, "{role}");
        }
    }
}
