//! Errors, in the form of RFC 9457.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The media type of a [`ProblemDetails`].
pub const MEDIA_TYPE: &str = "application/problem+json";
/// The prefix of a problem's `type`; its code follows.
const TYPE: &str = "urn:assay:problem:";

macro_rules! codes {
    ($($variant:ident $name:literal $status:literal $title:literal;)*) => {
        assay_work::names! {
            /// The reason why a request was refused, for programs.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
            #[schema(description = "Why a request was not done, for programs.")]
            #[serde(rename_all = "snake_case")]
            pub enum ProblemCode {
                $(#[doc = $title] $variant = $name,)*
            }
        }

        impl ProblemCode {
            /// The status that goes with it.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// The meaning of the code, in a sentence.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }
        }
    };
}

codes! {
    NoMiner "no_miner" 404 "No such miner is connected.";
    SeveralMiners "several_miners" 409 "Several miners are connected, and none is named.";
    Busy "busy" 409 "A challenge of the miner runs.";
    Draining "draining" 503 "The validator was asked to stop.";
    MinerLeft "miner_left" 503 "The miner left meanwhile.";
    NotPossible "not_possible" 409 "It cannot be done as things are.";
    NoChallenge "no_challenge" 404 "No such challenge runs.";
    Invalid "invalid" 422 "A value is out of bounds.";
    Configuration "configuration" 409 "The configuration is refused.";
    Overloaded "overloaded" 503 "As many challenges run as may.";
    NotFound "not_found" 404 "There is no such thing.";
    Records "records" 503 "The records cannot be read or written.";
    Malformed "malformed" 400 "The request is malformed.";
    Unauthorized "unauthorized" 401 "A token is needed.";
    Forbidden "forbidden" 403 "The token's role does not suffice.";
    CrossSite "cross_site" 403 "The request comes from another site's page.";
    LocalOnly "local_only" 403 "This is done on the validator's own machine only.";
    MethodNotAllowed "method_not_allowed" 405 "The method does not go with this path.";
    Timeout "timeout" 503 "The request took too long.";
    Gone "gone" 410 "It is kept no longer.";
    TooLarge "too_large" 413 "The request's body is too large.";
    UnsupportedMediaType "unsupported_media_type" 415 "The request's body must be JSON.";
    WrongHost "wrong_host" 421 "The validator does not serve this host name.";
    TooManyRequests "too_many_requests" 429 "There were too many requests.";
    Internal "internal" 500 "The validator met an error of its own.";
}

/// A refused request (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemDetails {
    /// `urn:assay:problem:` and the code: a name within this API, without a page behind it. Programs compare `code`.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// The meaning of the code.
    pub title: Cow<'static, str>,
    /// The HTTP status of the answer.
    pub status: u16,
    /// Details of the problem.
    pub detail: String,
    /// The reason, for programs.
    pub code: ProblemCode,
    /// Seconds after which it may be tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
}

impl ProblemDetails {
    /// Creates a problem with these details.
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("{TYPE}{}", code.name()).into(),
            title: code.title().into(),
            status: code.status(),
            detail: detail.into(),
            code,
            retry_after_s: None,
        }
    }

    /// Adds a time after which it may be tried again.
    pub const fn after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_read_back_as_it_was_written() {
        for code in ProblemCode::ALL {
            let problem = ProblemDetails::new(code, "why").after(3);
            let text = serde_json::to_string(&problem).unwrap();
            assert!(text.contains(&format!("\"code\":\"{}\"", code.name())), "{text}");
            assert!(text.contains(&format!("\"type\":\"urn:assay:problem:{}\"", code.name())), "{text}");
            assert_eq!(serde_json::from_str::<ProblemDetails>(&text).unwrap(), problem);
            assert!((400..600).contains(&code.status()));
        }
    }

    #[test]
    fn codes_are_distinct() {
        let mut names: Vec<_> = ProblemCode::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ProblemCode::ALL.len());
    }
}
