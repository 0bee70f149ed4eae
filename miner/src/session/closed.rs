//! The reasons for which a session ends, and the miner's next step after each.

use std::time::Duration;

use assay_program::utc;
use assay_protocol::channel::ChannelMismatch;
use assay_protocol::message::{RefusedCode, StopCode};
use assay_work::PublicKey;
use assay_work::text::quoted;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    #[error("drained")]
    Drained,
    /// The validator has another key than the one configured.
    #[error(
        "the validator's key is {found}, {expected} was expected{}: check the address, and the key with the validator's \
         operator (`assay-validator address` prints both)",
        ended_text(*ended)
    )]
    WrongValidator {
        expected: PublicKey,
        found: PublicKey,
        /// When the one presented ceased to stand for the one configured, in seconds since 1970, where it did once.
        ended: Option<u64>,
    },
    /// The validator did not prove its key for this connection.
    #[error("no session with this validator: {0}")]
    BadWelcome(ChannelMismatch),
    #[error("the validator refused this miner ({code:?}): {}", quoted(detail))]
    Refused {
        code: RefusedCode,
        /// The validator's words.
        detail: String,
        /// When it may be dialled again, as it says.
        retry_after: Option<Duration>,
    },
    #[error("the validator ended the session ({code:?}): {}", quoted(detail))]
    Goodbye {
        code: StopCode,
        /// The validator's words.
        detail: String,
    },
    /// Nothing came for too long.
    #[error("nothing came from the validator for {0:?}")]
    Silent(Duration),
    /// A message came that makes no sense there.
    #[error("the validator sent {0}, which makes no sense here")]
    OutOfPlace(&'static str),
}

impl CloseReason {
    /// Whether another session of this miner's key took over.
    pub const fn is_takeover(&self) -> bool {
        matches!(self, Self::Goodbye { code: StopCode::Busy, .. })
    }

    /// Whether the validator may still hold the connection: it did not end it itself.
    pub const fn may_be_held(&self) -> bool {
        !matches!(self, Self::Goodbye { .. } | Self::Refused { .. })
    }

    /// How long to wait before the validator is dialled again, where it says so.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the validator asks for a join token, as of each miner that its records do not know.
    pub const fn asks_for_token(&self) -> bool {
        matches!(self, Self::Refused { code: RefusedCode::JoinToken, .. })
    }

    /// Whether dialling again is pointless until an operator changes something, if the server is the validator.
    pub const fn needs_operator(&self) -> bool {
        matches!(
            self,
            Self::WrongValidator { .. }
                | Self::Refused {
                    code: RefusedCode::Version
                        | RefusedCode::NotAllowed
                        | RefusedCode::Signature
                        | RefusedCode::JoinToken,
                    ..
                }
        )
    }
}

fn ended_text(ended: Option<u64>) -> String {
    ended.map_or_else(String::new, |until| format!(", which vouched for the new key until {}", utc::text(until)))
}
