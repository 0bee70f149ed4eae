//! Which miners may connect: a list that can change while the validator runs.

use std::collections::BTreeSet;

use assay_work::PublicKey;
use tokio::sync::watch;

/// The keys of the miners that may connect. Clones are the same list.
#[derive(Debug, Clone)]
pub struct AllowList(watch::Sender<BTreeSet<PublicKey>>);

impl AllowList {
    /// A list; an empty one admits any miner.
    #[must_use]
    pub fn new(keys: BTreeSet<PublicKey>) -> Self {
        Self(watch::Sender::new(keys))
    }

    /// A list that admits any miner.
    #[must_use]
    pub fn any() -> Self {
        Self::new(BTreeSet::new())
    }

    /// Whether any miner may connect.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Whether a miner may connect, or stay.
    #[must_use]
    pub fn allows(&self, key: &PublicKey) -> bool {
        let keys = self.0.borrow();
        keys.is_empty() || keys.contains(key)
    }

    /// Puts another list in its place, and tells every session.
    pub fn replace(&self, keys: BTreeSet<PublicKey>) {
        self.0.send_replace(keys);
    }

    /// Hears of changes from now on.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<BTreeSet<PublicKey>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_admits_any_miner() {
        let (listed, other) = (PublicKey([1; 32]), PublicKey([2; 32]));
        let list = AllowList::any();
        let mut changes = list.changes();
        assert!(list.allows(&listed) && list.allows(&other));
        list.clone().replace(BTreeSet::from([listed]));
        assert!(list.allows(&listed) && !list.allows(&other));
        assert!(changes.has_changed().unwrap() && changes.borrow_and_update().len() == 1);
    }
}
