//! Equal devices, which keep step: every pass is compared while it still lies in the memory of all of them.
//!
//! A device that is lost leaves its group and goes on alone, so that no other waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use assay_work::DeviceId;
use parking_lot::{Condvar, Mutex};

/// The interval at which a waiting device looks for the end of the run.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A step: the round, and the pass in it.
pub type GroupStep = (u32, u32);

#[derive(Debug, Default)]
pub struct DeviceGroup {
    state: Mutex<GroupState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GroupState {
    members: BTreeSet<DeviceId>,
    arrived: BTreeMap<GroupStep, BTreeSet<DeviceId>>,
    decisions: BTreeMap<GroupStep, bool>,
    /// The least and the largest value that members offered, by its name.
    offers: BTreeMap<&'static str, (u32, u32)>,
}

impl DeviceGroup {
    pub fn new(members: impl IntoIterator<Item = DeviceId>) -> Self {
        let state = GroupState { members: members.into_iter().collect(), ..GroupState::default() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits until all members are at a step, or `stop` says so.
    pub fn arrive(&self, step: GroupStep, id: DeviceId, stop: impl Fn() -> bool) {
        let mut state = self.state.lock();
        state.arrived.entry(step).or_default().insert(id);
        // No member asks for a step of two rounds back.
        state.arrived.retain(|known, _| known.0 + 2 > step.0);
        state.decisions.retain(|known, _| known.0 + 2 > step.0);
        self.changed.notify_all();
        while !state.all_at(step) && !stop() {
            self.changed.wait_for(&mut state, POLL_INTERVAL);
        }
    }

    /// Whether a member is at a step that keeps it where it is until the others are there.
    pub fn is_at(&self, step: GroupStep, id: DeviceId) -> bool {
        let state = self.state.lock();
        state.members.contains(&id) && state.arrived.get(&step).is_some_and(|there| there.contains(&id))
    }

    /// A member leaves: no other waits for it any more.
    pub fn leave(&self, id: DeviceId) {
        self.state.lock().members.remove(&id);
        self.changed.notify_all();
    }

    /// Whether to go on with a step, decided by the first member that asks.
    pub fn go_on(&self, step: GroupStep, decide: impl FnOnce() -> bool) -> bool {
        *self.state.lock().decisions.entry(step).or_insert_with(decide)
    }

    /// Offers a value; once all have arrived, [`DeviceGroup::least`] and [`DeviceGroup::most`] are the group's.
    pub fn offer(&self, what: &'static str, value: u32) {
        let mut state = self.state.lock();
        let offers = state.offers.entry(what).or_insert((value, value));
        *offers = (offers.0.min(value), offers.1.max(value));
    }

    pub fn least(&self, what: &'static str) -> Option<u32> {
        self.state.lock().offers.get(what).map(|offers| offers.0)
    }

    pub fn most(&self, what: &'static str) -> Option<u32> {
        self.state.lock().offers.get(what).map(|offers| offers.1)
    }
}

impl GroupState {
    fn all_at(&self, step: GroupStep) -> bool {
        self.arrived.get(&step).is_some_and(|there| self.members.is_subset(there))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    const A: DeviceId = DeviceId([1; 16]);
    const B: DeviceId = DeviceId([2; 16]);

    #[test]
    fn nobody_goes_on_before_all_are_there() {
        let group = Arc::new(DeviceGroup::new([A, B]));
        let done = Arc::new(AtomicU32::new(0));
        let waiting = {
            let (group, done) = (group.clone(), done.clone());
            thread::spawn(move || {
                group.arrive((1, 0), A, || false);
                done.load(Ordering::SeqCst)
            })
        };
        done.store(7, Ordering::SeqCst);
        group.arrive((1, 0), B, || false);
        assert_eq!(waiting.join().unwrap(), 7, "A waited for B");
        assert!(group.is_at((1, 0), A) && !group.is_at((1, 1), A));
    }

    #[test]
    fn one_who_leaves_or_a_stop_ends_the_wait() {
        let group = Arc::new(DeviceGroup::new([A, B]));
        group.arrive((1, 0), A, || true);
        let waiting = {
            let group = group.clone();
            thread::spawn(move || group.arrive((1, 1), A, || false))
        };
        group.leave(B);
        waiting.join().unwrap();
        assert!(!group.is_at((1, 0), B));
    }

    #[test]
    fn the_first_decides_for_all() {
        let group = DeviceGroup::new([A, B]);
        assert!(group.go_on((1, 0), || true));
        assert!(group.go_on((1, 0), || false));
        assert!(!group.go_on((1, 1), || false));
        group.offer("n", 512);
        group.offer("n", 256);
        assert_eq!((group.least("n"), group.most("n"), group.least("m")), (Some(256), Some(512), None));
    }
}
