//! A challenge as it runs; judged, it is at its verdict's address.

use assay_api::{Problem, ProblemCode};
use assay_page::ChallengeView;
use axum::response::{IntoResponse, Redirect, Response};

use super::names::names;
use super::visitor::Visitor;
use crate::http::extract::Path;
use crate::http::problem::Refused;
use crate::operations::read;

pub(super) async fn page(visitor: Visitor, Path(challenge): Path<String>) -> Response {
    match shown(&visitor, &challenge).await {
        Ok(response) => response,
        Err(Refused(problem)) => visitor.problem(&problem),
    }
}

async fn shown(visitor: &Visitor, text: &str) -> Result<Response, Refused> {
    let found = read::challenge(visitor.validator(), text).await?;
    let begun = &found.record.begun;
    if found.verdict.is_some() {
        return Ok(Redirect::to(&format!("/verdicts/{}", begun.challenge)).into_response());
    }
    let Some(running) = &found.running else {
        let why = "it has no verdict yet and does not run here: another validator has it, or it is concluded shortly";
        return Ok(visitor.problem(&Problem::new(ProblemCode::NoChallenge, why)));
    };
    let names = names(&visitor.validator().records, [begun.miner.clone()].into()).await?;
    Ok(visitor.answer(Ok(assay_page::challenge(&ChallengeView {
        frame: visitor.frame(),
        running,
        miner: &begun.miner,
        miner_name: names.get(&begun.miner).map(String::as_str),
    }))))
}
