//! Verdicts.

use assay_api::{ProblemCode, VerdictsQuery, verdict_of};
use assay_keeper::operations::read;
use assay_keeper::validator::Validator;
use assay_page::{ListedVerdict, VerdictView, VerdictsFilter, VerdictsView};
use assay_records::VerdictRecord;
use axum::response::Response;

use super::names::names;
use super::visitor::Visitor;
use super::{PageResult, ROWS, asked};
use crate::extract::{Path, Query};
use crate::problem::{ApiError, Result};

pub(super) async fn list(visitor: Visitor, Query(filter): Query<VerdictsFilter>) -> Response {
    visitor.answer(listed(&visitor, &filter).await)
}

async fn listed(visitor: &Visitor, filter: &VerdictsFilter) -> PageResult {
    let query = VerdictsQuery { limit: Some(ROWS), ..asked(&filter.address())? };
    let found = read::verdicts(visitor.validator(), query).await?;
    let verdicts = with_names(visitor.validator(), found.items).await?;
    let next = found.next.as_ref().map(assay_api::Cursor::as_str);
    Ok(assay_page::verdicts(&VerdictsView { frame: visitor.frame(), verdicts: &verdicts, next, filter }))
}

/// Records in the form of a list.
pub(super) async fn with_names(validator: &Validator, records: Vec<VerdictRecord>) -> Result<Vec<ListedVerdict>> {
    let names = names(&validator.records, records.iter().map(|record| record.miner.clone()).collect()).await?;
    let listed = |record: VerdictRecord| ListedVerdict {
        verdict: verdict_of(&record).ok(),
        miner_name: names.get(&record.miner).cloned(),
        record,
    };
    Ok(records.into_iter().map(listed).collect())
}

pub(super) async fn page(visitor: Visitor, Path(challenge): Path<String>) -> Response {
    visitor.answer(shown(&visitor, &challenge).await)
}

async fn shown(visitor: &Visitor, text: &str) -> PageResult {
    let validator = visitor.validator();
    let record = read::verdict(validator, text).await?;
    let unreadable =
        |error| ApiError::new(ProblemCode::NotPossible, format!("another release wrote this verdict: {error}"));
    let verdict = verdict_of(&record.record).map_err(unreadable)?;
    let names = names(&validator.records, [record.record.miner.clone()].into()).await?;
    Ok(assay_page::verdict(&VerdictView {
        frame: visitor.frame(),
        verdict: &verdict,
        record: &record,
        miner_name: names.get(&record.record.miner).map(String::as_str),
    }))
}
