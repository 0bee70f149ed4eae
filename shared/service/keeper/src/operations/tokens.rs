//! Tokens of the API.

use std::time::Duration;

use assay_api::{ApiToken, CreateApiToken};
use assay_records::{Actor, MAX_TOKEN_NAME_BYTES};

use super::{MAX_TOKEN_S, OperationError, Result};
use crate::validator::Validator;

/// Creates a token of the API, which is shown only this once.
pub async fn create(validator: &Validator, asked: CreateApiToken, actor: &Actor) -> Result<ApiToken> {
    let CreateApiToken { role, name, expires_s } = asked;
    let is_name = (1..=MAX_TOKEN_NAME_BYTES).contains(&name.len())
        && name.trim() == name
        && name.chars().all(|sign| !sign.is_control());
    if !is_name {
        let why = format!("name: 1 to {MAX_TOKEN_NAME_BYTES} bytes of printable text are expected");
        return Err(OperationError::Invalid(why));
    }
    if !(1..=MAX_TOKEN_S).contains(&expires_s) {
        return Err(OperationError::Invalid(format!("expires_s: {expires_s} is not from 1 to {MAX_TOKEN_S}")));
    }
    let lifetime = Duration::from_secs(expires_s);
    let (token, record) = validator.records.create_api_token(role, &name, lifetime, actor).await?;
    tracing::info!(token = record.id, %role, name, by = actor.name, "a token of the API was made");
    Ok(ApiToken { record, token })
}
