//! What both sides of Assay do: the work of `docs/WORK.md`, the compute devices that do it, the
//! wire, identities, and the words of a verdict.

pub mod compute;
pub mod identity;
pub mod message;
pub mod program;
pub mod telemetry;
pub mod verdict;
pub mod wire;
pub mod work;
