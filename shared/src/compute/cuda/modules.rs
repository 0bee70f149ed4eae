//! The PTX that this build carries: `kernels/ptx/`, taken in by the build script.

include!(concat!(env!("OUT_DIR"), "/ptx.rs"));

/// One file of PTX.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ptx {
    /// The file's name without its ending.
    pub(super) name: &'static str,
    /// What it holds.
    pub(super) text: &'static str,
}

/// The PTX of a name.
pub(super) fn find(name: &str) -> Option<&'static Ptx> {
    MODULES.iter().find(|ptx| ptx.name == name)
}
