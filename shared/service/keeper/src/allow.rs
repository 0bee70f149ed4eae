//! Admission of miners: lists that can change while the validator runs.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use assay_judge::session::Access;
use assay_program::utc;
use assay_protocol::message::RefusedCode;
use assay_protocol::successor::{Lineage, Successor};
use assay_records::{Approval, KeyDecision, TokenRefusal};
use assay_work::PublicKey;
use clap::ValueEnum;
use tokio::sync::watch;

/// Admission of keys without a decision.
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

/// Operators' decisions about keys, as recorded: no key that is pending.
pub type KeyDecisions = HashMap<PublicKey, KeyDecision>;

/// Miners' keys, by the operator's settings and decisions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// Keys that may connect; empty: any, as far as `enrolment` admits them.
    pub allowed: BTreeSet<PublicKey>,
    /// Keys that may not connect, regardless of all other decisions. They vouch for no other key.
    pub revoked: BTreeSet<PublicKey>,
    /// Admission of other keys.
    pub enrolment: Enrolment,
    /// Decisions in the records.
    pub decided: Arc<KeyDecisions>,
}

assay_work::names! {
    /// Reason to admit a key, or to refuse it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AdmissionReason {
        /// Any key is admitted.
        Open = "open",
        /// It is in allowed_miners.
        Listed = "listed",
        /// Approved in the records: by an operator, or with a join token.
        Approved = "approved",
        /// Not admitted, with the status [`Approval::Pending`].
        Pending = "pending",
        /// Not admitted: a newer key of its miner has its approval.
        Superseded = "superseded",
        Suspended = "suspended",
        /// Revoked by an operator, in the settings or in the records.
        Revoked = "revoked",
    }
}

/// Reason why a miner may not connect, or stay. Miners receive these words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// The key is not on the list, and follows none of its keys.
    #[error("this key is not on the validator's list of miners")]
    Unlisted,
    #[error(
        "this key was revoked by the validator's operator: move this miner's key_file away, so that it makes a new key, \
         and have the operator allow that one"
    )]
    Revoked,
    /// The key followed one on the list, and the overlap is over.
    #[error(
        "this key followed {}, which the validator's operator had let in, until {}: have the operator approve this one \
         (`assay-validator approve`) or put it on the list",
        .0.old_key,
        utc::text(.0.until_unix_seconds)
    )]
    Ended(FollowedKey),
    /// The approval is of a newer key.
    #[error(
        "this miner was approved and has connected with a newer key, which counts alone since then: use that one, or have \
         the operator put this one on the list (allowed_miners). If the newer key is not yours, this one was stolen"
    )]
    Superseded,
    /// The key that it follows was revoked.
    #[error(
        "this key follows {0}, which was revoked by the validator's operator and vouches for nobody: have the operator \
         allow this key itself"
    )]
    VoucherRevoked(PublicKey),
    /// The key was suspended, or one that it follows.
    #[error("this key was suspended by the validator's operator, who can resume it")]
    Suspended,
    /// The miner has had as many keys as the records keep.
    #[error("this miner has had {0} keys, as many as its validator keeps: make a key that follows none (key_file)")]
    TooManyKeys(i64),
    /// No operator has decided about the key.
    #[error("this key waits for the validator's operator, who approves it with `assay-validator approve`")]
    Pending,
    /// A join token is required.
    #[error(
        "this validator takes new miners by join token: get one from its operator (`assay-validator enroll`), and give \
         it as join_token_file or {}",
        "ASSAY_MINER_JOIN_TOKEN"
    )]
    TokenNeeded,
    /// The token is invalid.
    #[error(transparent)]
    Token(TokenRefusal),
    /// The token may have been read by others.
    #[error(
        "the join token came in plaintext from another machine, where others can read it: use TLS, and a new token"
    )]
    TokenInClear,
}

impl AdmissionError {
    /// Whether the miner's session must end at once.
    pub const fn is_revocation(self) -> bool {
        matches!(self, Self::Revoked | Self::VoucherRevoked(_) | Self::Suspended)
    }

    /// The sentence for a miner whose session ends for this reason.
    pub fn dismissal(self) -> String {
        match self {
            Self::Unlisted => "this key is no longer on the validator's list of miners".to_owned(),
            why => why.to_string(),
        }
    }

    /// The code of the refusal.
    pub const fn code(self) -> RefusedCode {
        match self {
            Self::Unlisted
            | Self::Revoked
            | Self::Ended(_)
            | Self::Superseded
            | Self::VoucherRevoked(_)
            | Self::TooManyKeys(_) => RefusedCode::NotAllowed,
            Self::Suspended => RefusedCode::Suspended,
            Self::Pending => RefusedCode::Pending,
            Self::TokenNeeded | Self::Token(_) | Self::TokenInClear => RefusedCode::JoinToken,
        }
    }
}

impl Access for AllowList {
    /// A key that waits for an operator is recorded later, and a token is consumed later. The newest key of a miner may
    /// have been another one a moment ago.
    fn check(&self, miner: &Lineage, has_token: bool, now_unix_seconds: u64) -> Result<(), (RefusedCode, String)> {
        match Self::check(self, miner, now_unix_seconds) {
            Ok(_) | Err(AdmissionError::Pending | AdmissionError::Superseded) => Ok(()),
            Err(AdmissionError::TokenNeeded) if has_token => Ok(()),
            Err(why) => Err((why.code(), why.to_string())),
        }
    }
}

/// A listed key that vouches for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowedKey {
    pub old_key: PublicKey,
    /// End of the overlap, in seconds since 1970.
    pub until_unix_seconds: u64,
}

impl Lists {
    /// Checks whether a miner may connect, or stay, at this time; returns the key that vouches for it, if it is not its
    /// own.
    pub fn check(&self, miner: &Lineage, now_unix_seconds: u64) -> Result<Option<FollowedKey>, AdmissionError> {
        match self.admitted(&miner.key()) {
            AdmissionReason::Open | AdmissionReason::Listed | AdmissionReason::Approved => return Ok(None),
            AdmissionReason::Revoked => return Err(AdmissionError::Revoked),
            AdmissionReason::Suspended => return Err(AdmissionError::Suspended),
            AdmissionReason::Superseded => return Err(AdmissionError::Superseded),
            AdmissionReason::Pending => {}
        }
        let is_current = |statement: &Successor| statement.is_current(now_unix_seconds);
        let is_over = |s: &Successor| self.admitted(&s.old_key) == AdmissionReason::Superseded;
        let stands = |s: &Successor| is_current(s) && !is_over(s) && !self.is_barred(&s.old_key);
        let listed = |statements: Vec<Successor>| statements.into_iter().find(|s| self.is_listed(&s.old_key));
        if let Some(Successor { old_key, .. }) = listed(miner.standing(stands))
            && let Some(until_unix_seconds) = miner.until(&old_key, stands)
        {
            return Ok(Some(FollowedKey { old_key, until_unix_seconds }));
        }
        if let Some(voucher) = miner.standing(is_current).iter().find(|s| self.is_barred(&s.old_key)) {
            let is_revoked = self.admitted(&voucher.old_key) == AdmissionReason::Revoked;
            let revoked = AdmissionError::VoucherRevoked(voucher.old_key);
            return Err(if is_revoked { revoked } else { AdmissionError::Suspended });
        }
        let ended = listed(miner.standing(|_| true)).and_then(|Successor { old_key, .. }| {
            let until_unix_seconds = miner.until(&old_key, |_| true).filter(|until| *until <= now_unix_seconds)?;
            Some(AdmissionError::Ended(FollowedKey { old_key, until_unix_seconds }))
        });
        Err(ended.unwrap_or(match self.enrolment {
            Enrolment::Open => AdmissionError::Unlisted,
            Enrolment::Approve => AdmissionError::Pending,
            Enrolment::Token => AdmissionError::TokenNeeded,
        }))
    }

    /// Admission of a key on its own, or the reason to refuse it.
    pub fn admitted(&self, key: &PublicKey) -> AdmissionReason {
        match self.decided.get(key).map(|decided| decided.status) {
            _ if self.revoked.contains(key) => AdmissionReason::Revoked,
            Some(Approval::Revoked) => AdmissionReason::Revoked,
            Some(Approval::Suspended) => AdmissionReason::Suspended,
            _ if self.allowed.contains(key) => AdmissionReason::Listed,
            _ if self.is_open() => AdmissionReason::Open,
            // With a list and open enrolment, the list alone decides.
            _ if self.enrolment == Enrolment::Open => AdmissionReason::Pending,
            Some(Approval::Approved) if self.is_superseded(key) => AdmissionReason::Superseded,
            Some(Approval::Approved) => AdmissionReason::Approved,
            Some(Approval::Pending) | None => AdmissionReason::Pending,
        }
    }

    /// Whether any miner may connect that was not revoked or suspended.
    pub fn is_open(&self) -> bool {
        self.enrolment == Enrolment::Open && self.allowed.is_empty()
    }

    fn is_listed(&self, key: &PublicKey) -> bool {
        matches!(self.admitted(key), AdmissionReason::Listed | AdmissionReason::Approved)
    }

    /// Whether an operator keeps the key out.
    fn is_barred(&self, key: &PublicKey) -> bool {
        matches!(self.admitted(key), AdmissionReason::Revoked | AdmissionReason::Suspended)
    }

    /// Whether the records have the miner of this key as approved, with a newer key.
    fn is_superseded(&self, key: &PublicKey) -> bool {
        self.decided.get(key).is_some_and(|it| it.status == Approval::Approved && it.is_superseded)
    }

    /// Whether another key can become this one's miner under every enrolment. The list can name one that is superseded.
    fn vouches(&self, key: &PublicKey) -> bool {
        !self.is_barred(key) && (!self.is_superseded(key) || self.allowed.contains(key))
    }

    /// The keys of a miner, oldest first, with its own as the last. One that is superseded joins no others.
    pub fn chain(&self, miner: &Lineage, now_unix_seconds: u64) -> Vec<PublicKey> {
        let own = miner.key();
        let stands = |s: &Successor| s.is_current(now_unix_seconds) && self.vouches(&s.old_key);
        let older = if self.vouches(&own) { miner.standing(stands) } else { Vec::new() };
        older.iter().rev().map(|statement| statement.old_key).chain([own]).collect()
    }

    /// Whether the records have the miner of this key as approved, with this key as its newest.
    pub fn is_newest_approved(&self, key: &PublicKey) -> bool {
        self.decided.get(key).is_some_and(|it| it.status == Approval::Approved && !it.is_superseded)
    }

    /// Whether an operator admitted this very key: no older one, and none that it follows.
    pub fn recognises(&self, key: &PublicKey) -> bool {
        self.is_listed(key) || self.is_newest_approved(key)
    }

    /// Whether the records have a miner as approved, by its own key or by one that it follows now, whether approval is
    /// required or not.
    pub fn is_approved(&self, miner: &Lineage, now_unix_seconds: u64) -> bool {
        self.chain(miner, now_unix_seconds).iter().any(|key| self.is_newest_approved(key))
    }
}

/// The lists in force; by default they admit any miner. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct AllowList(watch::Sender<Lists>);

impl AllowList {
    pub fn new(lists: Lists) -> Self {
        Self(watch::Sender::new(lists))
    }

    /// Those of now, which do not change while they are borrowed.
    pub fn lists(&self) -> watch::Ref<'_, Lists> {
        self.0.borrow()
    }

    /// As [`Lists::admitted`].
    pub fn admitted(&self, key: &PublicKey) -> AdmissionReason {
        self.0.borrow().admitted(key)
    }

    /// As [`Lists::check`].
    pub fn check(&self, miner: &Lineage, now_unix_seconds: u64) -> Result<Option<FollowedKey>, AdmissionError> {
        self.0.borrow().check(miner, now_unix_seconds)
    }

    /// Replaces the settings, and notifies every session. Decisions in the records stay.
    pub fn replace(&self, lists: Lists) {
        self.0.send_modify(|current| *current = Lists { decided: current.decided.clone(), ..lists });
    }

    /// Replaces the decisions, and notifies every session of a difference.
    pub fn decide(&self, decided: KeyDecisions) {
        self.0.send_if_modified(|current| {
            let differs = *current.decided != decided;
            current.decided = Arc::new(decided);
            differs
        });
    }

    /// Subscribes to changes.
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

    /// Checks a key with a chain of statements: each key's for the next, the last key's for this one.
    fn says(lists: &Lists, chain: &[u8], now: u64) -> Result<Option<PublicKey>, AdmissionError> {
        let statements: Vec<_> = chain.windows(2).map(|pair| identity(pair[0]).succeed(key(pair[1]), END)).collect();
        let new_key = key(*chain.last().unwrap());
        let said = lists.check(&Lineage::verify(new_key, &statements), now);
        said.map(|followed| followed.map(|followed| followed.old_key))
    }

    /// Checks a key with these statements.
    fn admits(list: &AllowList, key: PublicKey, statements: &[Successor]) -> Result<(), AdmissionError> {
        list.check(&Lineage::verify(key, statements), NOW).map(|_| ())
    }

    #[test]
    fn an_empty_list_admits_any_miner() {
        let list = AllowList::default();
        let mut changes = list.changes();
        assert_eq!([key(1), key(2)].map(|key| admits(&list, key, &[])), [Ok(()), Ok(())]);
        list.clone().replace(lists(&[1], &[]));
        assert_eq!([key(1), key(2)].map(|key| admits(&list, key, &[])), [Ok(()), Err(AdmissionError::Unlisted)]);
        assert!(changes.has_changed().unwrap() && changes.borrow_and_update().allowed.len() == 1);
    }

    #[test]
    fn a_new_key_is_admitted_by_the_one_on_the_list_until_it_ends() {
        let list = lists(&[1], &[]);
        assert_eq!(says(&list, &[1, 2], NOW), Ok(Some(key(1))));
        assert_eq!(says(&list, &[1, 2, 3], NOW), Ok(Some(key(1))));
        assert_eq!(says(&list, &[4, 2], NOW), Err(AdmissionError::Unlisted));
        let ended = AdmissionError::Ended(FollowedKey { old_key: key(1), until_unix_seconds: END });
        assert_eq!(says(&list, &[1, 2], END), Err(ended));
        assert!(ended.to_string().contains("until 2027-01-15 08:01:00 UTC"), "{ended}");
        assert_eq!(says(&lists(&[1, 2], &[]), &[1, 2], END), Ok(None), "it is on the list itself");
    }

    #[test]
    fn a_statement_of_somebody_else_admits_nobody() {
        let mut forged = identity(9).succeed(key(2), END);
        forged.old_key = key(1);
        assert_eq!(admits(&AllowList::new(lists(&[1], &[])), key(2), &[forged]), Err(AdmissionError::Unlisted));
        // A copied statement of another key admits no other.
        let others = identity(1).succeed(key(2), END);
        assert_eq!(admits(&AllowList::new(lists(&[1], &[])), key(3), &[others]), Err(AdmissionError::Unlisted));
    }

    #[test]
    fn a_revoked_key_is_refused_and_vouches_for_nobody() {
        assert_eq!(says(&lists(&[], &[1]), &[1], NOW), Err(AdmissionError::Revoked));
        assert_eq!(says(&lists(&[1], &[1]), &[1], NOW), Err(AdmissionError::Revoked));
        for list in [lists(&[1], &[1]), lists(&[5], &[1])] {
            assert_eq!(says(&list, &[1, 2], NOW), Err(AdmissionError::VoucherRevoked(key(1))));
        }
        assert_eq!(
            says(&lists(&[1], &[2]), &[1, 2, 3], NOW),
            Err(AdmissionError::VoucherRevoked(key(2))),
            "in between"
        );
        // A key that the operator listed counts on its own, and so does open admission.
        assert_eq!(says(&lists(&[2], &[1]), &[1, 2], NOW), Ok(None));
        assert_eq!(says(&lists(&[], &[1]), &[1, 2], NOW), Ok(None));
    }

    fn decision(seed: u8, status: Approval) -> (PublicKey, KeyDecision) {
        (key(seed), KeyDecision { status, is_superseded: false })
    }

    fn enrolled(enrolment: Enrolment, decided: &[(u8, Approval)]) -> Lists {
        let decided = decided.iter().map(|(seed, status)| decision(*seed, *status)).collect();
        Lists { enrolment, decided: Arc::new(decided), ..Lists::default() }
    }

    #[test]
    fn a_key_that_nobody_decided_about_waits_or_takes_a_token() {
        let decided = [(1, Approval::Approved), (2, Approval::Suspended), (3, Approval::Revoked)];
        for (enrolment, unknown) in [
            (Enrolment::Open, Ok(None)),
            (Enrolment::Approve, Err(AdmissionError::Pending)),
            (Enrolment::Token, Err(AdmissionError::TokenNeeded)),
        ] {
            let list = enrolled(enrolment, &decided);
            assert_eq!(says(&list, &[1], NOW), Ok(None));
            assert_eq!(says(&list, &[2], NOW), Err(AdmissionError::Suspended));
            assert_eq!(says(&list, &[3], NOW), Err(AdmissionError::Revoked));
            assert_eq!(says(&list, &[4], NOW), unknown);
        }
    }

    #[test]
    fn a_key_follows_an_approved_one_and_no_suspended_one() {
        let list = enrolled(Enrolment::Token, &[(1, Approval::Approved), (2, Approval::Suspended)]);
        assert_eq!(says(&list, &[1, 5], NOW), Ok(Some(key(1))));
        assert!(matches!(says(&list, &[1, 5], END), Err(AdmissionError::Ended(_))));
        assert_eq!(says(&list, &[2, 5], NOW), Err(AdmissionError::Suspended));
        assert_eq!(says(&list, &[1, 2, 5], NOW), Err(AdmissionError::Suspended), "in between");
        assert_eq!(says(&list, &[6, 5], NOW), Err(AdmissionError::TokenNeeded));
    }

    #[test]
    fn a_miner_is_approved_by_its_key_or_one_that_it_follows() {
        for enrolment in [Enrolment::Open, Enrolment::Approve, Enrolment::Token] {
            let list = enrolled(enrolment, &[(1, Approval::Approved), (2, Approval::Suspended)]);
            let follows = |old: u8| Lineage::verify(key(5), &[identity(old).succeed(key(5), END)]);
            let cases = [Lineage::alone(key(1)), Lineage::alone(key(5)), follows(1), follows(2), follows(3)];
            assert_eq!(cases.map(|miner| list.is_approved(&miner, NOW)), [true, false, true, false, false]);
            assert!(!list.is_approved(&follows(1), END), "the statement is over");
        }
    }

    /// Regression test: a key that had leaked before its miner changed it was admitted for ever, and so were others that
    /// it signed for.
    #[test]
    fn an_approval_is_of_the_newest_key_alone() {
        let superseded = |enrolment, allowed: &[u8]| {
            let mut decided: KeyDecisions = [1, 2].map(|seed| decision(seed, Approval::Approved)).into();
            decided.get_mut(&key(1)).unwrap().is_superseded = true;
            Lists { enrolment, decided: Arc::new(decided), ..lists(allowed, &[]) }
        };
        for (enrolment, unknown) in
            [(Enrolment::Approve, AdmissionError::Pending), (Enrolment::Token, AdmissionError::TokenNeeded)]
        {
            let list = superseded(enrolment, &[]);
            assert_eq!(says(&list, &[1], NOW), Err(AdmissionError::Superseded));
            assert_eq!(says(&list, &[1, 3], NOW), Err(unknown), "signed by the old key");
            assert_eq!(says(&list, &[1, 2], NOW), Ok(None));
            assert_eq!(says(&list, &[1, 2, 3], NOW), Ok(Some(key(2))));
            assert_eq!(says(&superseded(enrolment, &[1]), &[1], NOW), Ok(None), "the list names it");
            assert!(!list.recognises(&key(1)) && list.recognises(&key(2)));
            let follows = Lineage::verify(key(3), &[identity(1).succeed(key(3), END)]);
            assert!(!list.is_approved(&follows, NOW), "its token counts");
        }
        let open = superseded(Enrolment::Open, &[]);
        assert_eq!([&[1][..], &[1, 3]].map(|chain| says(&open, chain, NOW)), [Ok(None), Ok(None)]);
        assert!(!open.recognises(&key(1)));
        // Its holder makes no key of its own the miner's, nor this one the newest again.
        for (chain, keys) in [(&[1, 3][..], &[3][..]), (&[4, 1], &[1]), (&[2, 3], &[2, 3]), (&[1, 2], &[2])] {
            let statements: Vec<_> =
                chain.windows(2).map(|pair| identity(pair[0]).succeed(key(pair[1]), END)).collect();
            let miner = Lineage::verify(key(*chain.last().unwrap()), &statements);
            assert_eq!(open.chain(&miner, NOW), keys.iter().map(|seed| key(*seed)).collect::<Vec<_>>());
            assert_eq!(superseded(Enrolment::Token, &[]).chain(&miner, NOW), open.chain(&miner, NOW));
        }
        let listed = Lineage::verify(key(3), &[identity(1).succeed(key(3), END)]);
        assert_eq!(superseded(Enrolment::Token, &[1]).chain(&listed, NOW), [key(1), key(3)]);
        // A list alone admits by it.
        assert_eq!(says(&superseded(Enrolment::Open, &[4]), &[4, 1, 3], NOW), Ok(Some(key(4))));
    }

    #[test]
    fn a_list_of_keys_goes_with_every_enrolment() {
        let approved = [(2, Approval::Approved), (3, Approval::Suspended)];
        let listed = |enrolment| Lists { allowed: [key(1), key(3)].into(), ..enrolled(enrolment, &approved) };
        for enrolment in [Enrolment::Open, Enrolment::Approve, Enrolment::Token] {
            assert_eq!(says(&listed(enrolment), &[1], NOW), Ok(None));
            assert_eq!(says(&listed(enrolment), &[3], NOW), Err(AdmissionError::Suspended), "whatever the list says");
        }
        assert_eq!(says(&listed(Enrolment::Open), &[2], NOW), Err(AdmissionError::Unlisted), "the list alone decides");
        assert_eq!(says(&listed(Enrolment::Approve), &[2], NOW), Ok(None));
        assert_eq!(listed(Enrolment::Token).admitted(&key(1)).name(), "listed");
    }

    #[test]
    fn settings_and_records_change_apart() {
        let list = AllowList::new(enrolled(Enrolment::Token, &[]));
        let mut changes = list.changes();
        list.decide([decision(1, Approval::Approved)].into());
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        list.decide([decision(1, Approval::Approved)].into());
        assert!(!changes.has_changed().unwrap(), "nothing differs");
        list.replace(lists(&[2], &[]));
        list.replace(Lists { enrolment: Enrolment::Approve, ..Lists::default() });
        assert_eq!(admits(&list, key(1), &[]), Ok(()), "what the records say stays");
        assert_eq!(admits(&list, key(2), &[]), Err(AdmissionError::Pending));
    }
}
