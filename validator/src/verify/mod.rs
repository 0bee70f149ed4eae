//! Judging what a miner answered: draws, checks of openings, replay, and the verdict they add up to.

pub mod check;
pub mod draw;
pub mod excuse;
pub mod judge;
pub mod replay;
pub mod size;
pub mod turns;
