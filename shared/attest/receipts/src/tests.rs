//! Tests of several modules.

pub mod sample;
