//! A miner, and what an operator does with it.

use assay_api::{BeginChallenge, HistoryQuery, Problem, ProblemCode, SeriesQuery, VerdictsQuery};
use assay_page::MinerView;
use assay_protocol::verdict::Mode;
use axum::Form;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::visitor::Visitor;
use super::{Shown, verdicts};
use crate::http::caller::{Admin, Operator};
use crate::http::extract::{Path, Query};
use crate::http::problem::Refused;
use crate::operations::{SetStatus, StatusAction, read, running, series};

/// Points of the charts, over all devices.
const POINTS: u32 = 800;
/// Verdicts in the row of bars.
const VERDICTS: u32 = 60;
/// Things that happened, of which the page shows those that stand nowhere else on it.
const EVENTS: u32 = 200;

/// What was done before.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Done {
    done: String,
}

/// The decisions that forms send: in the path, in effect, and in words once they are made.
const DECISIONS: [(&str, StatusAction, &str); 3] = [
    ("approve", StatusAction::Approve, "Approved: the miner is let in."),
    ("suspend", StatusAction::Suspend, "Suspended: the miner is neither challenged nor attested."),
    ("resume", StatusAction::Resume, "Resumed: the miner takes part again."),
];

pub(super) async fn page(
    mut visitor: Visitor,
    Path(miner): Path<String>,
    Query(Done { done }): Query<Done>,
) -> Response {
    visitor.notice = DECISIONS.iter().find(|(name, ..)| *name == done).map(|(_, _, words)| *words);
    visitor.answer(shown(&visitor, &miner).await)
}

async fn shown(visitor: &Visitor, text: &str) -> Shown {
    let validator = visitor.validator();
    let detail = read::miner(validator, text).await?;
    let id = &detail.miner.record.id;
    let series = series::of_miner(validator, id, SeriesQuery { limit: Some(POINTS), ..SeriesQuery::default() }).await?;
    let query = VerdictsQuery { miner: Some(id.clone()), limit: Some(VERDICTS), ..VerdictsQuery::default() };
    let listed = verdicts::with_names(validator, read::verdicts(validator, query).await?.items).await?;
    let history = read::history(validator, id, HistoryQuery { limit: Some(EVENTS) }).await?;
    Ok(assay_page::miner(&MinerView {
        frame: visitor.frame(),
        detail: &detail,
        series: &series,
        verdicts: &listed,
        history: &history.items,
    }))
}

/// What the form of a challenge sends.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    /// Empty: as the policy says.
    mode: String,
}

pub(super) async fn challenge(
    Operator(caller): Operator,
    visitor: Visitor,
    Path(miner): Path<String>,
    Form(Asked { mode }): Form<Asked>,
) -> Response {
    let modes = [Mode::Audit, Mode::ReplaySample, Mode::Replay];
    let mode = modes.into_iter().find(|known| known.name() == mode);
    let asked = BeginChallenge { miner: Some(miner), mode, ..BeginChallenge::default() };
    match running::begin(visitor.validator(), asked).await {
        Ok((running, updates)) => {
            let (id, miner) = (running.challenge_id, running.miner_key);
            tracing::info!(challenge = %id, %miner, by = caller.actor.name, "an operator began a challenge");
            visitor.web.watched.follow(running, updates);
            Redirect::to(&format!("/challenges/{id}")).into_response()
        }
        Err(error) => visitor.problem(&Refused::from(error).0),
    }
}

pub(super) async fn decide(
    Admin(caller): Admin,
    visitor: Visitor,
    Path((miner, decision)): Path<(String, String)>,
) -> Response {
    let Some((name, action, _)) = DECISIONS.iter().find(|(name, ..)| *name == decision) else {
        return visitor.problem(&Problem::new(ProblemCode::NotFound, "no such decision about a miner"));
    };
    match (SetStatus { miner, action: *action }).decide(visitor.validator(), &caller.actor).await {
        Ok(changed) => Redirect::to(&format!("/miners/{}?done={name}", changed.miner.record.id)).into_response(),
        Err(error) => visitor.problem(&Refused::from(error).0),
    }
}
