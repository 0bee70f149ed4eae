//! The join token: taken once at the start, sent to one validator, forgotten when that one has accepted the miner.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assay_protocol::channel::Channel;
use assay_protocol::join_token::{JoinToken, JoinTokenError, MAX_JOIN_TOKEN_BYTES};
use parking_lot::Mutex;

/// The variable that may hold a join token. It is not a setting: no flag has a secret, and `config show` prints none.
pub const ENV_TOKEN: &str = "ASSAY_MINER_JOIN_TOKEN";

/// The most bytes that are read: a token, and white space around it.
const MAX_READ_BYTES: u64 = 2 * MAX_JOIN_TOKEN_BYTES as u64;

/// An expected join token cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JoiningError {
    #[error("join_token_file = {path}: {source}")]
    File {
        /// The file; `-` is standard input.
        path: PathBuf,
        source: io::Error,
    },
    /// The content is not a token.
    #[error("{origin}: {source}")]
    Token {
        /// The file or variable that held it.
        origin: String,
        source: JoinTokenError,
    },
}

/// The token that a validator has yet to accept, if there is one. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct PendingJoinToken(Arc<Mutex<Option<JoinToken>>>);

impl PendingJoinToken {
    /// Takes the token from the file that the settings name, where `-` is standard input, or from the environment. A
    /// miner that has its key from an earlier start goes on without a file that is gone: it was let in by it then.
    pub fn take(file: Option<&Path>, variable: Option<&str>, had_key: bool) -> Result<Self, JoiningError> {
        let (origin, text) = match (file, variable) {
            (Some(path), _) => match read(path) {
                Ok(text) => (format!("join_token_file = {}", path.display()), text),
                Err(error) if error.kind() == io::ErrorKind::NotFound && had_key => {
                    tracing::info!(file = %path.display(), "no join token: the file is gone, and this miner has its key");
                    return Ok(Self::default());
                }
                Err(source) => return Err(JoiningError::File { path: path.into(), source }),
            },
            (None, Some(text)) => (ENV_TOKEN.to_owned(), text.to_owned()),
            (None, None) => return Ok(Self::default()),
        };
        match text.trim().parse() {
            Ok(token) => Ok(Self(Arc::new(Mutex::new(Some(token))))),
            // Service managers and containers leave empty ones.
            Err(JoinTokenError::Empty) if file.is_none() => Ok(Self::default()),
            Err(source) => Err(JoiningError::Token { origin, source }),
        }
    }

    /// The token for a session on this channel, to a validator that is on this machine or elsewhere.
    pub fn token(&self, channel: Channel, is_loopback: bool) -> Option<JoinToken> {
        let token = self.0.lock().clone()?;
        if channel == Channel::Plaintext && !is_loopback {
            tracing::warn!("the join token is kept back: it is not sent in plaintext to another machine; use TLS");
            return None;
        }
        Some(token)
    }

    /// The miner was accepted: the token is used.
    pub fn forget(&self) {
        if self.0.lock().take().is_some() {
            tracing::info!("accepted: the join token is forgotten, and its file can go");
        }
    }
}

/// Reads a file, or standard input until it ends.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    if path == Path::new("-") {
        io::stdin().take(MAX_READ_BYTES).read_to_string(&mut text)?;
    } else {
        std::fs::File::open(path)?.take(MAX_READ_BYTES).read_to_string(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(joining: &PendingJoinToken) -> Option<String> {
        joining.token(Channel::Plaintext, true).map(|token| token.secret().to_owned())
    }

    #[test]
    fn a_token_comes_from_its_file_or_the_environment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "assay-join-1\n").unwrap();
        let take = |file, variable| PendingJoinToken::take(file, variable, false).map(|joining| secret(&joining));
        assert_eq!(take(Some(path.as_path()), None).unwrap().as_deref(), Some("assay-join-1"));
        assert_eq!(take(Some(path.as_path()), Some("other")).unwrap().as_deref(), Some("assay-join-1"));
        assert_eq!(take(None, Some("assay-join-2")).unwrap().as_deref(), Some("assay-join-2"));
        assert_eq!((take(None, Some(" ")).unwrap(), take(None, None).unwrap()), (None, None));
        for wrong in ["", "two words", &"x".repeat(1000)] {
            std::fs::write(&path, wrong).unwrap();
            assert!(matches!(take(Some(path.as_path()), None), Err(JoiningError::Token { .. })), "{wrong}");
        }
        let gone = folder.path().join("gone");
        assert!(matches!(take(Some(gone.as_path()), None), Err(JoiningError::File { .. })), "a first start needs it");
        assert_eq!(secret(&PendingJoinToken::take(Some(&gone), None, true).unwrap()), None, "a later one does not");
    }

    #[test]
    fn a_token_is_not_sent_in_the_clear_and_is_forgotten() {
        let joining = PendingJoinToken::take(None, Some("assay-join-3"), false).unwrap();
        assert!(joining.token(Channel::Plaintext, false).is_none());
        let other = joining.clone();
        assert_eq!(secret(&other).as_deref(), Some("assay-join-3"));
        joining.forget();
        assert_eq!(secret(&other), None);
    }
}
