//! A barrier that can be given up.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::device::Handle;
use crate::error::DeviceError;

/// The interval at which a waiting thread looks for a cancellation.
const POLL: Duration = Duration::from_millis(10);

/// Where threads wait until all of them have arrived, again and again, or until one of them gives up.
#[derive(Debug)]
pub(super) struct Barrier {
    parties: usize,
    state: Mutex<BarrierState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BarrierState {
    arrived: usize,
    /// The number of times that all have arrived.
    generation: u64,
    aborted: bool,
}

impl Barrier {
    /// A barrier of `parties` threads.
    pub(super) fn new(parties: usize) -> Self {
        Self { parties, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until all have arrived.
    ///
    /// # Errors
    /// [`DeviceError::Cancelled`] when the handle is cancelled or the barrier is given up.
    pub(super) fn wait(&self, handle: &Handle) -> Result<(), DeviceError> {
        handle.check()?;
        let mut state = self.state.lock();
        if state.aborted {
            return Err(DeviceError::Cancelled);
        }
        state.arrived += 1;
        if state.arrived == self.parties {
            state.arrived = 0;
            state.generation += 1;
            self.changed.notify_all();
            return Ok(());
        }
        let generation = state.generation;
        while state.generation == generation {
            if state.aborted {
                return Err(DeviceError::Cancelled);
            }
            handle.check()?;
            self.changed.wait_for(&mut state, POLL);
        }
        Ok(())
    }

    /// Gives up: each thread that waits or comes later gets [`DeviceError::Cancelled`].
    pub(super) fn abort(&self) {
        self.state.lock().aborted = true;
        self.changed.notify_all();
    }
}
