//! Names that operators give miners, for lists of their ids.

use std::collections::BTreeSet;

use assay_page::Names;
use assay_records::{MinerFilter, Records};

use crate::problem::Result;

/// Label with a miner's name.
pub(super) const NAME_LABEL: &str = "name";
/// The most miners looked up one by one; for more, all are listed.
const MAX_LOOKED_UP: usize = 16;
/// The most miners listed.
const MAX_LISTED: u32 = 1000;

/// Names of those of these miners that have one.
pub(super) async fn names(records: &Records, ids: BTreeSet<String>) -> Result<Names> {
    let found = if ids.len() <= MAX_LOOKED_UP {
        let mut found = Vec::new();
        for id in &ids {
            found.extend(records.miner(id).await?);
        }
        found
    } else {
        records.miners(&MinerFilter { limit: Some(MAX_LISTED), ..MinerFilter::default() }).await?
    };
    let named = found.into_iter().filter(|miner| ids.contains(&miner.id));
    Ok(named.filter_map(|mut miner| Some((miner.id, miner.labels.remove(NAME_LABEL)?))).collect())
}
