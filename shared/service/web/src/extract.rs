//! Extractors of handlers: malformed parts of a request become problems.

use assay_api::ProblemCode;
use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::problem::{ApiError, Result};

/// A JSON document: the body of a request or an answer.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

/// The parameters of a request.
#[derive(Debug, Clone, Copy)]
pub struct Query<T>(pub T);

/// The parameters of a request that takes none.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParameters {}

/// The variable parts of a path.
#[derive(Debug, Clone, Copy)]
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self> {
        if !is_json(request.headers()) {
            let why = "the header Content-Type must be application/json";
            return Err(ApiError::new(ProblemCode::UnsupportedMediaType, why));
        }
        let body = Bytes::from_request(request, state).await.map_err(|rejection| {
            let is_large = rejection.status() == StatusCode::PAYLOAD_TOO_LARGE;
            let code = if is_large { ProblemCode::TooLarge } else { ProblemCode::Malformed };
            ApiError::new(code, rejection.body_text())
        })?;
        object(&body).map(Self)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Parses a body as an object. serde alone would accept a list of the fields in order.
fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if first.is_some_and(|first| *first != b'{') {
        return Err(ApiError::new(ProblemCode::Invalid, "the body must be a JSON object"));
    }
    serde_json::from_slice(body).map_err(|error| {
        let code = if error.is_data() { ProblemCode::Invalid } else { ProblemCode::Malformed };
        ApiError::new(code, format!("the body: {error}"))
    })
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let refused = |rejection: QueryRejection| ApiError::new(ProblemCode::Invalid, rejection.body_text());
        check_text(parts.uri.query().unwrap_or_default())?;
        axum::extract::Query::from_request_parts(parts, state).await.map(|query| Self(query.0)).map_err(refused)
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let refused = |rejection: PathRejection| ApiError::new(ProblemCode::Invalid, rejection.body_text());
        check_text(parts.uri.path())?;
        axum::extract::Path::from_request_parts(parts, state).await.map(|path| Self(path.0)).map_err(refused)
    }
}

/// Refuses NUL, which no record has and PostgreSQL takes in no text.
fn check_text(encoded: &str) -> Result<()> {
    match encoded.contains("%00") {
        true => Err(ApiError::new(ProblemCode::Invalid, "a text has no character NUL")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use assay_api::BeginChallenge;

    use super::*;

    #[test]
    fn a_body_is_an_object_and_nothing_else() {
        let code = |body: &str| object::<BeginChallenge>(body.as_bytes()).map_err(|refused| refused.0.code);
        assert_eq!(code(" {\"samples\": 3}").map(|asked| asked.samples), Ok(Some(3)));
        // Regression test, found by schemathesis: a list was read as the fields in order, and a challenge began.
        assert_eq!(code("[null, null]"), Err(ProblemCode::Invalid));
        for body in ["3", "null", "\"x\"", "{\"samples\": \"x\"}", "{\"unknown\": 1}"] {
            assert_eq!(code(body), Err(ProblemCode::Invalid), "{body}");
        }
        for body in ["", "{", "{}}", "\u{feff}{}"] {
            assert!(code(body).is_err(), "{body}");
        }
    }

    /// Regression test: PostgreSQL refuses NUL, and the records were said to be in trouble.
    #[tokio::test]
    async fn parameters_are_known_and_have_no_nul() {
        let refused = async |uri: &str| {
            let mut parts = http::Request::get(uri).body(()).unwrap().into_parts().0;
            let query = Query::<assay_api::DevicesQuery>::from_request_parts(&mut parts, &()).await.is_err();
            (query, Query::<NoParameters>::from_request_parts(&mut parts, &()).await.is_err())
        };
        for (uri, expected) in [
            ("/devices?model=a%00b", (true, true)),
            ("/devices?model=H200", (false, true)),
            ("/devices?x=1", (true, true)),
            ("/devices?", (false, false)),
            ("/devices", (false, false)),
        ] {
            assert_eq!(refused(uri).await, expected, "{uri}");
        }
        assert!(check_text("/tokens/%00").is_err() && check_text("/tokens/%2500").is_ok());
    }

    #[test]
    fn a_media_type_may_name_its_characters() {
        let of = |kind: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, kind.parse().unwrap());
            is_json(&headers)
        };
        assert!(of("application/json") && of("Application/JSON; charset=utf-8"));
        assert!(!of("text/plain") && !of("application/json5") && !of("application/x-www-form-urlencoded"));
        assert!(!is_json(&HeaderMap::new()));
    }
}
