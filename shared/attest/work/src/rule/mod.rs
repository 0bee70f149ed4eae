//! Rules of kinds of work whose operands are no table of bytes (WORK.md, Rules).

pub mod field;
pub mod network;
