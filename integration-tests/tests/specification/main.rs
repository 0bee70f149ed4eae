//! The specification (docs/WORK.md): the vectors, the rules of commitments, openings and segments, and the CPU backend
//! against every vector. No driver and no daemon.

#[path = "../common/mod.rs"]
mod common;

mod commitments;
mod cpu_vectors;
mod openings;
mod segments;
mod vectors;
