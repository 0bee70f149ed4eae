//! The operations library over the control socket: requests become its types, its documents become bytes.

use std::path::PathBuf;
use std::pin::Pin;

use assay_fleet::policy::RoundScope;
use assay_protocol::wire::v1::{self, ChangeResponse, QueryResponse, change_request, query_request};
use assay_records::{Actor, Format};
use tokio_stream::Stream;
use tonic::{Request, Status};

use super::Refusal;
use crate::http::origin::RequestOrigin;
use crate::operations::{
    Backup, BeginRound, Change, DevicesQuery, Document, Enroll, Export, HistoryQuery, Label, MinersQuery,
    OperationError, Query, SetStatus, ShowQuery, StatusAction, TokensQuery, VerdictsQuery,
};
use crate::validator::Validator;

/// Documents as they are sent.
pub(super) type Documents = Pin<Box<dyn Stream<Item = Result<QueryResponse, Status>> + Send>>;

/// Who asks: the user of the process at the other end of the socket.
pub(super) fn actor<T>(request: &Request<T>) -> Actor {
    match request.extensions().get::<RequestOrigin>() {
        Some(RequestOrigin::Socket(actor)) => actor.clone(),
        _ => Actor { name: "unknown".to_owned(), uid: None },
    }
}

/// Answers a query.
pub(super) async fn query(validator: &Validator, request: v1::QueryRequest) -> Result<Documents, Status> {
    let query = request.query.ok_or_else(|| invalid("no query"))?;
    let found = query_of(query)?.answer(validator).await.map_err(refused)?;
    let sent = found.into_iter().map(|document| Ok(QueryResponse { json: bytes(&document) }));
    Ok(Box::pin(tokio_stream::iter(sent)))
}

/// Makes a change.
pub(super) async fn change(
    validator: &Validator,
    request: v1::ChangeRequest,
    actor: &Actor,
) -> Result<ChangeResponse, Status> {
    let change = request.change.ok_or_else(|| invalid("no change"))?;
    let made = change_of(change)?.make(validator, actor).await.map_err(refused)?;
    Ok(ChangeResponse { json: bytes(&made) })
}

/// A value is always JSON.
fn bytes(document: &Document) -> Vec<u8> {
    serde_json::to_vec(document).unwrap_or_default()
}

fn invalid(why: &str) -> Status {
    Refusal::Invalid.status(why)
}

fn refused(error: OperationError) -> Status {
    let refusal = match &error {
        OperationError::NotFound(_) => Refusal::NotFound,
        OperationError::Invalid(_) => Refusal::Invalid,
        OperationError::NotPossible(_) => Refusal::NotPossible,
        OperationError::Refused(..) => Refusal::NotPossible,
        OperationError::Records(_) => Refusal::Records,
    };
    refusal.status(error.to_string())
}

/// A text that is set.
fn given(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn query_of(query: query_request::Query) -> Result<Query, Status> {
    use query_request::Query as Wire;
    Ok(match query {
        Wire::Miners(v1::MinersQuery { status, state, labels, connected, limit }) => Query::Miners(MinersQuery {
            status: given(status).map(|name| name.parse()).transpose().map_err(|why: String| invalid(&why))?,
            state: given(state),
            labels: labels.into_iter().collect(),
            connected,
            limit,
        }),
        Wire::Devices(v1::DevicesQuery { miner, device_id, model, gone, limit }) => Query::Devices(DevicesQuery {
            miner: given(miner),
            device_id: given(device_id),
            model: given(model),
            gone,
            limit,
        }),
        Wire::Verdicts(v1::VerdictsQuery { miner, outcome, code, since_ms, until_ms, limit }) => {
            let (miner, outcome, code) = (given(miner), given(outcome), given(code));
            Query::Verdicts(VerdictsQuery { miner, outcome, code, since_ms, until_ms, limit })
        }
        Wire::Show(v1::ShowQuery { id }) => Query::Show(ShowQuery { id }),
        Wire::History(v1::HistoryQuery { miner, limit }) => Query::History(HistoryQuery { miner, limit }),
        Wire::Tokens(v1::TokensQuery { limit }) => Query::Tokens(TokensQuery { limit }),
    })
}

fn change_of(change: change_request::Change) -> Result<Change, Status> {
    use change_request::Change as Wire;
    Ok(match change {
        Wire::Enroll(v1::EnrollChange { labels, expires_s }) => {
            Change::Enroll(Enroll { labels: labels.into_iter().collect(), expires_s })
        }
        Wire::Status(status) => {
            let action = match status.action() {
                v1::StatusAction::Approve => StatusAction::Approve,
                v1::StatusAction::Suspend => StatusAction::Suspend,
                v1::StatusAction::Resume => StatusAction::Resume,
                v1::StatusAction::Revoke => StatusAction::Revoke,
                v1::StatusAction::Unspecified => return Err(invalid("action: none is given")),
            };
            Change::Status(SetStatus { miner: status.miner, action })
        }
        Wire::Label(v1::LabelChange { miner, set, remove }) => {
            Change::Label(Label { miner, set: set.into_iter().collect(), remove })
        }
        Wire::Export(export) => {
            let format = match export.format() {
                v1::ExportFormat::JsonLines => Format::JsonLines,
                v1::ExportFormat::Parquet => Format::Parquet,
                v1::ExportFormat::Unspecified => return Err(invalid("format: none is given")),
            };
            Change::Export(Export { folder: absolute("folder", export.folder)?, format })
        }
        Wire::Round(round) => {
            let by = match round.by() {
                v1::RoundScope::Unspecified => None,
                v1::RoundScope::All => Some(RoundScope::All),
                v1::RoundScope::Operator => Some(RoundScope::Operator),
                v1::RoundScope::Address => Some(RoundScope::Address),
                v1::RoundScope::Model => Some(RoundScope::Model),
            };
            Change::Round(BeginRound { group: given(round.group), by })
        }
        Wire::Backup(v1::BackupChange { file }) => Change::Backup(Backup { file: absolute("file", file)? }),
    })
}

/// A path that means the same to the validator as to who asks.
fn absolute(field: &str, path: String) -> Result<PathBuf, Status> {
    let path = PathBuf::from(path);
    if path.is_absolute() { Ok(path) } else { Err(invalid(&format!("{field}: an absolute path is expected"))) }
}
