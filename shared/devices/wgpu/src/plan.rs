//! The cut of slots into pieces that an adapter can bind, the layout of a pass's memory, and the number of slots that
//! fit.
//!
//! A *piece* is a power-of-two part of a slot, whole rows of it; a buffer holds as many whole pieces as fit. Pieces are
//! numbered over all slots. The cut never shows in the bits.

use ::wgpu::Limits;

use assay_device::check_size;
pub(super) use assay_device::resident::{HASH_BYTES, STATE_BYTES};
use assay_device::resident::{MAX_STATES_BYTES, SLOTS_PER_STATES, Slots, max_slots};
use assay_work::challenge::{MAX_N, MIN_COUNT, MIN_N};
use assay_work::probe::sums_bytes;
pub(super) use assay_work::tree::CHUNK_BYTES;

/// Every binding starts at a multiple of this, in bytes: the most that an adapter may ask for.
pub(super) const ALIGNMENT: u64 = 256;
/// The most of free memory that is used, in percent.
const MAX_PERCENT: u64 = 95;
/// Chunks that a workgroup hashes, and merges into one value.
pub(super) const GROUP_CHUNKS: u64 = 64;
/// Values that a workgroup merges.
pub(super) const GROUP_VALUES: u64 = 128;
/// The smallest slot: a buffer holds one at least.
const MIN_BUFFER_BYTES: u64 = (MIN_N as u64) * (MIN_N as u64);
/// The least that can be bound: the scratch buffer for hashing the states of the largest probe.
const MIN_BINDING_BYTES: u64 = 1 << 18;
/// Shaders count a binding in 16-byte vectors by 32-bit words, and drivers in bytes by such words.
const MAX_BUFFER_BYTES: u64 = 1 << 31;
/// The most slot buffers that the probe's shader names at once: each is a branch of it.
const MAX_BOUND: u32 = 32;
/// Storage buffers that the probe binds beside slots.
const PROBE_STATES: u32 = 2;
/// Uniform buffers of every shader.
const PARAMETERS: u32 = 1;
/// Storage buffers that a product binds.
const PRODUCT_BUFFERS: u32 = 3;
/// Matrices of operands that a product of expanded slots reads.
pub(super) const OPERAND_MATRICES: usize = 2;
/// The most bytes of operands that a byte of a slot becomes.
const MAX_EXPANSION: u64 = 2;
/// Rows of the smallest tile of a product.
const MIN_TILE_ROWS: u64 = 64;
/// Invocations and bytes of workgroup memory that the smallest tile takes.
const MIN_INVOCATIONS: u32 = 64;
const MIN_WORKGROUP_BYTES: u32 = 4096;
/// The most workgroups of a dispatch, which all APIs allow.
pub(super) const MAX_WORKGROUPS: u32 = 65_535;

/// Why an adapter with these limits cannot do the work.
pub(super) fn refusal(limits: &Limits) -> Option<String> {
    let needs: [(&str, u64, u64); 7] = [
        ("storage buffers in a shader", limits.max_storage_buffers_per_shader_stage.into(), PRODUCT_BUFFERS.into()),
        (
            "storage buffers with offsets",
            limits.max_dynamic_storage_buffers_per_pipeline_layout.into(),
            PRODUCT_BUFFERS.into(),
        ),
        ("bytes of a storage binding", limits.max_storage_buffer_binding_size, MIN_BINDING_BYTES),
        ("invocations of a workgroup", limits.max_compute_invocations_per_workgroup.into(), MIN_INVOCATIONS.into()),
        ("invocations in x", limits.max_compute_workgroup_size_x.into(), MIN_INVOCATIONS.into()),
        ("bytes of workgroup memory", limits.max_compute_workgroup_storage_size.into(), MIN_WORKGROUP_BYTES.into()),
        ("workgroups of a dispatch", limits.max_compute_workgroups_per_dimension.into(), MAX_WORKGROUPS.into()),
    ];
    let (what, has, least) = needs.into_iter().find(|(_, has, least)| has < least)?;
    Some(format!("it offers {has} {what}, and {least} are the least"))
}

/// The limits of an adapter that layouts depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AdapterBounds {
    /// The most bytes of a buffer, all of which can be bound.
    pub(super) buffer_bytes: u64,
    /// The most bytes of a binding, independent of the setting for buffers.
    pub(super) binding_bytes: u64,
    /// The most slot buffers that the probe can bind at once.
    pub(super) slot_buffers: u32,
}

impl AdapterBounds {
    /// Of an adapter with these limits, and at most `asked_bytes` of a buffer.
    pub(super) fn new(limits: &Limits, asked_bytes: Option<u64>) -> Self {
        let driver = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        let bytes = driver.min(MAX_BUFFER_BYTES).min(asked_bytes.unwrap_or(u64::MAX)).max(MIN_BUFFER_BYTES);
        // Where an API counts all buffers of a shader together (Metal), the parameters are one of them.
        let all = limits.max_buffers_and_acceleration_structures_per_shader_stage.saturating_sub(PARAMETERS);
        let bound = limits.max_storage_buffers_per_shader_stage.min(all).saturating_sub(PROBE_STATES);
        Self {
            buffer_bytes: bytes - bytes % MIN_BUFFER_BYTES,
            binding_bytes: driver.min(MAX_BUFFER_BYTES),
            slot_buffers: bound.clamp(1, MAX_BOUND),
        }
    }

    /// The largest matrix size whose pieces hold whole tiles, and whose chaining values can be bound.
    pub(super) fn largest_n(&self) -> u32 {
        let rows = |n: u32| self.operand_rows(n);
        let sizes = (MIN_N.ilog2()..=MAX_N.ilog2()).map(|log| 1 << log);
        let is_possible =
            |n: &u32| rows(*n) >= MIN_TILE_ROWS && BufferLayout::new(self, *n, MIN_COUNT).is_possible(self);
        sizes.take_while(is_possible).last().unwrap_or(0)
    }

    /// Rows of a piece of operands: those of a slot's piece, or as many as a buffer holds of them.
    fn operand_rows(&self, n: u32) -> u64 {
        let depth = u64::from(n) * MAX_EXPANSION;
        (self.piece_bytes(n) / u64::from(n)).min((1 << self.buffer_bytes.ilog2()) / depth)
    }

    /// Bytes of a piece: the slot's, or as large a part of it as a buffer holds.
    pub(super) fn piece_bytes(&self, n: u32) -> u64 {
        let slot_bytes = u64::from(n) * u64::from(n);
        slot_bytes.min(1 << self.buffer_bytes.ilog2())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) first: u64,
    pub(super) values: u64,
}

/// The memory of `count` n-by-n slots and of the buffers of a pass, openings and a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BufferLayout {
    pub(super) n: u32,
    pub(super) count: u32,
    pub(super) piece_bytes: u64,
    pub(super) pieces_per_slot: u64,
    /// How many pieces a buffer holds; the last one may hold fewer.
    pub(super) pieces_per_buffer: u64,
    /// Rows of a piece of operands, where they are not the slots: a part of a piece's, and each in a buffer of its own.
    pub(super) operand_rows: u64,
    /// Whether a probe cannot bind all slot buffers at once, and needs its states twice.
    pub(super) grouped: bool,
    /// The digests of all slots.
    pub(super) digests: Region,
    /// The digest of a round of a probe, or of the sweep.
    pub(super) round_digest: Region,
    /// The completion counter: one word.
    pub(super) completion_counter: Region,
    /// Chaining values of all chunks of a slot, or those that workgroups merged from the chunks of a string; before those,
    /// the weights of a round of the sweep, which are shorter: n ≤ n² / 32.
    pub(super) values: Region,
    /// Chaining values that workgroups merged from those.
    pub(super) merged: Region,
}

impl BufferLayout {
    pub(super) fn new(bounds: &AdapterBounds, n: u32, count: u32) -> Self {
        let slot_bytes = u64::from(n) * u64::from(n);
        let piece_bytes = bounds.piece_bytes(n);
        let pieces_per_slot = slot_bytes / piece_bytes;
        let pieces_per_buffer = bounds.buffer_bytes / piece_bytes;
        let buffers = (u64::from(count) * pieces_per_slot).div_ceil(pieces_per_buffer);
        let string_chunks = slot_bytes.max(MAX_STATES_BYTES).max(sums_bytes(n, count)) / CHUNK_BYTES;
        let digests = Region { first: 0, values: count.into() };
        let round_digest = after(digests, 1);
        let completion_counter = after(round_digest, 1);
        let values = after(completion_counter, (slot_bytes / CHUNK_BYTES).max(string_chunks / GROUP_CHUNKS));
        let merged = after(values, string_chunks / GROUP_CHUNKS / GROUP_VALUES);
        Self {
            n,
            count,
            piece_bytes,
            pieces_per_slot,
            pieces_per_buffer,
            operand_rows: bounds.operand_rows(n),
            grouped: buffers > u64::from(bounds.slot_buffers),
            digests,
            round_digest,
            completion_counter,
            values,
            merged,
        }
    }

    pub(super) const fn slots(&self) -> Slots {
        Slots { n: self.n, count: self.count }
    }

    pub(super) const fn slot_bytes(&self) -> u64 {
        self.slots().slot_bytes()
    }

    pub(super) const fn pieces(&self) -> u64 {
        self.count as u64 * self.pieces_per_slot
    }

    pub(super) const fn piece_rows(&self) -> u64 {
        self.piece_bytes / self.n as u64
    }

    /// Bytes of each buffer of operands, where a byte of a slot becomes `expansion`, and how many buffers a matrix has.
    pub(super) const fn operand_buffers(&self, expansion: u32) -> (u64, usize) {
        (self.operand_rows * self.n as u64 * expansion as u64, (self.n as u64 / self.operand_rows) as usize)
    }

    /// Bytes of the operands of any kind of work. A device has one number of slots for all kinds, so that these bytes
    /// are kept free for kinds whose operands are slots, too.
    const fn operand_bytes(&self) -> u64 {
        OPERAND_MATRICES as u64 * MAX_EXPANSION * self.slot_bytes()
    }

    pub(super) fn slot_buffers(&self) -> impl ExactSizeIterator<Item = u64> + use<> {
        let Self { piece_bytes, pieces_per_buffer, .. } = *self;
        let pieces = self.pieces();
        let buffers = pieces.div_ceil(pieces_per_buffer) as u32;
        (0..buffers).map(move |b| pieces_per_buffer.min(pieces - u64::from(b) * pieces_per_buffer) * piece_bytes)
    }

    pub(super) const fn scratch_bytes(&self) -> u64 {
        (self.merged.first + self.merged.values) * HASH_BYTES
    }

    /// Bytes of the states that are taken with the slots, or of the sums where these are longer: sums take 4/n of the
    /// slots, up to twice that with zeros, and so 1/32 at most. States take 1/8, but no more than the largest, which sums of
    /// small slots exceed from 8 GiB of slots on.
    pub(super) fn states_bytes(&self) -> u64 {
        let most = self.slots().bytes() / SLOTS_PER_STATES;
        most.next_power_of_two().min(MAX_STATES_BYTES).max(self.sums_bytes())
    }

    /// Bytes of the sums of a round of the sweep, with the zeros behind them.
    pub(super) const fn sums_bytes(&self) -> u64 {
        sums_bytes(self.n, self.count)
    }

    /// Rows in each buffer of slots but the last.
    pub(super) const fn buffer_rows(&self) -> u64 {
        self.pieces_per_buffer * self.piece_rows()
    }

    /// Bytes that all of it takes of the device.
    pub(super) fn total_bytes(&self) -> u64 {
        let states = self.states_bytes() * if self.grouped { 2 } else { 1 };
        self.slots().bytes() + self.operand_bytes() + self.scratch_bytes() + states
    }

    /// Whether an adapter can bind all of it, memory aside.
    pub(super) const fn is_possible(&self, bounds: &AdapterBounds) -> bool {
        self.scratch_bytes() <= bounds.binding_bytes
    }
}

/// The sizes of the buffers that states of `bytes`, a power of two, lie in.
pub(super) fn state_buffers(bounds: &AdapterBounds, bytes: u64) -> (u64, u32) {
    let buffer = bytes.min(1 << bounds.buffer_bytes.ilog2());
    (buffer, (bytes / buffer) as u32)
}

/// How many n-by-n slots fit into `free_bytes`, of which a share stays unused.
pub(super) fn slots_that_fit(bounds: &AdapterBounds, n: u32, free_bytes: u64) -> u32 {
    if check_size(n).is_err() || n > bounds.largest_n() {
        return 0;
    }
    let usable = usable_bytes(free_bytes);
    max_slots(|count| {
        let layout = BufferLayout::new(bounds, n, count);
        layout.is_possible(bounds) && layout.total_bytes() <= usable
    })
}

/// The part of free memory that is used at most.
pub(super) const fn usable_bytes(free_bytes: u64) -> u64 {
    free_bytes / 100 * MAX_PERCENT
}

/// The region behind another, aligned to an offset where a binding could start.
const fn after(region: Region, values: u64) -> Region {
    Region { first: (region.first + region.values).next_multiple_of(ALIGNMENT / HASH_BYTES), values }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_work::challenge::MAX_TOTAL;
    use assay_work::rule::network::Tensor;

    fn bounds(buffer_bytes: u64, slot_buffers: u32) -> AdapterBounds {
        AdapterBounds { buffer_bytes, binding_bytes: 1 << 27, slot_buffers }
    }

    #[test]
    fn small_limits_are_refused_by_name() {
        assert_eq!(refusal(&Limits::default()), None);
        let few = Limits { max_storage_buffers_per_shader_stage: 2, ..Limits::default() };
        assert_eq!(refusal(&few).unwrap(), "it offers 2 storage buffers in a shader, and 3 are the least");
        let none = Limits { max_compute_workgroup_storage_size: 2048, ..Limits::default() };
        assert!(refusal(&none).unwrap().contains("workgroup memory"));
    }

    /// An adapter that is not refused has room for the smallest pass.
    #[test]
    fn the_least_adapter_has_room_for_the_smallest_pass() {
        let least = Limits { max_storage_buffer_binding_size: MIN_BINDING_BYTES, ..Limits::default() };
        assert_eq!(refusal(&least), None);
        let bounds = AdapterBounds::new(&least, None);
        assert!(BufferLayout::new(&bounds, MIN_N, MIN_COUNT).is_possible(&bounds));
    }

    /// A regression: on Metal 29 storage buffers may be bound, and 29 buffers altogether.
    #[test]
    fn what_the_probe_binds_leaves_room_for_its_parameters() {
        let metal = Limits {
            max_storage_buffers_per_shader_stage: 29,
            max_buffers_and_acceleration_structures_per_shader_stage: 29,
            ..Limits::default()
        };
        assert_eq!(AdapterBounds::new(&metal, None).slot_buffers, 26);
        let vulkan = Limits { max_buffers_and_acceleration_structures_per_shader_stage: u32::MAX, ..metal };
        assert_eq!(AdapterBounds::new(&vulkan, None).slot_buffers, 27);
    }

    #[test]
    fn buffers_hold_whole_pieces() {
        let limits = Limits { max_storage_buffer_binding_size: (1 << 31) - 4, ..Limits::default() };
        let limits = Limits { max_buffer_size: u64::MAX, ..limits };
        let bounds = AdapterBounds::new(&limits, None);
        assert_eq!(bounds.buffer_bytes, (1 << 31) - MIN_BUFFER_BYTES);
        assert_eq!(bounds.piece_bytes(32_768), 1 << 30);
        let layout = BufferLayout::new(&bounds, 8192, 100);
        assert_eq!((layout.piece_bytes, layout.pieces_per_buffer), (64 << 20, 31));
        let buffers: Vec<_> = layout.slot_buffers().map(|bytes| bytes >> 26).collect();
        assert_eq!(buffers, [31, 31, 31, 7]);
        assert_eq!(AdapterBounds::new(&limits, Some(100_000)).buffer_bytes, 65_536);
        assert_eq!(AdapterBounds::new(&limits, Some(1)).buffer_bytes, 65_536);
    }

    #[test]
    fn a_slot_larger_than_a_buffer_is_cut_into_rows() {
        let layout = BufferLayout::new(&bounds(5 << 16, 8), 1024, 3);
        assert_eq!((layout.piece_bytes, layout.pieces_per_slot, layout.pieces_per_buffer), (1 << 18, 4, 1));
        assert_eq!(layout.piece_rows(), 256);
        assert_eq!(layout.slot_buffers().collect::<Vec<_>>(), [1 << 18; 12]);
        assert!(layout.grouped, "12 buffers, and 8 can be bound");
    }

    /// Operands of twice the bytes are cut into twice the pieces where a piece of a slot fills a buffer.
    #[test]
    fn operands_are_cut_into_rows_that_a_buffer_holds() {
        for (buffer_bytes, n, rows, buffers) in
            [(1 << 27, 8192, 8192, 1), (1 << 27, 32_768, 2048, 16), (5 << 16, 512, 256, 2)]
        {
            let bounds = bounds(buffer_bytes, 8);
            let layout = BufferLayout::new(&bounds, n, 3);
            assert_eq!((layout.operand_rows, layout.operand_buffers(2).1), (rows, buffers), "n = {n}");
            assert!(layout.operand_buffers(2).0 <= bounds.buffer_bytes && layout.piece_rows().is_multiple_of(rows));
            assert_eq!(layout.operand_buffers(1).0 * 2, layout.operand_buffers(2).0);
            let all = layout.operand_buffers(2).0 * layout.operand_buffers(2).1 as u64 * OPERAND_MATRICES as u64;
            assert!(layout.total_bytes() >= layout.slots().bytes() + all, "n = {n}");
        }
    }

    #[test]
    fn the_largest_size_is_that_whose_pieces_hold_a_tile() {
        assert_eq!(bounds(1 << 27, 8).largest_n(), 32_768);
        assert_eq!(bounds(1 << 20, 8).largest_n(), 8192);
        assert_eq!(bounds(1 << 16, 8).largest_n(), 512);
        assert_eq!(slots_that_fit(&bounds(1 << 16, 8), 1024, 1 << 40), 0);
        assert!(slots_that_fit(&bounds(1 << 20, 8), 1024, 1 << 40) > 0);
    }

    /// The windows of a convolution's rows lie in the piece of those rows and the next one.
    #[test]
    fn pieces_hold_the_rows_that_windows_reach() {
        for bounds in (16..=31).map(|log| bounds(1 << log, 8)) {
            for n in (8..=15).map(|log| 1 << log).filter(|n| *n <= bounds.largest_n()) {
                let rows = BufferLayout::new(&bounds, n, 3).piece_rows();
                assert!(rows >= Tensor::new(n).width as u64 / 4, "n = {n}, {bounds:?}");
            }
        }
    }

    #[test]
    fn regions_follow_one_another_and_the_scratch_can_be_bound() {
        for (n, count) in [(256, 3), (256, 1 << 20), (8192, 1000), (32_768, 3)] {
            let bounds = bounds(1 << 27, 8);
            let layout = BufferLayout::new(&bounds, n, count);
            let regions =
                [layout.digests, layout.round_digest, layout.completion_counter, layout.values, layout.merged];
            for pair in regions.windows(2) {
                assert!(pair[0].first + pair[0].values <= pair[1].first, "{layout:?}");
            }
            assert!(layout.is_possible(&bounds), "{layout:?}");
            assert!(layout.values.values >= layout.slot_bytes() / CHUNK_BYTES);
            assert!(layout.values.values * HASH_BYTES >= u64::from(n), "weights");
            assert!(layout.states_bytes() >= layout.sums_bytes());
            // One value for each workgroup, of a slot, of the largest states and of sums; then one for each 128 of those.
            let chunks = layout.slot_bytes().max(MAX_STATES_BYTES).max(layout.sums_bytes()) / CHUNK_BYTES;
            assert!(layout.values.values >= chunks / GROUP_CHUNKS);
            assert!(layout.merged.values >= chunks / GROUP_CHUNKS / GROUP_VALUES);
        }
    }

    #[test]
    fn what_fits_fits_and_one_more_does_not() {
        for bounds in [bounds(1 << 27, 6), bounds((1 << 31) - MIN_BUFFER_BYTES, 30)] {
            for n in [256, 1024, 8192, 32_768] {
                for free in [16 << 20, 200 << 20, 8 << 30, 180_u64 << 30] {
                    let fit = slots_that_fit(&bounds, n, free);
                    let fits = |count| BufferLayout::new(&bounds, n, count).total_bytes() <= usable_bytes(free);
                    assert!(fit == 0 || fits(fit), "n = {n}, {free}");
                    assert!(fit == MAX_TOTAL as u32 || !fits(fit + 1), "n = {n}, {free}");
                }
            }
        }
    }

    #[test]
    fn states_are_cut_into_equal_buffers() {
        assert_eq!(state_buffers(&bounds(1 << 27, 8), 4096), (4096, 1));
        assert_eq!(state_buffers(&bounds(1 << 27, 8), 1 << 28), (1 << 27, 2));
        assert_eq!(state_buffers(&bounds(5 << 16, 8), 1 << 20), (1 << 18, 4));
    }
}
