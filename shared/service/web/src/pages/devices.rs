//! Devices.

use assay_api::DevicesQuery;
use assay_keeper::operations::{read, running};
use assay_page::{DeviceView, DevicesFilter, DevicesView};
use axum::response::Response;

use super::visitor::Visitor;
use super::{PageResult, ROWS, asked};
use crate::extract::{Path, Query};

pub(super) async fn list(visitor: Visitor, Query(filter): Query<DevicesFilter>) -> Response {
    visitor.answer(listed(&visitor, &filter).await)
}

async fn listed(visitor: &Visitor, filter: &DevicesFilter) -> PageResult {
    let validator = visitor.validator();
    let query = DevicesQuery { limit: Some(ROWS), ..asked(&filter.address())? };
    let devices = read::devices(validator, query).await?;
    let counts = running::counts(validator).await?;
    let view = DevicesView { frame: visitor.frame(), devices: &devices, filter, models: &counts.models };
    Ok(assay_page::devices(&view))
}

pub(super) async fn page(visitor: Visitor, Path(device): Path<String>) -> Response {
    let found = read::device(visitor.validator(), &device).await;
    let shown = found.map(|device| assay_page::device(&DeviceView { frame: visitor.frame(), device: &device }));
    visitor.answer(shown.map_err(Into::into))
}
