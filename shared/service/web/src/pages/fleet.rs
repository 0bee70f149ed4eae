//! The fleet.

use assay_api::{ListPage, MinerOrder, MinersQuery};
use assay_keeper::operations::{read, running};
use assay_page::{FleetFilter, FleetView};
use axum::response::Response;

use super::visitor::Visitor;
use super::{PageResult, ROWS, asked};
use crate::extract::Query;

pub(super) async fn page(visitor: Visitor, Query(filter): Query<FleetFilter>) -> Response {
    visitor.answer(shown(&visitor, &filter).await)
}

async fn shown(visitor: &Visitor, filter: &FleetFilter) -> PageResult {
    let validator = visitor.validator();
    let order = Some(MinerOrder::Trouble);
    let query = MinersQuery { limit: Some(ROWS), order, ..asked(&filter.address())? };
    let counts = running::counts(validator).await?;
    let miners = match &counts.miners[..] {
        [] => ListPage::all(Vec::new()),
        _ => read::miners(validator, query, visitor.role()).await?,
    };
    Ok(assay_page::fleet(&FleetView {
        frame: visitor.frame(),
        miners: &miners,
        filter,
        counts: &counts.miners,
        models: &counts.models,
        connected: u32::try_from(validator.registry.miners().len()).unwrap_or(u32::MAX),
        target: &visitor.web.running.target.to_string(),
    }))
}
