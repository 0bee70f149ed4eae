//! A miner, and an operator's actions on it.

use assay_api::{BeginChallenge, Decision, PageQuery, ProblemCode, ProblemDetails, SeriesQuery, VerdictsQuery};
use assay_keeper::operations::{self, read, running, series};
use assay_page::MinerView;
use assay_protocol::verdict::Mode;
use axum::Form;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::visitor::Visitor;
use super::{PageResult, verdicts};
use crate::caller::{Admin, Operator};
use crate::extract::{Path, Query};
use crate::problem::ApiError;

/// The most points of the charts, over all devices.
const POINTS: u32 = 800;
/// The most verdicts in the row of bars.
const VERDICTS: u32 = 60;
/// The most events read; the page shows those that no other part of it shows.
const EVENTS: u32 = 200;

/// The action that was just done.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ActionQuery {
    done: String,
}

/// Decisions that forms send, with the notice after each.
const DECISIONS: [(Decision, &str); 5] = [
    (Decision::Approve, "Approved: the miner is let in."),
    (Decision::Suspend, "Suspended: the miner is neither challenged nor attested."),
    (Decision::Resume, "Resumed: the miner takes part again."),
    (Decision::Quarantine, "Set apart: its passes do not count until it is released."),
    (Decision::Release, "Released: its next passes count."),
];

/// Parses the name of a decision in a path.
fn decision(name: &str) -> Option<(Decision, &'static str)> {
    DECISIONS.into_iter().find(|(decision, _)| decision.name() == name)
}

pub(super) async fn page(
    mut visitor: Visitor,
    Path(miner): Path<String>,
    Query(ActionQuery { done }): Query<ActionQuery>,
) -> Response {
    visitor.notice = decision(&done).map(|(_, words)| words);
    visitor.answer(shown(&visitor, &miner).await)
}

async fn shown(visitor: &Visitor, text: &str) -> PageResult {
    let validator = visitor.validator();
    let detail = read::miner(validator, text, visitor.role()).await?;
    let id = &detail.miner.record.id;
    let series = series::of_miner(validator, id, SeriesQuery { limit: Some(POINTS), ..SeriesQuery::default() }).await?;
    let query = VerdictsQuery { miner: Some(id.clone()), limit: Some(VERDICTS), ..VerdictsQuery::default() };
    let listed = verdicts::with_names(validator, read::verdicts(validator, query).await?.items).await?;
    let history = read::history(validator, id, PageQuery { limit: Some(EVENTS), cursor: None }).await?;
    Ok(assay_page::miner(&MinerView {
        frame: visitor.frame(),
        detail: &detail,
        series: &series,
        verdicts: &listed,
        history: &history.items,
    }))
}

/// Contents of the form for a challenge.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChallengeForm {
    /// Verification mode; empty: by the policy.
    mode: String,
}

pub(super) async fn challenge(
    Operator(caller): Operator,
    visitor: Visitor,
    Path(miner): Path<String>,
    Form(ChallengeForm { mode }): Form<ChallengeForm>,
) -> Response {
    let mode = Mode::named(&mode);
    let asked = BeginChallenge { miner: Some(miner), mode, ..BeginChallenge::default() };
    match running::begin(visitor.validator(), asked).await {
        Ok(running) => {
            let (id, miner) = (running.challenge_id, running.miner_key);
            tracing::info!(challenge = %id, %miner, by = caller.actor.name, "an operator began a challenge");
            Redirect::to(&format!("/challenges/{id}")).into_response()
        }
        Err(error) => visitor.problem(&ApiError::from(error).0),
    }
}

pub(super) async fn decide(
    Admin(caller): Admin,
    visitor: Visitor,
    Path((miner, name)): Path<(String, String)>,
) -> Response {
    let Some((decision, _)) = decision(&name) else {
        return visitor.problem(&ProblemDetails::new(ProblemCode::NotFound, "no such decision about a miner"));
    };
    match operations::decide(visitor.validator(), &miner, decision, &caller.actor).await {
        Ok(changed) => Redirect::to(&format!("/miners/{}?done={name}", changed.miner.record.id)).into_response(),
        Err(error) => visitor.problem(&ApiError::from(error).0),
    }
}
