//! The buffers of a device: slots, scratch, probe states. They are kept from pass to pass.

use ::wgpu::{Buffer, BufferUsages, PollType};

use super::gpu::{CreationFailure, Gpu};
use super::native;
use super::plan::{self, AdapterBounds, BufferLayout, HASH_BYTES, OPERAND_MATRICES, Region, STATE_BYTES};
use assay_device::{DeviceError, MAX_STEPPED_STATES, machine};

/// As many states as are stepped at once.
const STEPPED_BYTES: u64 = MAX_STEPPED_STATES as u64 * STATE_BYTES;

/// A buffer with an id of its own.
pub(super) struct DeviceBuffer {
    /// Distinct within a device.
    pub(super) id: u64,
    pub(super) raw: Buffer,
    pub(super) bytes: u64,
}

#[derive(Clone, Copy)]
pub(super) struct SlotPiece<'a> {
    pub(super) buffer: &'a DeviceBuffer,
    /// Offset of its first byte in the buffer.
    pub(super) first: u64,
    pub(super) bytes: u64,
}

impl<'a> SlotPiece<'a> {
    pub(super) const fn whole(buffer: &'a DeviceBuffer) -> Self {
        Self { buffer, first: 0, bytes: buffer.bytes }
    }
}

#[derive(Default)]
pub(super) struct Memory {
    slots: Vec<DeviceBuffer>,
    operands: Vec<DeviceBuffer>,
    scratch: Option<DeviceBuffer>,
    states: Vec<DeviceBuffer>,
    next_states: Vec<DeviceBuffer>,
    /// States of linked walks, and, for walks by groups, those after their step: from the first step to the next pass.
    stepped: [Vec<DeviceBuffer>; 2],
    made: u64,
}

impl Memory {
    /// Makes room for a layout, and for operands where a byte of a slot becomes `expansion` of them. When there is no
    /// room, nothing is held.
    pub(super) fn fit(
        &mut self,
        gpu: &Gpu,
        bounds: &AdapterBounds,
        layout: &BufferLayout,
        expansion: Option<u32>,
        free_bytes: u64,
    ) -> Result<(), DeviceError> {
        let states = plan::state_buffers(bounds, layout.states_bytes());
        let operands = expansion.map_or((0, 0), |expansion| layout.operand_buffers(expansion));
        let held = self.holds(layout) && self.holds_states(states, layout.grouped);
        if held && self.holds_operands(operands) {
            return Ok(());
        }
        drop_all(gpu, self.stepped.iter_mut().flat_map(|buffers| buffers.drain(..)));
        if held {
            drop_all(gpu, self.operands.drain(..));
        } else {
            self.release(gpu);
        }
        let needed_bytes = layout.total_bytes();
        let busy = DeviceError::Busy { needed_bytes, free_bytes };
        if needed_bytes > plan::usable_bytes(free_bytes) {
            return Err(busy);
        }
        let slots = if held { Ok(()) } else { self.make_all(gpu, layout, states) };
        let made = slots.and_then(|()| self.make_operands(gpu, operands));
        self.conclude(gpu, made, busy)
    }

    /// Makes room for operands beside the slots that are there. When there is no room, nothing is held.
    pub(super) fn fit_operands(
        &mut self,
        gpu: &Gpu,
        layout: &BufferLayout,
        expansion: Option<u32>,
        free_bytes: u64,
    ) -> Result<(), DeviceError> {
        let operands = expansion.map_or((0, 0), |expansion| layout.operand_buffers(expansion));
        if self.holds_operands(operands) {
            return Ok(());
        }
        drop_all(gpu, self.operands.drain(..));
        let made = self.make_operands(gpu, operands);
        self.conclude(gpu, made, DeviceError::Busy { needed_bytes: layout.total_bytes(), free_bytes })
    }

    /// Makes room for the states of a round; the slots stay, unless there is no room.
    pub(super) fn fit_states(
        &mut self,
        gpu: &Gpu,
        bounds: &AdapterBounds,
        layout: &BufferLayout,
        bytes: u64,
        free_bytes: u64,
    ) -> Result<(), DeviceError> {
        let states = plan::state_buffers(bounds, bytes);
        if self.holds_states(states, layout.grouped) {
            return Ok(());
        }
        let stepped = self.stepped.iter_mut().flat_map(|buffers| buffers.drain(..));
        drop_all(gpu, self.states.drain(..).chain(self.next_states.drain(..)).chain(stepped));
        let needed_bytes = self.held_bytes() + bytes * if layout.grouped { 2 } else { 1 };
        let busy = DeviceError::Busy { needed_bytes, free_bytes };
        if needed_bytes > plan::usable_bytes(free_bytes) {
            return Err(busy);
        }
        let made = self.make_states(gpu, states, layout.grouped);
        self.conclude(gpu, made, busy)
    }

    /// Makes room for states of linked walks, beside all other buffers; buffers that are large enough stay.
    pub(super) fn fit_stepped(
        &mut self,
        gpu: &Gpu,
        bounds: &AdapterBounds,
        layout: &BufferLayout,
        free_bytes: u64,
    ) -> Result<(), DeviceError> {
        let sets = if layout.grouped { 2 } else { 1 };
        let busy = DeviceError::Busy { needed_bytes: sets as u64 * STEPPED_BYTES, free_bytes };
        let (bytes, count) = plan::state_buffers(bounds, STEPPED_BYTES);
        for set in 0..sets {
            while self.stepped[set].len() < count as usize {
                match self.make(gpu, "stepped states", bytes) {
                    Ok(buffer) => self.stepped[set].push(buffer),
                    Err(CreationFailure::OutOfMemory) => return gpu.check().and(Err(busy)),
                    Err(CreationFailure::Refused(why)) => return Err(gpu.lose(&why)),
                }
            }
        }
        gpu.check()
    }

    /// The result of an allocation: out of memory frees everything and is [`DeviceError::Busy`].
    fn conclude(&mut self, gpu: &Gpu, made: Result<(), CreationFailure>, busy: DeviceError) -> Result<(), DeviceError> {
        match made {
            Ok(()) => gpu.check(),
            Err(CreationFailure::OutOfMemory) => {
                self.release(gpu);
                gpu.check().and(Err(busy))
            }
            Err(CreationFailure::Refused(why)) => Err(gpu.lose(&why)),
        }
    }

    fn make_all(&mut self, gpu: &Gpu, layout: &BufferLayout, states: (u64, u32)) -> Result<(), CreationFailure> {
        for bytes in layout.slot_buffers() {
            let buffer = self.make(gpu, "slots", bytes)?;
            self.slots.push(buffer);
        }
        self.scratch = Some(self.make(gpu, "scratch", layout.scratch_bytes())?);
        self.make_states(gpu, states, layout.grouped)
    }

    fn make_operands(&mut self, gpu: &Gpu, (bytes, count): (u64, usize)) -> Result<(), CreationFailure> {
        for _ in 0..OPERAND_MATRICES * count {
            let buffer = self.make(gpu, "operands", bytes)?;
            self.operands.push(buffer);
        }
        Ok(())
    }

    fn make_states(&mut self, gpu: &Gpu, (bytes, count): (u64, u32), twice: bool) -> Result<(), CreationFailure> {
        for _ in 0..count {
            let buffer = self.make(gpu, "states", bytes)?;
            self.states.push(buffer);
            if twice {
                let buffer = self.make(gpu, "next states", bytes)?;
                self.next_states.push(buffer);
            }
        }
        Ok(())
    }

    /// A buffer beside all of these, for benchmarks and burn-ins.
    pub(super) fn other(&mut self, gpu: &Gpu, bytes: u64) -> Result<DeviceBuffer, CreationFailure> {
        self.make(gpu, "other", bytes)
    }

    fn make(&mut self, gpu: &Gpu, label: &str, bytes: u64) -> Result<DeviceBuffer, CreationFailure> {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let raw = gpu.buffer(label, bytes, usage)?;
        self.made += 1;
        Ok(DeviceBuffer { id: self.made, raw, bytes })
    }

    /// Whether slots and scratch are there already.
    fn holds(&self, layout: &BufferLayout) -> bool {
        let slots = layout.slot_buffers();
        slots.len() <= self.slots.len()
            && slots.zip(&self.slots).all(|(needed, held)| needed <= held.bytes)
            && self.scratch.as_ref().is_some_and(|scratch| layout.scratch_bytes() <= scratch.bytes)
    }

    /// Whether operands are there, in as many buffers as these or more, each as long or longer.
    fn holds_operands(&self, (bytes, count): (u64, usize)) -> bool {
        self.operands.len() >= OPERAND_MATRICES * count && self.operands.iter().all(|held| held.bytes >= bytes)
    }

    /// Whether states are there, in buffers of just this length or in a longer one.
    fn holds_states(&self, (bytes, count): (u64, u32), twice: bool) -> bool {
        let holds = |held: &[DeviceBuffer]| {
            held.len() >= count as usize && held.iter().all(|b| b.bytes == bytes || count == 1 && b.bytes > bytes)
        };
        holds(&self.states) && (!twice || holds(&self.next_states))
    }

    /// How many buffers were made so far: another number means other buffers.
    pub(super) const fn made(&self) -> u64 {
        self.made
    }

    /// Bytes of all its buffers.
    pub(super) fn held_bytes(&self) -> u64 {
        let slots = self.slots.iter().chain(&self.operands);
        let all = slots.chain(&self.scratch).chain(&self.states).chain(&self.next_states);
        let all = all.chain(self.stepped.iter().flatten());
        all.map(|buffer| buffer.bytes).sum()
    }

    pub(super) fn release(&mut self, gpu: &Gpu) {
        let stepped = self.stepped.iter_mut().flat_map(|buffers| buffers.drain(..));
        let states = self.states.drain(..).chain(self.next_states.drain(..)).chain(stepped);
        let slots = self.slots.drain(..).chain(self.operands.drain(..));
        drop_all(gpu, slots.chain(self.scratch.take()).chain(states));
    }

    /// A piece of a slot.
    ///
    /// # Panics
    /// When the slots are not allocated.
    pub(super) fn piece(&self, layout: &BufferLayout, slot: u32, piece: u64) -> SlotPiece<'_> {
        let number = u64::from(slot) * layout.pieces_per_slot + piece;
        assert!(number < layout.pieces(), "a piece of this layout");
        let buffer = &self.slots[(number / layout.pieces_per_buffer) as usize];
        let first = number % layout.pieces_per_buffer * layout.piece_bytes;
        assert!(first + layout.piece_bytes <= buffer.bytes, "a piece of its buffer");
        SlotPiece { buffer, first, bytes: layout.piece_bytes }
    }

    /// Rows of a slot that lie in one piece.
    ///
    /// # Panics
    /// When they do not, or the slots are not allocated.
    pub(super) fn rows(&self, layout: &BufferLayout, slot: u32, first_row: u64, rows: u64) -> SlotPiece<'_> {
        let (piece, inside) = (first_row / layout.piece_rows(), first_row % layout.piece_rows());
        assert!(inside + rows <= layout.piece_rows(), "rows of one piece");
        let whole = self.piece(layout, slot, piece);
        let row_bytes = u64::from(layout.n);
        SlotPiece { first: whole.first + inside * row_bytes, bytes: rows * row_bytes, ..whole }
    }

    /// A piece of one of the matrices of operands, where a byte of a slot becomes `expansion` of them.
    ///
    /// # Panics
    /// When the operands are not allocated.
    pub(super) fn operands(&self, layout: &BufferLayout, expansion: u32, matrix: usize, piece: u64) -> SlotPiece<'_> {
        let (bytes, count) = layout.operand_buffers(expansion);
        let buffer = &self.operands[matrix * count + piece as usize];
        assert!(bytes <= buffer.bytes, "operands of this layout");
        SlotPiece { buffer, first: 0, bytes }
    }

    /// The buffers that the slots of a layout lie in.
    pub(super) fn slot_buffers(&self, layout: &BufferLayout) -> &[DeviceBuffer] {
        &self.slots[..layout.slot_buffers().len()]
    }

    /// The scratch buffer, up to the end of a layout's last region.
    ///
    /// # Panics
    /// When it is not there.
    pub(super) fn scratch(&self, layout: &BufferLayout) -> SlotPiece<'_> {
        let buffer = self.scratch.as_ref().unwrap_or_else(|| unreachable!("memory was made room in"));
        assert!(layout.scratch_bytes() <= buffer.bytes, "the scratch of this layout");
        SlotPiece { buffer, first: 0, bytes: layout.scratch_bytes() }
    }

    /// The piece of a region of the scratch buffer.
    pub(super) fn values(&self, layout: &BufferLayout, region: Region) -> SlotPiece<'_> {
        let scratch = self.scratch(layout);
        SlotPiece { first: region.first * HASH_BYTES, bytes: region.values * HASH_BYTES, ..scratch }
    }

    /// States of `bytes` altogether: the ones that a round starts with, and, for walks by groups, the others.
    pub(super) fn states(&self, bounds: &AdapterBounds, bytes: u64) -> [Vec<SlotPiece<'_>>; 2] {
        let (each, count) = plan::state_buffers(bounds, bytes);
        [&self.states, &self.next_states].map(|buffers| {
            let piece = |buffer| SlotPiece { buffer, first: 0, bytes: each };
            buffers.iter().take(count as usize).map(piece).collect()
        })
    }

    /// States of linked walks: where they are before a step, and, for walks by groups, after it.
    pub(super) const fn stepped(&self) -> &[Vec<DeviceBuffer>; 2] {
        &self.stepped
    }
}

fn drop_all(gpu: &Gpu, buffers: impl Iterator<Item = DeviceBuffer>) {
    for buffer in buffers {
        buffer.raw.destroy();
    }
    // wgpu frees destroyed buffers when it is polled. A failure is reported to the next caller.
    drop(gpu.poll(PollType::Poll));
}

/// Bytes that a challenge could take now, those held for one included: the API's free bytes, at most the setting.
pub(super) fn free_bytes(gpu: &Gpu, held_bytes: u64, is_host_memory: bool, most_bytes: Option<u64>) -> u64 {
    let memory = native::memory(&gpu.adapter);
    // Where the API reports no free memory, a quarter is left to others.
    let unsaid = memory.map_or(0, |memory| memory.total_bytes / 4 * 3);
    // Held memory may not be resident: systems that page let more be held than they grant.
    let granted = memory.and_then(|memory| memory.budget_bytes).unwrap_or(u64::MAX);
    let told = memory.and_then(|memory| memory.free_bytes).map(|free| free.saturating_add(held_bytes).min(granted));
    let free = match (told, most_bytes) {
        (Some(told), most) => told.min(most.unwrap_or(u64::MAX)),
        (None, Some(most)) => most,
        (None, None) => unsaid,
    };
    // Memory that is the host's is only there while the host has it.
    let host = if is_host_memory { (machine::available_bytes() + held_bytes) / 4 * 3 } else { u64::MAX };
    free.min(host)
}
