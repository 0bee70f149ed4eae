//! Rounds.

use std::collections::BTreeSet;

use assay_api::{Cursor, PageQuery, Round};
use assay_keeper::operations::read;
use assay_keeper::validator::Validator;
use assay_page::words::outcome;
use assay_page::{MAX_COLUMNS, Outcomes, RoundView, RoundsView};
use assay_records::RoundRecord;
use axum::response::Response;
use serde::Deserialize;

use super::PageResult;
use super::names::names;
use super::visitor::Visitor;
use crate::extract::{Path, Query};
use crate::problem::Result;

/// Position in the list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RoundsPageQuery {
    cursor: Option<Cursor>,
}

pub(super) async fn list(visitor: Visitor, Query(page): Query<RoundsPageQuery>) -> Response {
    visitor.answer(listed(&visitor, page).await)
}

async fn listed(visitor: &Visitor, RoundsPageQuery { cursor }: RoundsPageQuery) -> PageResult {
    let validator = visitor.validator();
    let found = read::rounds(validator, PageQuery { limit: Some(MAX_COLUMNS as u32), cursor }).await?;
    let (rounds, outcomes) = with_members(validator, found.items).await?;
    let names = names(&validator.records, members(&rounds)).await?;
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

/// These rounds with their members, and the outcomes of their challenges.
async fn with_members(validator: &Validator, records: Vec<RoundRecord>) -> Result<(Vec<Round>, Outcomes)> {
    let ids: Vec<_> = records.iter().map(|record| record.id.as_str()).collect();
    let mut found = validator.records.round_members(&ids).await?;
    let mut outcomes = Outcomes::new();
    let mut with_members = |record: RoundRecord| {
        let members = found.remove(&record.id).unwrap_or_default().into_iter().map(|(member, ended)| {
            let judged = member.challenge.clone().zip(ended);
            outcomes.extend(judged.map(|(challenge, ended)| (challenge, outcome(&ended))));
            member
        });
        Round { members: members.collect(), record }
    };
    let rounds = records.into_iter().map(&mut with_members).collect();
    Ok((rounds, outcomes))
}

pub(super) async fn page(visitor: Visitor, Path(round): Path<String>) -> Response {
    visitor.answer(shown(&visitor, &round).await)
}

async fn shown(visitor: &Visitor, text: &str) -> PageResult {
    let validator = visitor.validator();
    let record = read::round(validator, text).await?.record;
    let (rounds, outcomes) = with_members(validator, vec![record]).await?;
    let names = names(&validator.records, members(&rounds)).await?;
    let view = |round| RoundView { frame: visitor.frame(), round, names: &names, outcomes: &outcomes };
    Ok(rounds.first().map(|round| assay_page::round(&view(round))).unwrap_or_default())
}
