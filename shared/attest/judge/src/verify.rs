//! Verification of answers: draws, checks of openings, and the verdict that they give.

pub mod check;
pub mod draw;
pub mod excuse;
pub mod hiding;
pub mod judge;
pub mod size;
