//! Exports: every table as JSON Lines, as one moment of the store, in bounded memory.
//!
//! A transaction that only reads sees one moment on both databases while others write. Lines go in batches through a
//! short queue to a thread that writes files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Contents of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Exported)]
pub struct ExportSummary {
    /// Version of the schema: the meaning of tables and columns.
    pub schema_version: i64,
    /// Time of its snapshot.
    pub at_ms: i64,
    /// Number of rows of each table.
    pub tables: BTreeMap<String, u64>,
}
