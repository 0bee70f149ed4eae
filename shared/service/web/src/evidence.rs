//! Stored evidence, as a download.

use std::fs::File;
use std::io::{self, Read};

use assay_api::ProblemCode;
use assay_evidence::EvidenceError;
use assay_keeper::operations::read;
use assay_listen::bounds::EVIDENCE_PART_BYTES;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::Web;
use super::problem::{ApiError, Result};

/// Parts of a download that are buffered for its reader.
const WAITING_PARTS: usize = 2;

/// Responds with the stored evidence of a challenge.
///
/// # Errors
/// The challenge has no evidence, or it is no longer kept.
pub async fn stored(web: &Web, challenge: &str, headers: &HeaderMap) -> Result<Response> {
    let validator = &web.running.validator;
    let verdict = read::verdict(validator, challenge).await?;
    let id = verdict.record.challenge;
    let none = || ApiError::new(ProblemCode::NotFound, format!("no evidence of challenge {id} was kept"));
    let kept = verdict.evidence.ok_or_else(none)?;
    if kept.dropped_ms.is_some() {
        return Err(gone(&id));
    }
    let tag = format!("\"{}\"", kept.evidence.digest);
    if is_known(headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, text(&tag))]).into_response());
    }
    let digest = kept.evidence.digest.parse().map_err(|_| internal("a digest in the records is malformed"))?;
    // Each download has a temporary copy, so their number is limited.
    let too_many = || {
        let problem =
            assay_api::ProblemDetails::new(ProblemCode::TooManyRequests, "other evidence is being downloaded");
        ApiError(problem.after(5))
    };
    let place = web.downloads.clone().try_acquire_owned().map_err(|_| too_many())?;
    let file = validator.evidence.stored(&digest).await.map_err(|error| match error {
        EvidenceError::Missing(_) => gone(&id),
        error => internal(&error.to_string()),
    })?;
    let bytes = file.metadata().map_err(|error| internal(&error.to_string()))?.len();
    let (parts, body) = mpsc::channel(WAITING_PARTS);
    tokio::task::spawn_blocking(move || {
        send(file, &parts);
        drop(place);
    });
    let name = format!("attachment; filename=\"{id}.evidence.zst\"");
    let described = [
        (CONTENT_TYPE, HeaderValue::from_static("application/zstd")),
        (CONTENT_LENGTH, bytes.into()),
        (CONTENT_DISPOSITION, text(&name)),
        (ETAG, text(&tag)),
    ];
    Ok((described, Body::from_stream(ReceiverStream::new(body))).into_response())
}

/// Whether the client has it already (RFC 9110, 13.1.2): a list of tags, weak ones too, or any.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// Sends a file in parts, while they are read.
fn send(mut file: File, parts: &mpsc::Sender<io::Result<Bytes>>) {
    loop {
        let mut part = vec![0; EVIDENCE_PART_BYTES];
        let sent = match file.read(&mut part) {
            Ok(0) => return,
            Ok(read) => {
                part.truncate(read);
                parts.blocking_send(Ok(part.into()))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => parts.blocking_send(Err(error)),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Digests and ids are hexadecimal.
fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn gone(id: &str) -> ApiError {
    let why = format!("the evidence of challenge {id} was removed by the limits of age and size");
    ApiError::new(ProblemCode::Gone, why)
}

fn internal(why: &str) -> ApiError {
    tracing::error!("evidence cannot be given out: {why}");
    ApiError::new(ProblemCode::Internal, "the evidence cannot be read: the validator's log says why")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_that_is_known_is_not_sent_again() {
        let known = |value: &'static str| {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(value))]);
            is_known(&headers, "\"ab\"")
        };
        for value in ["\"ab\"", "W/\"ab\"", "*", "\"x\", W/\"y\" ,\"ab\""] {
            assert!(known(value), "{value}");
        }
        for value in ["", "ab", "\"abc\"", "\"x\",", "w/\"ab\""] {
            assert!(!known(value), "{value}");
        }
    }
}
