//! What can share a transaction.

use crate::{Begun, Conclusion};

/// One of those that share it.
#[derive(Debug)]
pub(crate) enum Write {
    /// A challenge that begins.
    Begin(Box<Begun>),
    /// A verdict.
    Conclude(Box<Conclusion>),
}
