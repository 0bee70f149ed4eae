//! What both programs have around their work.

pub mod address;
pub mod shutdown;
