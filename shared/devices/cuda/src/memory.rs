//! A device's memory: slots, scratch and probe states, in three allocations that are kept from pass to pass, and states of
//! linked walks, which are kept until the next pass.

use std::sync::Arc;

use super::driver::{Context, DeviceMemory, MappedMemory};
use super::error::Fault;
use super::plan::{MemoryLayout, paged};
use assay_device::{DeviceError, PeerSlots, SharedSlots, machine};

/// A device's allocations.
#[derive(Debug)]
pub(super) struct Memory {
    context: Arc<Context>,
    /// All slots, in one.
    slots: Option<DeviceMemory>,
    /// Digests and the buffers that they are made with ([`MemoryLayout`]).
    scratch: Option<DeviceMemory>,
    /// The states of a probe.
    states: Option<DeviceMemory>,
    /// States of linked walks, taken with the first step of them.
    stepped: Option<DeviceMemory>,
    /// Whether slots are taken such that other processes may map them.
    shares: bool,
    /// Whether the device's memory is the host's.
    integrated: bool,
    /// The slots of all devices of a linked probe, for as long as walks go over them.
    peers: Option<Peers>,
}

/// The slots of all devices of a linked probe, in the order of the shares.
#[derive(Debug)]
pub(super) struct Peers {
    /// Number of slots of all devices.
    pub(super) total: u32,
    /// Of each device its first slot, and where its slots lie.
    pub(super) places: Vec<(u32, u64)>,
    /// Those of other devices, which stay mapped for as long as this.
    mapped: Vec<MappedMemory>,
}

impl Memory {
    /// Holds nothing yet. With `plain` slots are shared with no other process.
    pub(super) fn new(context: &Arc<Context>, plain: bool, integrated: bool) -> Self {
        let shares = match context.shares_memory() {
            Ok(true) if !plain => MappedMemory::try_out(context).map_or_else(may_share, |()| true),
            Ok(_) => false,
            Err(fault) => may_share(fault),
        };
        let (slots, scratch, states, stepped, peers) = (None, None, None, None, None);
        Self { context: context.clone(), slots, scratch, states, stepped, shares, integrated, peers }
    }

    /// Bytes that would be free if this held nothing. The context is bound.
    pub(super) fn free_bytes(&self) -> Result<u64, Fault> {
        let held = [&self.slots, &self.scratch, &self.states, &self.stepped].into_iter().flatten();
        let held: u64 = held.map(|memory| paged(memory.bytes())).sum();
        let (free, total) = self.context.memory_bytes()?;
        // Of the host's memory the driver counts the page cache as used, and knows no control group.
        let free = if self.integrated { (machine::available_bytes() + held) / 4 * 3 } else { free + held };
        Ok(free.min(total))
    }

    /// Makes room for a pass: slots, scratch, states. Memory that is large enough stays.
    ///
    /// # Errors
    /// [`DeviceError::Busy`] when there is less.
    pub(super) fn fit(&mut self, layout: &MemoryLayout) -> Result<(), DeviceError> {
        (self.stepped, self.peers) = (None, None);
        let sizes = [layout.slots_bytes(), layout.scratch_bytes, layout.states_bytes];
        let held = [&self.slots, &self.scratch, &self.states].into_iter().zip(sizes);
        if held.into_iter().all(|(memory, bytes)| memory.as_ref().is_some_and(|memory| memory.bytes() >= bytes)) {
            return Ok(());
        }
        let (needed_bytes, free_bytes) = (layout.total_bytes(), self.free_bytes()?);
        if needed_bytes > free_bytes {
            return Err(DeviceError::Busy { needed_bytes, free_bytes });
        }
        // Larger memory than needed stays, unless the rest does not fit beside it.
        let kept = [&self.slots, &self.scratch, &self.states].into_iter().zip(sizes);
        let kept = kept.map(|(memory, bytes)| paged(memory.as_ref().map_or(0, DeviceMemory::bytes).max(bytes)));
        if kept.sum::<u64>() > free_bytes {
            self.release();
        }
        let held = [&mut self.slots, &mut self.scratch, &mut self.states];
        // All that is too small goes first, so that its room can be taken again.
        for (memory, bytes) in held.into_iter().zip(sizes) {
            memory.take_if(|memory| memory.bytes() < bytes);
        }
        let taken = self
            .take_slots(layout.slots_bytes())
            .and_then(|()| take(&self.context, &mut self.scratch, layout.scratch_bytes))
            .and_then(|()| take(&self.context, &mut self.states, layout.states_bytes));
        taken.map_err(|fault| self.refused(fault, needed_bytes))
    }

    /// Takes memory for slots where there is none: plain memory for good, once the driver refuses mapped memory.
    fn take_slots(&mut self, bytes: u64) -> Result<(), Fault> {
        if self.slots.is_some() {
            return Ok(());
        }
        if self.shares {
            match DeviceMemory::shareable(&self.context, bytes) {
                Ok(slots) => self.slots = Some(slots),
                Err(fault) if fault.is_out_of_memory() => return Err(fault),
                Err(fault) => self.shares = may_share(fault),
            }
        }
        if self.slots.is_none() {
            self.slots = Some(DeviceMemory::new(&self.context, bytes)?);
        }
        tracing::debug!(bytes, by = if self.shares { "cuMemCreate" } else { "cuMemAlloc" }, "took memory for slots");
        Ok(())
    }

    /// The handle by which other processes map the slots; `None` where they cannot.
    pub(super) fn share_slots(&self) -> Result<Option<SharedSlots>, DeviceError> {
        Ok(there(&self.slots)?.export()?)
    }

    /// Maps the slots of the other devices of a linked probe; whether this device reaches all of them.
    pub(super) fn map_peers(&mut self, shares: &[PeerSlots]) -> Result<bool, DeviceError> {
        self.peers = None;
        let own = there(&self.slots)?.address();
        let mut peers = Peers { total: 0, places: Vec::with_capacity(shares.len()), mapped: Vec::new() };
        for PeerSlots { share, slots } in shares {
            let address = match slots {
                None => own,
                Some(SharedSlots { bytes, handle }) => match MappedMemory::import(&self.context, handle, *bytes) {
                    Ok(mapped) => {
                        peers.mapped.push(mapped);
                        peers.mapped[peers.mapped.len() - 1].address()
                    }
                    Err(fault) => {
                        // The driver's error for a device out of reach does not end a context; one that is lost fails
                        // this call.
                        self.context.memory_bytes()?;
                        tracing::debug!(%fault, "another device's memory cannot be reached");
                        return Ok(false);
                    }
                },
            };
            peers.total = share.total;
            peers.places.push((share.offset, address));
        }
        self.peers = Some(peers);
        Ok(true)
    }

    /// The slots of all devices, while they are mapped.
    pub(super) fn peers(&self) -> Result<&Peers, DeviceError> {
        self.peers.as_ref().ok_or_else(|| DeviceError::Unsupported("no other device's slots are mapped".into()))
    }

    pub(super) fn unmap_peers(&mut self) {
        self.peers = None;
    }

    /// Room for the states of a round, beside the resident slots.
    ///
    /// # Errors
    /// [`DeviceError::Busy`] when there is less; the slots stay resident.
    pub(super) fn fit_states(&mut self, bytes: u64) -> Result<(), DeviceError> {
        fit_beside(&self.context, &mut self.states, bytes)
    }

    /// Room for states of linked walks, beside the resident slots and the states of the last round.
    ///
    /// # Errors
    /// [`DeviceError::Busy`] when there is less; the slots stay resident.
    pub(super) fn fit_stepped(&mut self, bytes: u64) -> Result<(), DeviceError> {
        fit_beside(&self.context, &mut self.stepped, bytes)
    }

    /// Memory beside the allocations of a pass, for benchmarks and burn-ins.
    ///
    /// # Errors
    /// [`DeviceError::Busy`] when there is less; the slots stay resident.
    pub(super) fn take_other(&self, bytes: u64) -> Result<DeviceMemory, DeviceError> {
        let free_bytes = self.context.memory_bytes()?.0;
        DeviceMemory::new(&self.context, bytes).map_err(|fault| busy_or_sick(fault, bytes, free_bytes))
    }

    /// Slots and scratch, which every pass leaves.
    pub(super) fn slots_and_scratch(&self) -> Result<(&DeviceMemory, &DeviceMemory), DeviceError> {
        Ok((there(&self.slots)?, there(&self.scratch)?))
    }

    pub(super) fn states(&self) -> Result<&DeviceMemory, DeviceError> {
        there(&self.states)
    }

    pub(super) fn stepped(&self) -> Result<&DeviceMemory, DeviceError> {
        there(&self.stepped)
    }

    pub(super) fn release(&mut self) {
        self.peers = None;
        (self.slots, self.scratch, self.states, self.stepped) = (None, None, None, None);
    }

    /// An allocation failed although enough was free: another process took it, or it is fragmented.
    fn refused(&mut self, fault: Fault, needed_bytes: u64) -> DeviceError {
        self.release();
        let free_bytes = self.free_bytes().unwrap_or(0);
        busy_or_sick(fault, needed_bytes, free_bytes)
    }
}

/// Takes memory where there is none.
fn take(context: &Arc<Context>, memory: &mut Option<DeviceMemory>, bytes: u64) -> Result<(), Fault> {
    if memory.is_none() {
        *memory = Some(DeviceMemory::new(context, bytes)?);
    }
    Ok(())
}

/// Takes memory anew where there is less, beside all other allocations.
fn fit_beside(context: &Arc<Context>, memory: &mut Option<DeviceMemory>, bytes: u64) -> Result<(), DeviceError> {
    if memory.as_ref().is_none_or(|memory| memory.bytes() < bytes) {
        *memory = None;
        let taken = DeviceMemory::new(context, bytes);
        *memory = Some(taken.map_err(|fault| {
            let free_bytes = context.memory_bytes().map_or(0, |(free, _)| free);
            busy_or_sick(fault, bytes, free_bytes)
        })?);
    }
    Ok(())
}

/// Whether slots may still be taken such that other processes map them, after a failure on that way. The context is
/// good: where it is not, the next call says so.
fn may_share(fault: Fault) -> bool {
    let is_full = fault.is_out_of_memory();
    if !is_full {
        tracing::warn!(
            %fault,
            "the driver refuses memory that other processes map (usual under WSL2 and in sandboxes): slots are taken by \
            cuMemAlloc, and devices exchange the states of linked probes; a newer driver may do both"
        );
    }
    is_full
}

fn busy_or_sick(fault: Fault, needed_bytes: u64, free_bytes: u64) -> DeviceError {
    if fault.is_out_of_memory() { DeviceError::Busy { needed_bytes, free_bytes } } else { fault.into() }
}

fn there(memory: &Option<DeviceMemory>) -> Result<&DeviceMemory, DeviceError> {
    memory.as_ref().ok_or_else(|| DeviceError::Unsupported("nothing is resident on this device".into()))
}
