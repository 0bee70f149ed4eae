//! The linked probe (WORK.md, Linked probe): all devices walk over the slots of all of them, step by step together.
//!
//! Where every device can map the slots of all others, each walks its own walks over them, a round at a time, and waits for
//! the others. Else a state visits the device that holds its next line. Each device's thread moves its visitors on by one step, hands every
//! state to the thread of the device that holds the line after, and waits for the others; after the last step of a round
//! the states go home. The threads share nothing else but the digests of the round, which the next one's keys hold.

mod barrier;

use std::mem;
use std::sync::Arc;

use assay_work::digest::slot_digest;
use assay_work::probe::{
    LINE_BYTES, LinkedSlots, MIN_WALKS, link_digest, linked_probe_key, linked_round_key, start_state, state_bytes,
    state_from_bytes,
};
use assay_work::{Challenge, Digest, Probe, ProbeKey, Root, RoundKey};
use parking_lot::{Mutex, MutexGuard};

use self::barrier::Barrier;
use crate::device::{Device, Handle, LinkedShare, MAX_STEPPED_STATES, PeerSlots, ProbeRound, StateBytes};
use crate::error::DeviceError;
use crate::machine;
use crate::shared_slots::SharedSlots;

/// Bytes of host memory that a walk takes at most: its state and its number, where it is and where it goes, both in
/// blocks that grow by doubling.
const WALK_BYTES: u64 = 4 * (LINE_BYTES as u64 + 4);
/// The part of the host's available memory that the walks of a linked probe may take.
const MEMORY_PER_WALKS: u64 = 8;

/// Steps of the walks that test reads through mappings.
const TESTED_STEPS: u32 = 16;

/// The state that the threads of all devices share.
#[derive(Debug)]
struct LinkedRun {
    slots: LinkedSlots,
    n: u32,
    probe: Probe,
    /// In the order of the shares, as everything here.
    keys: Vec<ProbeKey>,
    barrier: Barrier,
    /// The states that each device has next; those of even steps and those of odd ones.
    inboxes: Vec<[Mutex<VisitingStates>; 2]>,
    /// Each device's digest of the round.
    digests: Mutex<Vec<Digest>>,
    /// Each device's handle for its slots, and its answer to the question at hand.
    offers: Mutex<Vec<LinkOffer>>,
}

/// A device's part in the agreement to walk over one another's memory.
#[derive(Debug, Default)]
struct LinkOffer {
    slots: Option<SharedSlots>,
    /// The answer to the question at hand.
    agrees: bool,
}

/// States with the numbers of their walks, which identify their origin.
#[derive(Debug, Clone, Default)]
pub(crate) struct VisitingStates {
    pub(crate) walks: Vec<u32>,
    pub(crate) states: Vec<StateBytes>,
}

/// One device's part of a linked probe, to be taken to the thread that drives the device. When it is dropped before the
/// probe has ended, the parts of all other devices end with [`DeviceError::Cancelled`].
#[derive(Debug)]
pub struct LinkedPart {
    run: Arc<LinkedRun>,
    index: usize,
    done: bool,
}

/// The parts of a linked probe, one for each share in their order; `last_roots` are the devices' commitments for the
/// last iteration, which must be resident on all of them.
///
/// # Errors
/// [`DeviceError::Unsupported`] when the probe is not linked, links nothing, or has more walks than can be numbered.
///
/// # Panics
/// When there is not a root for every share.
pub fn parts(challenge: &Challenge, probe: &Probe, last_roots: &[Root]) -> Result<Vec<LinkedPart>, DeviceError> {
    let shares = challenge.shares();
    assert_eq!(shares.len(), last_roots.len(), "a root of every device");
    if probe.fields().link == 0 {
        return Err(DeviceError::Unsupported("a probe that is not linked, by all devices together".into()));
    }
    probe.check_devices(shares.len()).map_err(|error| DeviceError::Unsupported(error.to_string()))?;
    if u32::try_from(shares.len() as u64 * u64::from(probe.walks())).is_err() {
        return Err(DeviceError::Unsupported("more walks than can be numbered".into()));
    }
    let key = |share: &assay_work::Share| linked_probe_key(probe, challenge.work_key(), share.device_id, last_roots);
    let run = Arc::new(LinkedRun {
        slots: LinkedSlots::new(challenge),
        n: challenge.n(),
        probe: *probe,
        keys: shares.iter().map(key).collect(),
        barrier: Barrier::new(shares.len()),
        inboxes: shares.iter().map(|_| Default::default()).collect(),
        digests: Mutex::new(vec![Digest::BEFORE_FIRST; shares.len()]),
        offers: Mutex::new(shares.iter().map(|_| LinkOffer::default()).collect()),
    });
    Ok((0..shares.len()).map(|index| LinkedPart { run: run.clone(), index, done: false }).collect())
}

/// Refuses walks whose states leave too little memory for the devices.
fn check_memory(walks: u64, available_bytes: u64) -> Result<(), DeviceError> {
    let (needed_bytes, free_bytes) = (walks * WALK_BYTES, available_bytes / MEMORY_PER_WALKS);
    if needed_bytes > free_bytes {
        return Err(DeviceError::Busy { needed_bytes, free_bytes });
    }
    Ok(())
}

impl LinkedPart {
    /// Walks every round, together with the parts of all other devices, and gives the digests of this device. Advances
    /// the handle by one for each.
    ///
    /// # Errors
    /// The device's; [`DeviceError::Cancelled`] within 200 ms of [`Handle::cancel`], or when another device has failed;
    /// [`DeviceError::Busy`] when states that are exchanged need more than an eighth of the host's available memory.
    pub fn walk(mut self, device: &mut dyn Device, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        let walked = self.with_mappings(device, handle, |device, maps| self.walk_rounds(device, maps, handle));
        if walked.is_ok() {
            self.end();
        }
        walked
    }

    /// Calls `walk` with the slots of all devices mapped on each of them, where all can; it learns whether it is so, as all
    /// devices do alike.
    pub(crate) fn with_mappings<T>(
        &self,
        device: &mut dyn Device,
        handle: &Handle,
        walk: impl FnOnce(&mut dyn Device, bool) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let walked = self.map_all(device, handle).and_then(|maps| walk(device, maps));
        device.unmap_peers();
        walked
    }

    fn map_all(&self, device: &mut dyn Device, handle: &Handle) -> Result<bool, DeviceError> {
        let offered = device.share_slots()?;
        self.offers()[self.index].slots = offered;
        self.run.barrier.wait(handle)?;
        let peers = self.peers();
        let reaches_all = peers.map_or(Ok(false), |peers| device.map_peers(&peers))?;
        let mut maps = self.all_agree(reaches_all, handle)?;
        if maps {
            let reads_right = self.reads_right(device, handle)?;
            maps = self.all_agree(reads_right, handle)?;
        }
        if maps {
            tracing::debug!(device = self.index, "walks read the memory of the other devices");
        } else {
            check_memory(self.run.keys.len() as u64 * u64::from(self.run.probe.walks()), machine::available_bytes())?;
        }
        Ok(maps)
    }

    /// Whether all devices answer yes to a question.
    fn all_agree(&self, agrees: bool, handle: &Handle) -> Result<bool, DeviceError> {
        self.offers()[self.index].agrees = agrees;
        self.run.barrier.wait(handle)?;
        let mut offers = self.offers();
        // All have mapped by now: a handle that is kept would keep the memory too.
        offers[self.index].slots = None;
        let all = offers.iter().all(|offer| offer.agrees);
        drop(offers);
        // No device answers the next question before all have this answer.
        self.run.barrier.wait(handle)?;
        Ok(all)
    }

    /// Whether lines that were read through the mappings are those that their devices hold: a few short walks come out as
    /// by exchange. A host whose bus turns reads between devices into something else would else be taken for a liar.
    fn reads_right(&self, device: &mut dyn Device, handle: &Handle) -> Result<bool, DeviceError> {
        // No round of the probe has this key.
        let key = linked_round_key(&self.run.keys[self.index], self.run.probe.rounds(), &Digest::BEFORE_FIRST);
        let test = ProbeRound { key, walks: MIN_WALKS, steps: self.run.probe.steps().min(TESTED_STEPS) };
        let mapped = device.linked_round(&test, &Handle::default())?;
        let exchanged = slot_digest(self.walk_by_exchange(device, &test, handle)?.as_flattened());
        if mapped != exchanged {
            tracing::warn!(
                device = self.index,
                "a device reads the memory of others wrongly (an IOMMU or ACS between them, perhaps): states are exchanged"
            );
        }
        Ok(mapped == exchanged)
    }

    /// The devices as this one maps them; `None` where one cannot be mapped.
    fn peers(&self) -> Option<Vec<PeerSlots>> {
        let peer = |(index, offer): (usize, &LinkOffer)| {
            let (share, theirs) = (self.share_of(index), offer.slots.as_ref()?);
            if index == self.index {
                return Some(PeerSlots { share, slots: None });
            }
            // Too few descriptors are left, for one.
            let failed = |error: &_| tracing::debug!(%error, "no other device's slots are mapped");
            Some(PeerSlots { share, slots: Some(theirs.try_clone().inspect_err(failed).ok()?) })
        };
        self.offers().iter().enumerate().map(peer).collect()
    }

    fn offers(&self) -> MutexGuard<'_, Vec<LinkOffer>> {
        self.run.offers.lock()
    }

    fn walk_rounds(&self, device: &mut dyn Device, maps: bool, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        let rounds = self.run.probe.rounds();
        let mut digests = Vec::with_capacity(rounds as usize);
        let mut before = Digest::BEFORE_FIRST;
        for round in 0..rounds {
            let key = linked_round_key(&self.run.keys[self.index], round, &before);
            let digest = if maps {
                device.linked_round(&self.round(key), handle)?
            } else {
                slot_digest(self.walk_round(device, &key, false, handle)?.as_flattened())
            };
            self.run.digests.lock()[self.index] = digest;
            self.run.barrier.wait(handle)?;
            before = link_digest(self.run.digests.lock().iter());
            // No device writes its next one before all have read these.
            self.run.barrier.wait(handle)?;
            digests.push(digest);
        }
        Ok(digests)
    }

    /// The key of a round, from the digests of all devices.
    pub(crate) fn round_key(&self, round: u32, before: &Digest) -> RoundKey {
        linked_round_key(&self.run.keys[self.index], round, before)
    }

    /// Walks one round, as all other parts must at the same time, and gives `out[r]` of this device.
    pub(crate) fn walk_round(
        &self,
        device: &mut dyn Device,
        key: &RoundKey,
        maps: bool,
        handle: &Handle,
    ) -> Result<Vec<StateBytes>, DeviceError> {
        if maps {
            device.linked_round(&self.round(*key), handle)?;
            return Ok(device.probe_states()?.as_chunks().0.to_vec());
        }
        let out = self.walk_by_exchange(device, &self.round(*key), handle)?;
        handle.advance(1);
        Ok(out)
    }

    fn round(&self, key: RoundKey) -> ProbeRound {
        ProbeRound { key, walks: self.run.probe.walks(), steps: self.run.probe.steps() }
    }

    /// The states that a round ends in, of at most as many walks as the probe has.
    fn walk_by_exchange(
        &self,
        device: &mut dyn Device,
        ProbeRound { key, walks, steps }: &ProbeRound,
        handle: &Handle,
    ) -> Result<Vec<StateBytes>, DeviceError> {
        let walks = *walks;
        // Of all devices: `parts` keeps them within 32 bits.
        let first = self.index as u32 * walks;
        let start = |walk| (first + walk, state_bytes(&start_state(key, walk)));
        let home = |walk| (walk / walks) as usize;
        let ended = self.exchange_for(device, *steps, (0..walks).map(start), &home, |_, _| (), handle)?;
        let mut out = vec![[0; LINE_BYTES]; walks as usize];
        for (walk, state) in ended.walks.iter().zip(ended.states) {
            out[(walk - first) as usize] = state;
        }
        Ok(out)
    }

    /// Moves walks that start here, and those that start elsewhere, by all steps of a round; gives those whose `home` is
    /// here. `visit` sees every state before the step that it makes here.
    pub(crate) fn exchange(
        &self,
        device: &mut dyn Device,
        starts: impl Iterator<Item = (u32, StateBytes)>,
        home: &dyn Fn(u32) -> usize,
        visit: impl FnMut(u32, &VisitingStates),
        handle: &Handle,
    ) -> Result<VisitingStates, DeviceError> {
        self.exchange_for(device, self.run.probe.steps(), starts, home, visit, handle)
    }

    /// As [`Self::exchange`], by `steps` steps.
    fn exchange_for(
        &self,
        device: &mut dyn Device,
        steps: u32,
        starts: impl Iterator<Item = (u32, StateBytes)>,
        home: &dyn Fn(u32) -> usize,
        mut visit: impl FnMut(u32, &VisitingStates),
        handle: &Handle,
    ) -> Result<VisitingStates, DeviceError> {
        let share = self.share();
        let mut sorted = self.sorted();
        let mut batch = VisitingStates::default();
        for (walk, state) in starts {
            batch.walks.push(walk);
            batch.states.push(state);
            if batch.states.len() == MAX_STEPPED_STATES {
                self.hand_over(&batch.walks, &batch.states, 0, None, (&mut sorted, handle))?;
                batch.clear();
            }
        }
        self.hand_over(&batch.walks, &batch.states, 0, None, (&mut sorted, handle))?;
        self.run.barrier.wait(handle)?;
        for step in 0..steps {
            let mut here = mem::take(&mut *self.inbox(self.index, step).lock());
            visit(step, &here);
            let next_home = (step + 1 == steps).then_some(home);
            for (walks, states) in here.walks.chunks(MAX_STEPPED_STATES).zip(here.states.chunks_mut(MAX_STEPPED_STATES))
            {
                device.step_states(&share, states)?;
                self.hand_over(walks, states, step + 1, next_home, (&mut sorted, handle))?;
            }
            // Its memory serves the step after the next, which no device begins before all have ended this one.
            here.clear();
            *self.inbox(self.index, step).lock() = here;
            self.run.barrier.wait(handle)?;
        }
        let ended = mem::take(&mut *self.inbox(self.index, steps).lock());
        // No device hands over again before all have taken their states.
        self.run.barrier.wait(handle)?;
        Ok(ended)
    }

    /// Gives states to the devices that hold their next lines, or to those that they belong to, for step `step`. `sorted`
    /// is empty before and after.
    fn hand_over(
        &self,
        walks: &[u32],
        states: &[StateBytes],
        step: u32,
        home: Option<&dyn Fn(u32) -> usize>,
        (sorted, handle): (&mut [Vec<u32>], &Handle),
    ) -> Result<(), DeviceError> {
        handle.check()?;
        for ((number, &walk), state) in (0..).zip(walks).zip(states) {
            let target = home.map_or_else(
                || self.run.slots.place(self.run.slots.position(&state_from_bytes(state)).0).share,
                |home| home(walk),
            );
            sorted[target].push(number);
        }
        for (target, numbers) in sorted.iter_mut().enumerate() {
            let mut inbox = self.inbox(target, step).lock();
            inbox.walks.extend(numbers.iter().map(|number| walks[*number as usize]));
            inbox.states.extend(numbers.iter().map(|number| states[*number as usize]));
            numbers.clear();
        }
        Ok(())
    }

    /// Numbers of states by the device that they go to, all empty.
    fn sorted(&self) -> Vec<Vec<u32>> {
        vec![Vec::new(); self.run.inboxes.len()]
    }

    fn inbox(&self, device: usize, step: u32) -> &Mutex<VisitingStates> {
        &self.run.inboxes[device][step as usize % 2]
    }

    /// The place of this device's slots among all.
    fn share(&self) -> LinkedShare {
        self.share_of(self.index)
    }

    fn share_of(&self, index: usize) -> LinkedShare {
        let share = &self.run.slots.shares()[index];
        LinkedShare { n: self.run.n, offset: share.offset, count: share.count, total: self.run.slots.total() }
    }

    pub(crate) fn slots(&self) -> &LinkedSlots {
        &self.run.slots
    }

    /// Which device this is, in the order of the shares.
    pub(crate) const fn index(&self) -> usize {
        self.index
    }

    /// Nothing more is to be walked with the others: they may go on without this part.
    pub(crate) fn end(&mut self) {
        self.done = true;
    }
}

impl Drop for LinkedPart {
    fn drop(&mut self) {
        if !self.done {
            self.run.barrier.abort();
        }
    }
}

impl VisitingStates {
    fn clear(&mut self) {
        self.walks.clear();
        self.states.clear();
    }
}

#[cfg(test)]
mod tests;
