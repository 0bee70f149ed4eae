//! The validator daemon and its commands.
fn main() {}
