//! The driver's error codes (XIDs) of one GPU, which come as events.

use std::collections::BTreeSet;

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::{Device, EventSet};

/// Events that are taken at one look: a GPU in trouble gives a few.
const MAX_EVENTS: usize = 64;
/// Distinct codes that are kept.
const MAX_KEPT: usize = 64;
/// What the driver says when it does not know which.
const UNKNOWN_XID: u64 = 999;

/// The codes of one GPU since its work began.
pub(super) struct Xids {
    events: EventSet<'static>,
    seen: BTreeSet<u64>,
}

impl Xids {
    /// Starts to listen; `None` where the GPU gives no such events.
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

    /// Work begins: what came before is not its.
    pub(super) fn forget(&mut self) {
        self.take();
        self.seen.clear();
    }

    /// Every code since then, each once.
    pub(super) fn since_begin(&mut self) -> Vec<u64> {
        self.take();
        self.seen.iter().copied().collect()
    }

    fn take(&mut self) {
        for _ in 0..MAX_EVENTS {
            // Without waiting: an error means that there is none, or that the library does not say.
            let Ok(event) = self.events.wait(0) else { return };
            let code = match event.event_data {
                Some(XidError::Value(code)) => code,
                Some(XidError::Unknown) => UNKNOWN_XID,
                None => continue,
            };
            if self.seen.len() < MAX_KEPT {
                self.seen.insert(code);
            }
        }
    }
}
