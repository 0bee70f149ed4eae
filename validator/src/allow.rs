//! Which miners may connect: lists that can change while the validator runs.

use std::collections::BTreeSet;

use assay_program::utc;
use assay_protocol::successor::{Lineage, Successor};
use assay_work::PublicKey;
use tokio::sync::watch;

/// Keys of miners, by what the operator says of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// Those that may connect; empty: any.
    pub allowed: BTreeSet<PublicKey>,
    /// Those that may not, whatever else is said of them. They vouch for nobody.
    pub revoked: BTreeSet<PublicKey>,
}

/// Why a miner may not connect, or stay. Miners are told so in these words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// The key is not on the list, and follows none that is.
    #[error("this key is not on the validator's list of miners")]
    Unlisted,
    /// The key was revoked.
    #[error(
        "this key was revoked by the validator's operator: move this miner's key_file away, so that it makes a new key, \
         and have the operator allow that one"
    )]
    Revoked,
    /// The key followed one on the list, and the overlap is over.
    #[error(
        "this key followed {old_key}, which is on the validator's list of miners, until {}: have its operator put this \
         key there",
        utc::text(*until_unix_seconds)
    )]
    Ended {
        /// The key on the list.
        old_key: PublicKey,
        /// The end of the overlap.
        until_unix_seconds: u64,
    },
    /// The key that it follows was revoked.
    #[error(
        "this key follows {0}, which was revoked by the validator's operator and vouches for nobody: have the operator \
         allow this key itself"
    )]
    VoucherRevoked(PublicKey),
}

impl NotAllowed {
    /// Whether an operator wants the miner gone at once.
    #[must_use]
    pub const fn is_revocation(self) -> bool {
        matches!(self, Self::Revoked | Self::VoucherRevoked(_))
    }
}

/// A key on the list by which another one is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// The key on the list.
    pub old_key: PublicKey,
    /// Until when it vouches, in seconds since 1970.
    pub until_unix_seconds: u64,
}

impl Lists {
    /// Whether a miner may connect, or stay, at this time; and by which key, where it is not its own.
    ///
    /// # Errors
    /// [`NotAllowed`].
    pub fn check(&self, miner: &Lineage, now_unix_seconds: u64) -> Result<Option<Followed>, NotAllowed> {
        let key = miner.key();
        if self.revoked.contains(&key) {
            return Err(NotAllowed::Revoked);
        }
        if self.allowed.is_empty() || self.allowed.contains(&key) {
            return Ok(None);
        }
        let is_current = |statement: &Successor| statement.is_current(now_unix_seconds);
        let stands = |statement: &Successor| is_current(statement) && !self.revoked.contains(&statement.old_key);
        let listed = |statements: Vec<Successor>| statements.into_iter().find(|s| self.allowed.contains(&s.old_key));
        if let Some(Successor { old_key, .. }) = listed(miner.standing(stands))
            && let Some(until_unix_seconds) = miner.until(&old_key, stands)
        {
            return Ok(Some(Followed { old_key, until_unix_seconds }));
        }
        if let Some(voucher) = miner.standing(is_current).iter().find(|s| self.revoked.contains(&s.old_key)) {
            return Err(NotAllowed::VoucherRevoked(voucher.old_key));
        }
        let ended = listed(miner.standing(|_| true)).and_then(|Successor { old_key, .. }| {
            let until_unix_seconds = miner.until(&old_key, |_| true).filter(|until| *until <= now_unix_seconds)?;
            Some(NotAllowed::Ended { old_key, until_unix_seconds })
        });
        Err(ended.unwrap_or(NotAllowed::Unlisted))
    }

    /// The key with the statements by which it may be admitted. Signatures are verified only where that can matter: its
    /// sender has not proved anything yet.
    fn lineage(&self, key: PublicKey, statements: &[Successor]) -> Lineage {
        let is_known = |statement: &Successor| {
            self.allowed.contains(&statement.old_key) || self.revoked.contains(&statement.old_key)
        };
        let stands_alone = self.allowed.is_empty() || self.allowed.contains(&key) || self.revoked.contains(&key);
        if stands_alone || !statements.iter().any(is_known) {
            Lineage::alone(key)
        } else {
            Lineage::verify(key, statements)
        }
    }
}

/// The lists that are in force. Clones are the same.
#[derive(Debug, Clone)]
pub struct AllowList(watch::Sender<Lists>);

impl AllowList {
    /// These lists.
    #[must_use]
    pub fn new(lists: Lists) -> Self {
        Self(watch::Sender::new(lists))
    }

    /// Lists that admit any miner.
    #[must_use]
    pub fn any() -> Self {
        Self::new(Lists::default())
    }

    /// Whether any miner may connect that was not revoked.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.borrow().allowed.is_empty()
    }

    /// Whether a miner that says that these statements lead to its key may connect.
    ///
    /// # Errors
    /// [`NotAllowed`].
    pub fn admit(&self, key: PublicKey, statements: &[Successor], now_unix_seconds: u64) -> Result<(), NotAllowed> {
        let lists = self.0.borrow();
        lists.check(&lists.lineage(key, statements), now_unix_seconds).map(|_| ())
    }

    /// As [`Lists::check`].
    ///
    /// # Errors
    /// [`NotAllowed`].
    pub fn check(&self, miner: &Lineage, now_unix_seconds: u64) -> Result<Option<Followed>, NotAllowed> {
        self.0.borrow().check(miner, now_unix_seconds)
    }

    /// Whether a key was revoked.
    #[must_use]
    pub fn is_revoked(&self, key: &PublicKey) -> bool {
        self.0.borrow().revoked.contains(key)
    }

    /// Puts other lists in their place, and tells every session.
    pub fn replace(&self, lists: Lists) {
        self.0.send_replace(lists);
    }

    /// Hears of changes from now on.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Lists> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_protocol::identity::Identity;

    const NOW: u64 = 1_800_000_000;
    const END: u64 = NOW + 60;

    fn identity(seed: u8) -> Identity {
        Identity::from_seed(&[seed; 32])
    }

    fn key(seed: u8) -> PublicKey {
        identity(seed).public_key()
    }

    fn lists(allowed: &[u8], revoked: &[u8]) -> Lists {
        let keys = |seeds: &[u8]| seeds.iter().map(|seed| key(*seed)).collect();
        Lists { allowed: keys(allowed), revoked: keys(revoked) }
    }

    /// What a list says of a key that comes with statements of these keys, each for the next, the last for it.
    fn says(lists: &Lists, chain: &[u8], now: u64) -> Result<Option<PublicKey>, NotAllowed> {
        let statements: Vec<_> = chain.windows(2).map(|pair| identity(pair[0]).succeed(key(pair[1]), END)).collect();
        let new_key = key(*chain.last().unwrap());
        let said = lists.check(&lists.lineage(new_key, &statements), now);
        assert_eq!(AllowList::new(lists.clone()).admit(new_key, &statements, now), said.map(|_| ()));
        said.map(|followed| followed.map(|followed| followed.old_key))
    }

    #[test]
    fn an_empty_list_admits_any_miner() {
        let list = AllowList::any();
        let mut changes = list.changes();
        assert_eq!([key(1), key(2)].map(|key| list.admit(key, &[], NOW)), [Ok(()), Ok(())]);
        list.clone().replace(lists(&[1], &[]));
        assert_eq!([key(1), key(2)].map(|key| list.admit(key, &[], NOW)), [Ok(()), Err(NotAllowed::Unlisted)]);
        assert!(changes.has_changed().unwrap() && changes.borrow_and_update().allowed.len() == 1);
    }

    #[test]
    fn a_new_key_is_admitted_by_the_one_on_the_list_until_it_ends() {
        let list = lists(&[1], &[]);
        assert_eq!(says(&list, &[1, 2], NOW), Ok(Some(key(1))));
        assert_eq!(says(&list, &[1, 2, 3], NOW), Ok(Some(key(1))));
        assert_eq!(says(&list, &[4, 2], NOW), Err(NotAllowed::Unlisted));
        let ended = NotAllowed::Ended { old_key: key(1), until_unix_seconds: END };
        assert_eq!(says(&list, &[1, 2], END), Err(ended));
        assert!(ended.to_string().contains("until 2027-01-15 08:01:00 UTC"), "{ended}");
        assert_eq!(says(&lists(&[1, 2], &[]), &[1, 2], END), Ok(None), "it is on the list itself");
    }

    #[test]
    fn a_statement_of_somebody_else_admits_nobody() {
        let mut forged = identity(9).succeed(key(2), END);
        forged.old_key = key(1);
        assert_eq!(AllowList::new(lists(&[1], &[])).admit(key(2), &[forged], NOW), Err(NotAllowed::Unlisted));
        // Another key's statement is no good to whoever has seen it.
        let others = identity(1).succeed(key(2), END);
        assert_eq!(AllowList::new(lists(&[1], &[])).admit(key(3), &[others], NOW), Err(NotAllowed::Unlisted));
    }

    #[test]
    fn a_revoked_key_is_refused_and_vouches_for_nobody() {
        assert_eq!(says(&lists(&[], &[1]), &[1], NOW), Err(NotAllowed::Revoked));
        assert_eq!(says(&lists(&[1], &[1]), &[1], NOW), Err(NotAllowed::Revoked));
        for list in [lists(&[1], &[1]), lists(&[5], &[1])] {
            assert_eq!(says(&list, &[1, 2], NOW), Err(NotAllowed::VoucherRevoked(key(1))));
        }
        assert_eq!(says(&lists(&[1], &[2]), &[1, 2, 3], NOW), Err(NotAllowed::VoucherRevoked(key(2))), "in between");
        // What the operator put on the list counts by itself, and so does an open door.
        assert_eq!(says(&lists(&[2], &[1]), &[1, 2], NOW), Ok(None));
        assert_eq!(says(&lists(&[], &[1]), &[1, 2], NOW), Ok(None));
    }
}
