//! The specification (docs/WORK.md): the vectors, the rules of commitments, openings and segments, and the CPU backend
//! against every vector. No driver and no daemon.

mod commitments;
mod cpu_vectors;
mod documents;
mod files;
mod folder;
mod interchange;
mod openings;
mod operands;
mod probe_files;
mod rules;
mod segments;
mod sweeps;
mod vectors;
