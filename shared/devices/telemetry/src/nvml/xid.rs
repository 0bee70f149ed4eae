//! The driver's error codes (XIDs) of one GPU, which come as events.

use std::collections::BTreeSet;

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::{Device, EventSet};

/// Events taken in one poll: a failing GPU sends a few.
const MAX_EVENTS: usize = 64;
/// Distinct codes kept.
const MAX_CODES: usize = 64;
/// Stands for a code that the driver does not name.
const UNKNOWN_XID: u64 = 999;

/// The codes of one GPU since its work began.
pub(super) struct Xids {
    events: EventSet<'static>,
    seen: BTreeSet<u64>,
}

impl Xids {
    /// Registers for the events; `None` where the GPU has none.
    pub(super) fn of(device: &Device<'static>) -> Option<Self> {
        // The wrapper panics when it drops a set that the library cannot free.
        device.nvml().lib().nvmlEventSetFree.as_ref().ok()?;
        if !device.supported_event_types().ok()?.contains(EventTypes::CRITICAL_XID_ERROR) {
            return None;
        }
        let events = device.nvml().create_event_set().ok()?;
        let events = device.register_events(EventTypes::CRITICAL_XID_ERROR, events).ok()?;
        Some(Self { events, seen: BTreeSet::new() })
    }

    /// Work begins: discards earlier codes.
    pub(super) fn forget(&mut self) {
        self.take();
        self.seen.clear();
    }

    /// Every distinct code since the work began.
    pub(super) fn since_begin(&mut self) -> Vec<u64> {
        self.take();
        self.seen.iter().copied().collect()
    }

    fn take(&mut self) {
        for _ in 0..MAX_EVENTS {
            // Without waiting; an error means that there is no event or that the library cannot report it.
            let Ok(event) = self.events.wait(0) else { return };
            let code = match event.event_data {
                Some(XidError::Value(code)) => code,
                Some(XidError::Unknown) => UNKNOWN_XID,
                None => continue,
            };
            if self.seen.len() < MAX_CODES {
                self.seen.insert(code);
            }
        }
    }
}
