//! What handlers take of a request: malformed parts are problems.

use assay_api::ProblemCode;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::Refused;

/// A document: the body of a request, and of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

/// The parameters of a request.
#[derive(Debug, Clone, Copy)]
pub struct Query<T>(pub T);

/// The variable parts of a path.
#[derive(Debug, Clone, Copy)]
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let refused = |rejection: JsonRejection| {
            let code = match &rejection {
                JsonRejection::JsonDataError(_) => ProblemCode::Invalid,
                JsonRejection::MissingJsonContentType(_) => ProblemCode::UnsupportedMediaType,
                JsonRejection::BytesRejection(_) if rejection.status().as_u16() == 413 => ProblemCode::TooLarge,
                _ => ProblemCode::Malformed,
            };
            Refused::new(code, rejection.body_text())
        };
        axum::Json::from_request(request, state).await.map(|axum::Json(value)| Self(value)).map_err(refused)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let refused = |rejection: QueryRejection| Refused::new(ProblemCode::Invalid, rejection.body_text());
        axum::extract::Query::from_request_parts(parts, state).await.map(|query| Self(query.0)).map_err(refused)
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let refused = |rejection: PathRejection| Refused::new(ProblemCode::Invalid, rejection.body_text());
        axum::extract::Path::from_request_parts(parts, state).await.map(|path| Self(path.0)).map_err(refused)
    }
}
