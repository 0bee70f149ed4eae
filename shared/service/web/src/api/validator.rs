//! The validator itself: status, policy, and administration.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use assay_api::{
    BackupRequest, CreateLoginCode, ExportRequest, LoginCode, ProblemCode, ReloadResult, Role, SearchResult,
    ServerStatus, WrittenFile, WrittenFolder,
};
use axum::extract::State;
use axum::http::StatusCode;
use tokio::sync::oneshot;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, StatusResult};
use crate::caller::{Admin, Caller, LocalCaller};
use crate::extract::{Json, NoParameters, Path, Query};
use crate::login::Login;
use crate::problem::{ApiError, Result};
use crate::{Web, WebState};
use assay_judge::entropy::OsEntropy;
use assay_keeper::operations::{self, read, running};
use assay_listen::bounds::LOGIN_CODE_LIMIT;

pub(super) fn routes() -> OpenApiRouter<Arc<Web>> {
    OpenApiRouter::new()
        .routes(routes!(status))
        .routes(routes!(policy))
        .routes(routes!(find))
        .routes(routes!(reload))
        .routes(routes!(login_code))
        .routes(routes!(export))
        .routes(routes!(backup))
}

/// What the validator does, and what it has done since its start
#[utoipa::path(get, path = "/api/v1/status", tag = "validator",
    responses((status = 200, description = "Now", body = ServerStatus)), security(("token" = ["read"])))]
async fn status(caller: Caller, State(web): WebState, _: Query<NoParameters>) -> Json<ServerStatus> {
    let mut status = running::status(&web.running);
    if caller.role < Role::Admin {
        status.records = last_part(&status.records);
        status.control_socket = last_part(&status.control_socket);
    }
    Json(status)
}

/// The last part of a path or URL: locations on the machine are for admins only.
fn last_part(location: &str) -> String {
    location.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}

/// The policy of the fleet that is in force
#[utoipa::path(get, path = "/api/v1/policy", tag = "validator",
    responses((status = 200, description = "As docs/settings.md explains its fields", body = Object)),
    security(("token" = ["read"])))]
async fn policy(_: Caller, State(web): WebState, _: Query<NoParameters>) -> Json<assay_policy::policy::FleetPolicy> {
    Json(web.running.validator.fleet.rules().policy.clone())
}

/// What an id, or its first digits, stands for
#[utoipa::path(get, path = "/api/v1/find/{prefix}", tag = "validator",
    params(("prefix" = String, Path, description = "An id, its first digits, or a miner's label `name`", min_length = 1,
        max_length = 128)),
    responses((status = 200, description = "A challenge, a miner, a device, a receipt or a round",
        body = SearchResult)), security(("token" = ["read"])))]
async fn find(caller: Caller, State(web): WebState, Path(prefix): Path<String>) -> ApiResult<SearchResult> {
    Ok(Json(read::found(&web.running.validator, &prefix, caller.role).await?))
}

/// Reads the settings again
#[utoipa::path(post, path = "/api/v1/reload", tag = "validator",
    responses((status = 200, description = "What has changed", body = ReloadResult)), security(("token" = ["admin"])))]
async fn reload(_: Admin, State(web): WebState) -> ApiResult<ReloadResult> {
    let refused = |why| ApiError::new(ProblemCode::Configuration, format!("nothing has changed: {why}"));
    let ending = || refused("the validator ends".to_owned());
    let (request, answer) = oneshot::channel();
    web.running.reloads.send(request).await.map_err(|_| ending())?;
    Ok(Json(answer.await.map_err(|_| ending())?.map_err(refused)?))
}

/// Makes a code to log in with on the page, over the control socket
#[utoipa::path(post, path = "/api/v1/login-codes", tag = "validator", request_body = CreateLoginCode,
    responses((status = 201, description = "A code that can be used once", body = LoginCode)),
    security(("token" = ["admin"])))]
async fn login_code(
    LocalCaller(caller): LocalCaller,
    State(web): WebState,
    Json(asked): Json<CreateLoginCode>,
) -> StatusResult<LoginCode> {
    let login = Login { actor: caller.actor, role: asked.role, token: None };
    let code = web.logins.code(login, &mut OsEntropy, Instant::now());
    let code = code.map_err(|error| ApiError::new(ProblemCode::Internal, error.to_string()))?;
    let url = web.page_url().map(|url| format!("{url}/login?code={code}"));
    let made = LoginCode { code, expires_s: LOGIN_CODE_LIMIT.as_secs(), url };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Writes all records into a folder of the validator's machine, over the control socket
#[utoipa::path(post, path = "/api/v1/export", tag = "validator", request_body = ExportRequest,
    responses((status = 200, description = "What was written", body = WrittenFolder)), security(("token" = ["admin"])))]
async fn export(
    LocalCaller(caller): LocalCaller,
    State(web): WebState,
    Json(asked): Json<ExportRequest>,
) -> ApiResult<WrittenFolder> {
    let folder = absolute("folder", &asked.folder)?;
    Ok(Json(operations::export(&web.running.validator, &folder, &caller.actor).await?))
}

/// Copies the records into a file of the validator's machine, over the control socket
#[utoipa::path(post, path = "/api/v1/backup", tag = "validator", request_body = BackupRequest,
    responses((status = 200, description = "What was written", body = WrittenFile)), security(("token" = ["admin"])))]
async fn backup(
    LocalCaller(caller): LocalCaller,
    State(web): WebState,
    Json(asked): Json<BackupRequest>,
) -> ApiResult<WrittenFile> {
    let file = absolute("file", &asked.file)?;
    Ok(Json(operations::backup(&web.running.validator, &file, asked.check, &caller.actor).await?))
}

/// Requires an absolute path, which means the same to the validator and to its caller.
fn absolute(field: &str, path: &str) -> Result<PathBuf> {
    let path = PathBuf::from(path);
    let refused = || ApiError::new(ProblemCode::Invalid, format!("{field}: an absolute path is expected"));
    if path.is_absolute() { Ok(path) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_where_the_records_lie_a_reader_hears_the_name() {
        for (location, name) in [
            ("/var/lib/assay/validator.db", "validator.db"),
            ("validator.db", "validator.db"),
            ("postgres://assay@db.internal/fleet", "fleet"),
        ] {
            assert_eq!(last_part(location), name);
        }
    }
}
