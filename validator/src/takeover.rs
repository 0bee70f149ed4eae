//! A miner that proved its key and gets no session, and two sessions of one key: which one is refused or told to go, and
//! in which words.

use std::net::SocketAddr;
use std::time::Duration;

use assay_protocol::message::{RefusedCode, ValidatorMessage};
use assay_work::Nonce;

use crate::allow::NotAllowed;
use crate::refusal::refusal;

/// Why a miner that proved its key is not entered. Miners are told so in these words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnterError {
    /// As many others are here as may be.
    #[error("this validator has as many miners as it takes")]
    Full,
    /// As many others of its address are here as may be.
    #[error("this validator has {0} miners of this address, as many as it takes of one (max_address_miners)")]
    AddressFull(u32),
    /// The key begins sessions too often.
    #[error("this key begins too many sessions: the next one may come in {:.0} s", .0.as_secs_f64().ceil())]
    TooOften(Duration),
    /// A challenge of the key is under way in another session.
    #[error(
        "a challenge of this key is under way in another session, {}: where that is another miner, give each a key of its \
         own (key_file)",
        place(*.0)
    )]
    InChallenge(Option<SocketAddr>),
    /// An operator keeps the key out, or its join token is not good.
    #[error(transparent)]
    NotAllowed(NotAllowed),
    /// An operator has to approve the key: it may ask again after this time.
    #[error("{}", NotAllowed::Pending)]
    Waiting(Duration),
    /// As many keys wait for an operator as are noted.
    #[error(
        "as many keys wait for the validator's operator as it notes: ask the operator to approve this one by its whole key"
    )]
    TooManyWaiting,
    /// The records cannot be used now, and nobody is let in without them.
    #[error("the validator cannot use its records now")]
    NoRecords,
}

impl EnterError {
    /// What the miner is told.
    #[must_use]
    pub fn refusal(self) -> ValidatorMessage {
        let refused = |code| refusal(code, self.to_string());
        let later =
            |code, after| ValidatorMessage::Refused { code, detail: self.to_string(), retry_after: Some(after) };
        match self {
            Self::Full | Self::AddressFull(_) => refused(RefusedCode::Full),
            Self::InChallenge(_) => refused(RefusedCode::InChallenge),
            Self::NotAllowed(why) => refused(why.code()),
            Self::TooManyWaiting => refused(RefusedCode::Pending),
            Self::NoRecords => refused(RefusedCode::Overloaded),
            Self::TooOften(until) => later(RefusedCode::Overloaded, until),
            Self::Waiting(pause) => later(RefusedCode::Pending, pause),
        }
    }
}

/// What a session of a key is known by, and which one it goes on from. Only the miner of that session knows its nonce and
/// has the key: another miner with the same key does not go on from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resumption {
    /// The session's nonce.
    pub nonce: Option<Nonce>,
    /// That of a session that lost its connection.
    pub resumes: Option<Nonce>,
}

impl Resumption {
    /// Whether it goes on from that session, or from the one that that session goes on from: its miner may not have
    /// heard that it stood.
    #[must_use]
    pub fn goes_on_from(&self, before: &Self) -> bool {
        self.resumes.is_some() && (self.resumes == before.nonce || self.resumes == before.resumes)
    }
}

/// Why the place of a session was taken: its miner lost the connection, and came back.
#[must_use]
pub fn resumed(by: Option<SocketAddr>) -> String {
    format!("the miner lost its connection, and came back {}", place(by))
}

/// A session's address, for a sentence.
#[must_use]
pub fn place(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "from an unknown address".to_owned(), |address| format!("from {address}"))
}

/// What a session is told whose place another one of its key took.
#[must_use]
pub fn taken_over(by: Option<SocketAddr>) -> String {
    let by = place(by);
    format!(
        "another session of this key, {by}, took over: where that is another miner, give each a key of its own (key_file)"
    )
}
