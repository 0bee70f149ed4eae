//! Two sessions of one key: which one is refused or told to go, and in which words.

use std::net::SocketAddr;

use assay_protocol::message::RefusedCode;

/// Why a miner that proved its key is not entered. Miners are told so in these words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnterError {
    /// As many others are here as may be.
    #[error("this validator has as many miners as it takes")]
    Full,
    /// A challenge of the key is under way in another session.
    #[error(
        "a challenge of this key is under way in another session, {}: where that is another miner, give each a key of its \
         own (key_file)",
        place(*.0)
    )]
    InChallenge(Option<SocketAddr>),
}

impl EnterError {
    /// What the miner is told.
    #[must_use]
    pub const fn code(self) -> RefusedCode {
        match self {
            Self::Full => RefusedCode::Full,
            Self::InChallenge(_) => RefusedCode::InChallenge,
        }
    }
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
