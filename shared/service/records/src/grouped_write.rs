//! Writes that can share a transaction.

use crate::{ChallengeStart, Conclusion};

/// One of those that share it.
#[derive(Debug)]
pub(crate) enum GroupedWrite {
    Begin(Box<ChallengeStart>),
    Conclude(Box<Conclusion>),
}
