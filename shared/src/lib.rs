//! What both sides of Assay do: the work of `docs/WORK.md`, the compute devices that do it, the
//! wire, identities, and the words of a verdict.

pub mod compute;
pub mod work;
