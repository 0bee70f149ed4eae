//! Rounds.

use std::collections::BTreeSet;

use assay_api::{Cursor, Round, RoundsQuery};
use assay_page::{MAX_COLUMNS, Outcomes, RoundView, RoundsView};
use assay_protocol::verdict::Outcome;
use assay_records::VerdictFilter;
use axum::response::Response;
use serde::Deserialize;

use super::Shown;
use super::names::names;
use super::visitor::Visitor;
use crate::http::extract::{Path, Query};
use crate::http::problem::Refused;
use crate::operations::read;
use crate::validator::Validator;

/// Where the list goes on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Page {
    cursor: Option<Cursor>,
}

pub(super) async fn list(visitor: Visitor, Query(page): Query<Page>) -> Response {
    visitor.answer(listed(&visitor, page).await)
}

async fn listed(visitor: &Visitor, Page { cursor }: Page) -> Shown {
    let validator = visitor.validator();
    let found = read::rounds(validator, RoundsQuery { limit: Some(MAX_COLUMNS as u32), cursor }).await?;
    let mut rounds = Vec::with_capacity(found.items.len());
    for record in &found.items {
        rounds.push(read::round(validator, &record.id).await?);
    }
    let names = names(&validator.records, members(&rounds)).await?;
    let outcomes = outcomes(validator, &rounds).await?;
    let next = found.next.as_ref().map(Cursor::as_str);
    Ok(assay_page::rounds(&RoundsView {
        frame: visitor.frame(),
        rounds: &rounds,
        next,
        names: &names,
        outcomes: &outcomes,
    }))
}

fn members(rounds: &[Round]) -> BTreeSet<String> {
    rounds.iter().flat_map(|round| &round.members).map(|member| member.miner.clone()).collect()
}

/// What the challenges of these rounds ended in.
async fn outcomes(validator: &Validator, rounds: &[Round]) -> Result<Outcomes, Refused> {
    let mut outcomes = Outcomes::new();
    for round in rounds {
        let filter = VerdictFilter { round: Some(round.record.id.clone()), ..VerdictFilter::default() };
        let judged = validator.records.verdicts(&filter).await?;
        outcomes.extend(judged.into_iter().map(|record| (record.challenge, outcome(&record.outcome))));
    }
    Ok(outcomes)
}

fn outcome(name: &str) -> Outcome {
    assay_page::words::outcome(name)
}

pub(super) async fn page(visitor: Visitor, Path(round): Path<String>) -> Response {
    visitor.answer(shown(&visitor, &round).await)
}

async fn shown(visitor: &Visitor, text: &str) -> Shown {
    let validator = visitor.validator();
    let round = read::round(validator, text).await?;
    let rounds = std::slice::from_ref(&round);
    let names = names(&validator.records, members(rounds)).await?;
    let outcomes = outcomes(validator, rounds).await?;
    Ok(assay_page::round(&RoundView { frame: visitor.frame(), round: &round, names: &names, outcomes: &outcomes }))
}
