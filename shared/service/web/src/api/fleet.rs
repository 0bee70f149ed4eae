//! Miners and their devices.

use std::sync::Arc;

use assay_api::{
    ChangeLabels, Decision, DeviceDetail, DevicesQuery, FleetCounts, ForgottenDevices, ListPage, Miner, MinerChanged,
    MinerConnection, MinerDetail, MinerSeries, MinersQuery, PageQuery, SeriesQuery,
};
use assay_keeper::operations::{self, read, running, series};
use assay_records::{DeviceRecord, MinerEvent};
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, ListResult, MinerPath};
use crate::caller::{Admin, Caller, Operator};
use crate::extract::{Json, NoParameters, Path, Query};
use crate::{Web, WebState};

pub(super) fn routes() -> OpenApiRouter<Arc<Web>> {
    OpenApiRouter::new()
        .routes(routes!(counts))
        .routes(routes!(connected))
        .routes(routes!(miners))
        .routes(routes!(miner))
        .routes(routes!(history))
        .routes(routes!(miner_series))
        .routes(routes!(devices))
        .routes(routes!(device))
        .routes(routes!(approve))
        .routes(routes!(suspend))
        .routes(routes!(resume))
        .routes(routes!(revoke))
        .routes(routes!(quarantine))
        .routes(routes!(release))
        .routes(routes!(label))
        .routes(routes!(forget))
}

/// The fleet in numbers
#[utoipa::path(get, path = "/api/v1/counts", tag = "fleet",
    responses((status = 200, description = "Miners and devices, counted", body = FleetCounts)),
    security(("token" = ["read"])))]
async fn counts(_: Caller, State(web): WebState, _: Query<NoParameters>) -> ApiResult<FleetCounts> {
    Ok(Json(running::counts(&web.running.validator).await?))
}

/// The miners that are connected to this validator, in order of key
#[utoipa::path(get, path = "/api/v1/connected", tag = "fleet",
    responses((status = 200, description = "All of them", body = ListPage<MinerConnection>)),
    security(("token" = ["read"])))]
// Clients send a limit to every list.
async fn connected(_: Caller, State(web): WebState, _: Query<PageQuery>) -> Json<ListPage<MinerConnection>> {
    Json(running::connected(&web.running.validator))
}

/// The miners that the records know
#[utoipa::path(get, path = "/api/v1/miners", tag = "fleet", params(MinersQuery),
    responses((status = 200, description = "A page of them", body = ListPage<Miner>)), security(("token" = ["read"])))]
async fn miners(caller: Caller, State(web): WebState, Query(query): Query<MinersQuery>) -> ListResult<Miner> {
    Ok(Json(read::miners(&web.running.validator, query, caller.role).await?))
}

/// A miner with all that lies behind it
#[utoipa::path(get, path = "/api/v1/miners/{miner}", tag = "fleet", params(MinerPath),
    responses((status = 200, description = "The miner", body = MinerDetail)), security(("token" = ["read"])))]
async fn miner(
    caller: Caller,
    State(web): WebState,
    Path(MinerPath { miner }): Path<MinerPath>,
) -> ApiResult<MinerDetail> {
    Ok(Json(read::miner(&web.running.validator, &miner, caller.role).await?))
}

/// What happened to a miner, newest first
#[utoipa::path(get, path = "/api/v1/miners/{miner}/history", tag = "fleet", params(MinerPath, PageQuery),
    responses((status = 200, description = "A page of them", body = ListPage<MinerEvent>)), security(("token" = ["read"])))]
async fn history(
    _: Caller,
    State(web): WebState,
    Path(MinerPath { miner }): Path<MinerPath>,
    Query(query): Query<PageQuery>,
) -> ListResult<MinerEvent> {
    Ok(Json(read::history(&web.running.validator, &miner, query).await?))
}

/// What a miner's devices showed over time, and what is expected of their models
#[utoipa::path(get, path = "/api/v1/miners/{miner}/series", tag = "fleet", params(MinerPath, SeriesQuery),
    responses((status = 200, description = "Oldest first", body = MinerSeries)), security(("token" = ["read"])))]
async fn miner_series(
    _: Caller,
    State(web): WebState,
    Path(MinerPath { miner }): Path<MinerPath>,
    Query(query): Query<SeriesQuery>,
) -> ApiResult<MinerSeries> {
    Ok(Json(series::of_miner(&web.running.validator, &miner, query).await?))
}

/// Devices that miners list, in order of miner and id
#[utoipa::path(get, path = "/api/v1/devices", tag = "fleet", params(DevicesQuery),
    responses((status = 200, description = "A page of them", body = ListPage<DeviceRecord>)),
    security(("token" = ["read"])))]
async fn devices(_: Caller, State(web): WebState, Query(query): Query<DevicesQuery>) -> ListResult<DeviceRecord> {
    Ok(Json(read::devices(&web.running.validator, query).await?))
}

/// A device at every miner that lists it or did
#[utoipa::path(get, path = "/api/v1/devices/{device}", tag = "fleet",
    params(("device" = String, Path, description = "Its id, or the first digits", min_length = 4, max_length = 32,
        pattern = "^[0-9a-fA-F]{4,32}$")),
    responses((status = 200, description = "The device", body = DeviceDetail)), security(("token" = ["read"])))]
async fn device(_: Caller, State(web): WebState, Path(device): Path<String>) -> ApiResult<DeviceDetail> {
    Ok(Json(read::device(&web.running.validator, &device).await?))
}

/// Handlers of decisions, each with its summary and path.
macro_rules! decisions {
    ($($(#[$summary:meta])+ $name:ident $path:literal $decision:ident;)+) => { $(
        $(#[$summary])+
        #[utoipa::path(post, path = $path, tag = "fleet", params(MinerPath),
            responses((status = 200, description = "The miner", body = MinerChanged)), security(("token" = ["admin"])))]
        async fn $name(
            Admin(caller): Admin,
            State(web): WebState,
            Path(MinerPath { miner }): Path<MinerPath>,
        ) -> ApiResult<MinerChanged> {
            let validator = &web.running.validator;
            Ok(Json(operations::decide(validator, &miner, Decision::$decision, &caller.actor).await?))
        }
    )+ };
}

decisions! {
    /// Lets a miner in
    approve "/api/v1/miners/{miner}/approve" Approve;
    /// Keeps a miner out until it is resumed; its session ends at once
    suspend "/api/v1/miners/{miner}/suspend" Suspend;
    /// Lets a suspended miner in again
    resume "/api/v1/miners/{miner}/resume" Resume;
    /// Keeps a miner out for good; its session ends at once
    revoke "/api/v1/miners/{miner}/revoke" Revoke;
    /// Sets a miner apart until it is released; its passes do not count meanwhile
    quarantine "/api/v1/miners/{miner}/quarantine" Quarantine;
    /// Ends a miner's quarantine; the passes that it owes stay owed
    release "/api/v1/miners/{miner}/release" Release;
}

/// Sets labels of a miner, or takes them away
#[utoipa::path(patch, path = "/api/v1/miners/{miner}/labels", tag = "fleet", request_body = ChangeLabels,
    params(MinerPath),
    responses((status = 200, description = "The miner", body = Miner)), security(("token" = ["operate"])))]
async fn label(
    Operator(caller): Operator,
    State(web): WebState,
    Path(MinerPath { miner }): Path<MinerPath>,
    Json(asked): Json<ChangeLabels>,
) -> ApiResult<Miner> {
    Ok(Json(operations::label(&web.running.validator, &miner, asked, &caller.actor).await?))
}

/// Forgets which devices a miner showed, so that none is missed from now on
#[utoipa::path(delete, path = "/api/v1/miners/{miner}/known-devices", tag = "fleet", params(MinerPath),
    responses((status = 200, description = "How many were forgotten", body = ForgottenDevices)),
    security(("token" = ["operate"])))]
async fn forget(
    Operator(caller): Operator,
    State(web): WebState,
    Path(MinerPath { miner }): Path<MinerPath>,
) -> ApiResult<ForgottenDevices> {
    Ok(Json(running::forget(&web.running.validator, &miner, &caller.actor).await?))
}
