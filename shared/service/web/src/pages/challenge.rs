//! A running challenge; a judged one redirects to its verdict.

use assay_api::{ChallengeProgress, ProblemCode, ProblemDetails};
use assay_keeper::operations::{read, running};
use assay_page::ChallengeView;
use axum::response::{IntoResponse, Redirect, Response};

use super::names::NAME_LABEL;
use super::visitor::Visitor;
use crate::extract::Path;
use crate::problem::{ApiError, Result};

pub(super) async fn page(visitor: Visitor, Path(challenge): Path<String>) -> Response {
    match shown(&visitor, &challenge).await {
        Ok(response) => response,
        Err(ApiError(problem)) => visitor.problem(&problem),
    }
}

async fn shown(visitor: &Visitor, text: &str) -> Result<Response> {
    let validator = visitor.validator();
    // A challenge that has just begun may not be in the records yet.
    let named = text.to_ascii_lowercase();
    let running = running::challenges(validator).into_iter().find(|running| running.challenge_id.to_string() == named);
    if let Some(running) = running {
        return under_way(visitor, &running).await;
    }
    let found = read::challenge(validator, text).await?;
    match (&found.verdict, &found.running) {
        (Some(_), _) => Ok(Redirect::to(&format!("/verdicts/{}", found.record.begun.challenge)).into_response()),
        (None, Some(running)) => under_way(visitor, running).await,
        (None, None) => {
            let why =
                "it has no verdict yet and does not run here: another validator has it, or it is concluded shortly";
            Ok(visitor.problem(&ProblemDetails::new(ProblemCode::NoChallenge, why)))
        }
    }
}

async fn under_way(visitor: &Visitor, running: &ChallengeProgress) -> Result<Response> {
    let key = running.miner_key.to_string();
    let record = visitor.validator().records.miner(&key).await?;
    let miner = record.as_ref().map_or(key.as_str(), |record| record.id.as_str());
    let miner_name = record.as_ref().and_then(|record| record.labels.get(NAME_LABEL)).map(String::as_str);
    let view = ChallengeView { frame: visitor.frame(), running, miner, miner_name };
    Ok(visitor.answer(Ok(assay_page::challenge(&view))))
}
