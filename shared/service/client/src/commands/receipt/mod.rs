//! `assay-validator receipt`: of a running validator, or checked without one.

mod render;
mod show;
mod verify;

pub use self::show::{execute as show, text};
pub use self::verify::execute as verify;
