//! Errors of logs.

use std::io;
use std::path::{Path, PathBuf};

/// Why a log cannot be read, written or believed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A file or folder of this machine.
    #[error("{path}: {source}")]
    File {
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A server refused, or did not answer.
    #[error("{0}")]
    Http(String),
    /// Neither a checkpoint nor tiles: the place of no log.
    #[error("{0} has no checkpoint: it is not the folder or the URL of a log")]
    NotThere(String),
    /// Bytes that are not in the form of their specification.
    #[error("{0}")]
    Malformed(String),
    /// Well-formed bytes that contradict others: the log was changed, cut, forked or rolled back.
    #[error("{0}")]
    Inconsistent(String),
}

impl LogError {
    /// For `map_err` on calls about a path.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    pub(crate) fn malformed(why: impl Into<String>) -> Self {
        Self::Malformed(why.into())
    }

    pub(crate) fn inconsistent(why: impl Into<String>) -> Self {
        Self::Inconsistent(why.into())
    }
}
