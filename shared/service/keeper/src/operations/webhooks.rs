//! Webhooks: servers that receive events.

use assay_api::{AddWebhook, AddedWebhook, TestedWebhook};
use assay_records::{Actor, NewWebhook, WebhookRecord};
use assay_webhook::{SigningSecret, TestError, Url};

use super::{OperationError, Result};
use crate::validator::Validator;

/// The least digits of an id that identify a webhook.
const MIN_ID_DIGITS: usize = 4;

/// Adds a webhook, with a secret of its own, which is shown only this once.
pub async fn add(validator: &Validator, asked: AddWebhook, actor: &Actor) -> Result<AddedWebhook> {
    let AddWebhook { url, mut kinds } = asked;
    let target: Url = url.parse().map_err(|error| OperationError::Invalid(format!("url: {error}")))?;
    if let Some(why) = target.refusal() {
        return Err(OperationError::Invalid(format!("url: nothing is sent to {why}")));
    }
    let secret = SigningSecret::random().map_err(OperationError::NotPossible)?;
    kinds.sort_unstable();
    kinds.dedup();
    let webhook = NewWebhook { url, target: target.to_string(), kinds, secret: secret.bytes().to_vec() };
    let record = validator.records.add_webhook(&webhook, actor).await?;
    tracing::info!(webhook = record.id, target = record.target, by = actor.name, "a webhook was added");
    validator.reports.webhooks.changed();
    Ok(AddedWebhook { record, secret: secret.text() })
}

/// Removes a webhook, and stops its deliveries.
pub async fn remove(validator: &Validator, id: &str, actor: &Actor) -> Result<WebhookRecord> {
    let webhook = find(validator, id).await?;
    validator.records.remove_webhook(&webhook.id, actor).await?;
    tracing::info!(webhook = webhook.id, target = webhook.target, by = actor.name, "a webhook was removed");
    validator.reports.webhooks.changed();
    Ok(webhook)
}

/// Sends a webhook a test message. A disabled webhook is enabled when its receiver accepts it.
///
/// # Errors
/// [`OperationError::NotPossible`] where the receiver does not accept it.
pub async fn test(validator: &Validator, id: &str) -> Result<TestedWebhook> {
    let webhook = find(validator, id).await?;
    let status = validator.reports.webhooks.test(&webhook).await.map_err(|error| match error {
        TestError::Records(error) => error.into(),
        other => OperationError::NotPossible(other.to_string()),
    })?;
    Ok(TestedWebhook { status })
}

/// Finds the webhook whose id begins with these digits.
async fn find(validator: &Validator, id: &str) -> Result<WebhookRecord> {
    let mut found = validator.records.webhooks().await?;
    found.retain(|webhook| id.len() >= MIN_ID_DIGITS && webhook.id.starts_with(id));
    match found.len() {
        0 => Err(OperationError::NotFound(format!("no webhook {id}: give its first digits, {MIN_ID_DIGITS} or more"))),
        1 => Ok(found.remove(0)),
        many => Err(OperationError::Invalid(format!("{many} webhooks begin with {id}: give more digits"))),
    }
}
