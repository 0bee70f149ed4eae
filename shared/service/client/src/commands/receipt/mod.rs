//! `assay-validator receipt`: of a running validator, or checked without one.

mod compare;
mod input;
mod render;
mod report;
mod show;
mod verify;

pub use self::compare::execute as compare;
pub use self::report::execute as report;
pub use self::show::{execute as show, text};
pub use self::verify::execute as verify;
