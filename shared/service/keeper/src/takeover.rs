//! Refusals of miners that proved their key, and conflicts of two sessions of one key, with their sentences.

use std::net::SocketAddr;
use std::time::Duration;

use assay_program::render::units::counted;
use assay_protocol::message::{RefusedCode, ValidatorMessage};
use assay_work::Nonce;

use crate::allow::AdmissionError;
use assay_judge::refusal::refusal;

/// Reasons not to enter a miner that proved its key. Miners receive these words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnterError {
    /// The limit of miners is reached.
    #[error("this validator has as many miners as it takes")]
    Full,
    /// As many others of its address are here as may be.
    #[error(
        "this validator has {} of this address, as many as it takes of one (max_address_miners)",
        counted((*.0).into(), "miner")
    )]
    AddressFull(u32),
    #[error("this key begins too many sessions: the next one may come in {:.0} s", .0.as_secs_f64().ceil())]
    TooOften(Duration),
    /// A challenge of the key is under way in another session.
    #[error(
        "a challenge of this key is under way in another session, {}: where that is another miner, give each a key of its \
         own (key_file)",
        place(*.0)
    )]
    InChallenge(Option<SocketAddr>),
    /// An operator excludes the key, or its join token is invalid.
    #[error(transparent)]
    NotAllowed(AdmissionError),
    /// An operator must approve the key: it may ask again after this time.
    #[error("{}", AdmissionError::Pending)]
    Waiting(Duration),
    /// The limit of recorded waiting keys is reached.
    #[error(
        "as many keys wait for the validator's operator as it notes: ask the operator to approve this one by its whole key"
    )]
    TooManyWaiting,
    /// The records cannot be used now, and are required for admission.
    #[error("the validator cannot use its records now")]
    NoRecords,
}

impl EnterError {
    /// The refusal for the miner.
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

/// The nonce of a session, and of the one that it resumes. Only the miner of that session knows its nonce and has the
/// key: another miner with the same key cannot resume it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionNonces {
    /// Nonce of the session.
    pub nonce: Option<Nonce>,
    /// Nonce of the resumed session, which lost its connection.
    pub resumes: Option<Nonce>,
}

impl SessionNonces {
    /// Whether it resumes that session, or the one that that session resumes: the miner may not have learned of that
    /// session.
    pub fn goes_on_from(&self, before: &Self) -> bool {
        self.resumes.is_some() && (self.resumes == before.nonce || self.resumes == before.resumes)
    }
}

/// The reason for ending a session whose miner lost the connection and came back.
pub fn resumed(by: Option<SocketAddr>) -> String {
    format!("the miner lost its connection, and came back {}", place(by))
}

/// A session's address, for a sentence.
pub fn place(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "from an unknown address".to_owned(), |address| format!("from {address}"))
}

/// The reason for ending a session whose place another one of its key took.
pub fn taken_over(by: Option<SocketAddr>) -> String {
    let by = place(by);
    format!(
        "another session of this key, {by}, took over: where that is another miner, give each a key of its own (key_file)"
    )
}
