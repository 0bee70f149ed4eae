//! Receipts that were issued.

use sqlx::any::AnyRow;

use crate::column::get;
use crate::rows::{ColumnValue, Rows};
use crate::tx::Tx;
use crate::{ReceiptRecord, Records, RecordsError};

impl Records {
    /// A receipt by its id, and the challenge that it is about.
    pub async fn receipt(&self, id: &str) -> Result<Option<(String, ReceiptRecord)>, RecordsError> {
        let row = sqlx::query("SELECT * FROM receipts WHERE id = $1").bind(id).fetch_optional(self.read()).await;
        let row = row.map_err(|e| RecordsError::from(e).doing("look up a receipt"))?;
        row.map(|row| Ok((get(&row, "challenge")?, receipt_of(&row)?))).transpose()
    }

    pub async fn receipt_of(&self, challenge: &str) -> Result<Option<ReceiptRecord>, RecordsError> {
        of_challenge(self, challenge).await.map(|receipts| receipts.into_iter().next())
    }
}

pub(crate) async fn of_challenge(records: &Records, challenge: &str) -> Result<Vec<ReceiptRecord>, RecordsError> {
    let rows = sqlx::query("SELECT * FROM receipts WHERE challenge = $1 ORDER BY issued_ms, id").bind(challenge);
    let rows = rows.fetch_all(records.read()).await?;
    rows.iter().map(receipt_of).collect()
}

pub(crate) async fn insert(tx: &mut Tx, receipts: impl Iterator<Item = [ColumnValue; 8]>) -> Result<(), RecordsError> {
    let sql = "INSERT INTO receipts (id, challenge, miner, key_id, issued_ms, expires_ms, nonce, token) VALUES";
    let mut insert = Rows::new(sql, "");
    receipts.for_each(|row| insert.push(row));
    insert.execute(tx).await.map(drop)
}

pub(crate) fn row(challenge: &str, miner: &str, receipt: &ReceiptRecord) -> [ColumnValue; 8] {
    let ReceiptRecord { id, key_id, issued_s, expires_s, nonce, token } = receipt;
    [
        id.as_str().into(),
        challenge.into(),
        miner.into(),
        key_id.as_str().into(),
        issued_s.saturating_mul(1000).into(),
        expires_s.saturating_mul(1000).into(),
        nonce.clone().into(),
        token.as_str().into(),
    ]
}

pub(crate) fn receipt_of(row: &AnyRow) -> Result<ReceiptRecord, RecordsError> {
    Ok(ReceiptRecord {
        id: get(row, "id")?,
        key_id: get(row, "key_id")?,
        issued_s: get::<i64>(row, "issued_ms")? / 1000,
        expires_s: get::<i64>(row, "expires_ms")? / 1000,
        nonce: get(row, "nonce")?,
        token: get(row, "token")?,
    })
}
