//! Receipts that were issued.

use sqlx::any::AnyRow;

use crate::column::{get, read};
use crate::rows::{ColumnValue, Rows};
use crate::tx::Tx;
use crate::{MAX_ROWS, ReceiptRecord, Records, Result};

cursor! {
    /// Where a page of receipts ended.
    ReceiptCursor after ReceiptRecord: issued_s, id
}

/// A selection of a miner's receipts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiptFilter {
    /// Any key of the miner.
    pub miner: String,
    /// Issued not before this time.
    pub since_ms: Option<i64>,
    /// Issued before this time.
    pub until_ms: Option<i64>,
    /// The page after this one.
    pub before: Option<ReceiptCursor>,
    /// The most rows, [`MAX_ROWS`] at most.
    pub limit: Option<u32>,
}

impl Records {
    /// A receipt by its id, and the challenge that it is about.
    pub async fn receipt(&self, id: &str) -> Result<Option<(String, ReceiptRecord)>> {
        let query = sqlx::query("SELECT * FROM receipts WHERE id = $1").bind(id);
        self.find_row("look up a receipt", query, |row| Ok((get(row, "challenge")?, receipt_of(row)?))).await
    }

    /// The receipts of a miner, newest first.
    pub async fn receipts(&self, filter: &ReceiptFilter) -> Result<Vec<ReceiptRecord>> {
        let Some(miner) = self.miner_id(&filter.miner).await? else { return Ok(Vec::new()) };
        let before = filter.before.clone().unwrap_or(ReceiptCursor { issued_s: i64::MAX / 1000, id: String::new() });
        let sql = "SELECT * FROM receipts WHERE miner = $1 AND issued_ms >= $2 AND issued_ms < $3 \
             AND (issued_ms < $4 OR (issued_ms = $4 AND id < $5)) ORDER BY issued_ms DESC, id DESC LIMIT $6";
        let query = sqlx::query(sql).bind(miner).bind(filter.since_ms.unwrap_or(0));
        let query =
            query.bind(filter.until_ms.unwrap_or(i64::MAX)).bind(before.issued_s.saturating_mul(1000)).bind(before.id);
        let query = query.bind(i64::from(filter.limit.unwrap_or(MAX_ROWS).min(MAX_ROWS)));
        self.list("list receipts", query, receipt_of).await
    }

    pub async fn receipt_of(&self, challenge: &str) -> Result<Option<ReceiptRecord>> {
        of_challenge(self, challenge).await.map(|receipts| receipts.into_iter().next())
    }
}

pub(crate) async fn of_challenge(records: &Records, challenge: &str) -> Result<Vec<ReceiptRecord>> {
    let rows = sqlx::query("SELECT * FROM receipts WHERE challenge = $1 ORDER BY issued_ms, id").bind(challenge);
    let rows = rows.fetch_all(records.read()).await?;
    rows.iter().map(receipt_of).collect()
}

pub(crate) async fn insert(tx: &mut Tx, receipts: impl Iterator<Item = [ColumnValue; 8]>) -> Result<()> {
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

pub(crate) fn receipt_of(row: &AnyRow) -> Result<ReceiptRecord> {
    Ok(read!(row => ReceiptRecord {
        id, key_id, nonce, token;
        issued_s: get::<i64>(row, "issued_ms")? / 1000,
        expires_s: get::<i64>(row, "expires_ms")? / 1000,
    }))
}
