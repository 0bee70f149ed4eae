//! Errors as answers: each is a problem document, including those of the layers below the handlers.

use assay_api::{PROBLEM_MEDIA_TYPE, ProblemCode, ProblemDetails};
use assay_keeper::operations::OperationError;
use assay_records::RecordsError;
use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

/// Authentication scheme of callers.
const SCHEME: &str = "Bearer realm=\"assay\"";

/// The result of a request.
pub type Result<T, E = ApiError> = std::result::Result<T, E>;

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError(pub ProblemDetails);

impl ApiError {
    /// Creates a problem with this code and detail.
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self(ProblemDetails::new(code, detail))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // Texts and numbers always become JSON.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_MEDIA_TYPE));
        if let Some(seconds) = problem.retry_after_s {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if problem.code == ProblemCode::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(SCHEME));
        }
        // Tells the outer layers the code, for logs and counters.
        response.extensions_mut().insert(problem.code);
        response
    }
}

impl From<ProblemDetails> for ApiError {
    fn from(problem: ProblemDetails) -> Self {
        Self(problem)
    }
}

impl From<OperationError> for ApiError {
    fn from(error: OperationError) -> Self {
        let code = match &error {
            OperationError::NotFound(_) => ProblemCode::NotFound,
            OperationError::Invalid(_) => ProblemCode::Invalid,
            OperationError::NotPossible(_) => ProblemCode::NotPossible,
            OperationError::Refused(code, _) => *code,
            OperationError::Records(_) => ProblemCode::Records,
        };
        Self::new(code, error.to_string())
    }
}

impl From<RecordsError> for ApiError {
    fn from(error: RecordsError) -> Self {
        OperationError::from(error).into()
    }
}

/// Answers an unknown path.
pub async fn no_such_path() -> ApiError {
    ApiError::new(ProblemCode::NotFound, "no such path: /api/v1/openapi.json has all of them")
}

/// Converts error answers of the layers below the handlers into problems; other answers stay.
pub fn as_problem(response: Response) -> Response {
    let code = match response.status() {
        StatusCode::METHOD_NOT_ALLOWED => ProblemCode::MethodNotAllowed,
        StatusCode::PAYLOAD_TOO_LARGE => ProblemCode::TooLarge,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::REQUEST_TIMEOUT => ProblemCode::Timeout,
        _ => return response,
    };
    if response.extensions().get::<ProblemCode>().is_some() {
        return response;
    }
    let allow = response.headers().get(ALLOW).cloned();
    let mut problem = ApiError::new(code, code.title()).into_response();
    if let Some(allow) = allow {
        problem.headers_mut().insert(ALLOW, allow);
    }
    problem
}

/// Answers for a handler that panicked: the panic is in the log, and the caller gets no details.
pub fn panicked(_panic: Box<dyn std::any::Any + Send + 'static>) -> Response {
    tracing::error!("a request met an error of the validator's own; the log has it");
    ApiError::new(ProblemCode::Internal, "the validator's log says more").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_a_problem_with_its_status() {
        for code in ProblemCode::ALL {
            let response = ApiError(ProblemDetails::new(code, "why").after(7)).into_response();
            assert_eq!(response.status().as_u16(), code.status());
            assert_eq!(response.headers()[CONTENT_TYPE], PROBLEM_MEDIA_TYPE);
            assert_eq!(response.headers()[RETRY_AFTER], "7");
            assert_eq!(response.headers().contains_key(WWW_AUTHENTICATE), code == ProblemCode::Unauthorized);
        }
    }

    #[test]
    fn what_lower_layers_answer_becomes_a_problem_and_keeps_its_methods() {
        let answer = (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET,HEAD")]).into_response();
        let problem = as_problem(answer);
        assert_eq!(problem.headers()[CONTENT_TYPE], PROBLEM_MEDIA_TYPE);
        assert_eq!(problem.headers()[ALLOW], "GET,HEAD");
        assert_eq!(as_problem("fine".into_response()).status(), StatusCode::OK);
    }
}
