//! Which miners may connect: lists that can change while the validator runs.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use assay_program::utc;
use assay_protocol::message::RefusedCode;
use assay_protocol::successor::{Lineage, Successor};
use assay_records::{Status, TokenRefusal};
use assay_work::PublicKey;
use clap::ValueEnum;
use tokio::sync::watch;

/// How keys are let in that nobody has decided about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Enrolment {
    /// All of them, or those in allowed_miners where that is set.
    #[default]
    Open,
    /// Once `assay-validator approve` has let them in.
    Approve,
    /// With a join token of `assay-validator enroll`.
    Token,
}

/// What operators decided about keys, as the records have it: no key that is pending.
pub type Decided = HashMap<PublicKey, Status>;

/// Keys of miners, by what the operator says of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// Those that may connect; empty: any, as far as `enrolment` lets them in.
    pub allowed: BTreeSet<PublicKey>,
    /// Those that may not, whatever else is said of them. They vouch for nobody.
    pub revoked: BTreeSet<PublicKey>,
    /// How others are let in.
    pub enrolment: Enrolment,
    /// What the records say.
    pub decided: Arc<Decided>,
}

/// By what a key is let in, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admitted {
    /// Any key is.
    Open,
    /// It is in allowed_miners.
    Listed,
    /// The records say so: an operator, or a join token.
    Approved,
    /// It is not, and has the status [`Status::Pending`].
    Pending,
    /// An operator suspended it.
    Suspended,
    /// An operator revoked it, in the settings or in the records.
    Revoked,
}

impl Admitted {
    /// Its name, for people and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Listed => "listed",
            Self::Approved => "approved",
            Self::Pending => "pending",
            Self::Suspended => "suspended",
            Self::Revoked => "revoked",
        }
    }
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
    /// The key was suspended, or one that it follows.
    #[error("this key was suspended by the validator's operator, who can resume it")]
    Suspended,
    /// Nobody has decided about the key.
    #[error("this key waits for the validator's operator, who approves it with `assay-validator approve`")]
    Pending,
    /// A token is asked for.
    #[error(
        "this validator takes new miners by join token: get one from its operator (`assay-validator enroll`), and give \
         it as join_token_file or {}",
        "ASSAY_MINER_JOIN_TOKEN"
    )]
    TokenNeeded,
    /// The token is not good.
    #[error(transparent)]
    Token(TokenRefusal),
    /// Others may have read the token.
    #[error(
        "the join token came in plaintext from another machine, where others can read it: use TLS, and a new token"
    )]
    TokenInClear,
}

impl NotAllowed {
    /// Whether an operator wants the miner gone at once.
    #[must_use]
    pub const fn is_revocation(self) -> bool {
        matches!(self, Self::Revoked | Self::VoucherRevoked(_) | Self::Suspended)
    }

    /// With which code a miner is refused for it.
    #[must_use]
    pub const fn code(self) -> RefusedCode {
        match self {
            Self::Unlisted | Self::Revoked | Self::Ended { .. } | Self::VoucherRevoked(_) => RefusedCode::NotAllowed,
            Self::Suspended => RefusedCode::Suspended,
            Self::Pending => RefusedCode::Pending,
            Self::TokenNeeded | Self::Token(_) | Self::TokenInClear => RefusedCode::JoinToken,
        }
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
        match self.admitted(&miner.key()) {
            Admitted::Open | Admitted::Listed | Admitted::Approved => return Ok(None),
            Admitted::Revoked => return Err(NotAllowed::Revoked),
            Admitted::Suspended => return Err(NotAllowed::Suspended),
            Admitted::Pending => {}
        }
        let is_current = |statement: &Successor| statement.is_current(now_unix_seconds);
        let stands = |statement: &Successor| is_current(statement) && !self.is_barred(&statement.old_key);
        let listed = |statements: Vec<Successor>| statements.into_iter().find(|s| self.is_listed(&s.old_key));
        if let Some(Successor { old_key, .. }) = listed(miner.standing(stands))
            && let Some(until_unix_seconds) = miner.until(&old_key, stands)
        {
            return Ok(Some(Followed { old_key, until_unix_seconds }));
        }
        if let Some(voucher) = miner.standing(is_current).iter().find(|s| self.is_barred(&s.old_key)) {
            let is_revoked = self.admitted(&voucher.old_key) == Admitted::Revoked;
            let revoked = NotAllowed::VoucherRevoked(voucher.old_key);
            return Err(if is_revoked { revoked } else { NotAllowed::Suspended });
        }
        let ended = listed(miner.standing(|_| true)).and_then(|Successor { old_key, .. }| {
            let until_unix_seconds = miner.until(&old_key, |_| true).filter(|until| *until <= now_unix_seconds)?;
            Some(NotAllowed::Ended { old_key, until_unix_seconds })
        });
        Err(ended.unwrap_or(match self.enrolment {
            Enrolment::Open => NotAllowed::Unlisted,
            Enrolment::Approve => NotAllowed::Pending,
            Enrolment::Token => NotAllowed::TokenNeeded,
        }))
    }

    /// By what a key is let in by itself, or why it is not.
    #[must_use]
    pub fn admitted(&self, key: &PublicKey) -> Admitted {
        match self.decided.get(key) {
            _ if self.revoked.contains(key) => Admitted::Revoked,
            Some(Status::Revoked) => Admitted::Revoked,
            Some(Status::Suspended) => Admitted::Suspended,
            _ if self.allowed.contains(key) => Admitted::Listed,
            _ if self.is_open() => Admitted::Open,
            // With a list and nothing else, the list decides.
            Some(Status::Approved) if self.enrolment != Enrolment::Open => Admitted::Approved,
            _ => Admitted::Pending,
        }
    }

    /// Whether any miner may connect that was not revoked or suspended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.enrolment == Enrolment::Open && self.allowed.is_empty()
    }

    /// Whether an operator named the key.
    fn is_listed(&self, key: &PublicKey) -> bool {
        matches!(self.admitted(key), Admitted::Listed | Admitted::Approved)
    }

    /// Whether an operator keeps the key out. It vouches for nobody.
    fn is_barred(&self, key: &PublicKey) -> bool {
        matches!(self.admitted(key), Admitted::Revoked | Admitted::Suspended)
    }

    /// The key with the statements by which it may be admitted. Signatures are verified only where that can matter: its
    /// sender has not proved anything yet.
    fn lineage(&self, key: PublicKey, statements: &[Successor]) -> Lineage {
        let is_known = |statement: &Successor| self.is_listed(&statement.old_key) || self.is_barred(&statement.old_key);
        let stands_alone = self.admitted(&key) != Admitted::Pending;
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

    /// As [`Lists::is_open`].
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.borrow().is_open()
    }

    /// How miners are let in that nobody has decided about.
    #[must_use]
    pub fn enrolment(&self) -> Enrolment {
        self.0.borrow().enrolment
    }

    /// As [`Lists::admitted`].
    #[must_use]
    pub fn admitted(&self, key: &PublicKey) -> Admitted {
        self.0.borrow().admitted(key)
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

    /// Whether the records have a key as approved, whether that is asked for or not.
    #[must_use]
    pub fn is_approved(&self, key: &PublicKey) -> bool {
        self.0.borrow().decided.get(key) == Some(&Status::Approved)
    }

    /// Whether a key was revoked or suspended.
    #[must_use]
    pub fn is_barred(&self, key: &PublicKey) -> bool {
        self.0.borrow().is_barred(key)
    }

    /// Puts other settings in place, and tells every session. What the records say stays.
    pub fn replace(&self, lists: Lists) {
        self.0.send_modify(|current| *current = Lists { decided: current.decided.clone(), ..lists });
    }

    /// Puts what the records say in place, and tells every session where it differs.
    pub fn decide(&self, decided: Decided) {
        self.0.send_if_modified(|current| {
            let differs = *current.decided != decided;
            current.decided = Arc::new(decided);
            differs
        });
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
        Lists { allowed: keys(allowed), revoked: keys(revoked), ..Lists::default() }
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

    fn enrolled(enrolment: Enrolment, decided: &[(u8, Status)]) -> Lists {
        let decided = decided.iter().map(|(seed, status)| (key(*seed), *status)).collect();
        Lists { enrolment, decided: Arc::new(decided), ..Lists::default() }
    }

    #[test]
    fn a_key_that_nobody_decided_about_waits_or_takes_a_token() {
        let decided = [(1, Status::Approved), (2, Status::Suspended), (3, Status::Revoked)];
        for (enrolment, unknown) in [
            (Enrolment::Open, Ok(None)),
            (Enrolment::Approve, Err(NotAllowed::Pending)),
            (Enrolment::Token, Err(NotAllowed::TokenNeeded)),
        ] {
            let list = enrolled(enrolment, &decided);
            assert_eq!(says(&list, &[1], NOW), Ok(None));
            assert_eq!(says(&list, &[2], NOW), Err(NotAllowed::Suspended));
            assert_eq!(says(&list, &[3], NOW), Err(NotAllowed::Revoked));
            assert_eq!(says(&list, &[4], NOW), unknown);
        }
    }

    #[test]
    fn a_key_follows_an_approved_one_and_no_suspended_one() {
        let list = enrolled(Enrolment::Token, &[(1, Status::Approved), (2, Status::Suspended)]);
        assert_eq!(says(&list, &[1, 5], NOW), Ok(Some(key(1))));
        assert!(matches!(says(&list, &[1, 5], END), Err(NotAllowed::Ended { .. })));
        assert_eq!(says(&list, &[2, 5], NOW), Err(NotAllowed::Suspended));
        assert_eq!(says(&list, &[1, 2, 5], NOW), Err(NotAllowed::Suspended), "in between");
        assert_eq!(says(&list, &[6, 5], NOW), Err(NotAllowed::TokenNeeded));
    }

    #[test]
    fn a_list_of_keys_goes_with_every_enrolment() {
        let approved = [(2, Status::Approved), (3, Status::Suspended)];
        let listed = |enrolment| Lists { allowed: [key(1), key(3)].into(), ..enrolled(enrolment, &approved) };
        for enrolment in [Enrolment::Open, Enrolment::Approve, Enrolment::Token] {
            assert_eq!(says(&listed(enrolment), &[1], NOW), Ok(None));
            assert_eq!(says(&listed(enrolment), &[3], NOW), Err(NotAllowed::Suspended), "whatever the list says");
        }
        assert_eq!(says(&listed(Enrolment::Open), &[2], NOW), Err(NotAllowed::Unlisted), "the list alone decides");
        assert_eq!(says(&listed(Enrolment::Approve), &[2], NOW), Ok(None));
        assert_eq!(listed(Enrolment::Token).admitted(&key(1)).name(), "listed");
    }

    #[test]
    fn settings_and_records_change_apart() {
        let list = AllowList::new(enrolled(Enrolment::Token, &[]));
        let mut changes = list.changes();
        list.decide([(key(1), Status::Approved)].into());
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        list.decide([(key(1), Status::Approved)].into());
        assert!(!changes.has_changed().unwrap(), "nothing differs");
        list.replace(lists(&[2], &[]));
        list.replace(Lists { enrolment: Enrolment::Approve, ..Lists::default() });
        assert_eq!(list.admit(key(1), &[], NOW), Ok(()), "what the records say stays");
        assert_eq!(list.admit(key(2), &[], NOW), Err(NotAllowed::Pending));
    }
}
