//! Writes that can share a transaction.

use crate::{Begun, Conclusion};

/// One of those that share it.
#[derive(Debug)]
pub(crate) enum Write {
    Begin(Box<Begun>),
    Conclude(Box<Conclusion>),
}
