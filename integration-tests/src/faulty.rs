//! The fault of the worker that lies (`assay-faulty-worker`).

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The variable of the environment that holds a [`Fault`] as JSON.
pub const VARIABLE: &str = "ASSAY_FAULT";

/// A fault of some processor devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The devices, by their index.
    pub devices: Vec<u32>,
    /// When: at which pass, probe or reading of an area, counted from 1 after the worker's self-test.
    pub at: u64,
    /// Whether it shows at every later time too.
    pub again: bool,
    pub lie: Lie,
    /// Made when it shows: with it there, a worker that is started again is honest.
    pub once: Option<PathBuf>,
}

/// The faults of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lie {
    /// Bytes of a slot turn in memory during a pass; later slots are computed from them.
    Flip {
        slot: u32,
        byte: u64,
        bytes: u64,
        /// The bits that turn.
        mask: u8,
    },
    /// A digest of a pass is not that of its slot.
    Digest(u32),
    /// A digest of a probe is wrong, in this round.
    Probe(u32),
    /// A byte that is read from an area of copies is wrong.
    Copy(u64),
    /// The process ends during a pass.
    Exit,
    /// The process stops during a pass, and says nothing any more.
    Stop,
    /// A pass never ends, though the process lives; it is not cancelled either.
    Hang,
    /// Passes take this many times as long.
    Slow(u32),
}

impl Fault {
    /// A fault of the first device that shows once.
    #[must_use]
    pub fn of_first(at: u64, lie: Lie) -> Self {
        Self { devices: vec![0], at, again: false, lie, once: None }
    }

    /// The environment of a program whose workers have it.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, OsString)> {
        vec![(VARIABLE.to_owned(), serde_json::to_string(self).expect("plain fields").into())]
    }
}
