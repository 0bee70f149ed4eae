//! The kernels of one device, loaded, and their launches (docs/KERNELS.md, Kernel interfaces).

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave, CUtensorMapL2promotion,
    CUtensorMapSwizzle,
};

use super::cache::ModuleMarker;
use super::config::CudaConfig;
use super::describe::DeviceDescription;
use super::driver::{Context, Function, Launch, Module, Stream, call};
use super::error::{CudaError, Fault};
use super::family;
use super::memory::Peers;
use super::modules::{self, Ptx};
use super::plan::BLOCK_CHUNKS;
use super::product::Product;
use super::products::{LoadedKernel, Products};
use assay_device::accumulator::OperandFormat;
use assay_device::backend::StartupProgress;
use assay_device::{LinkedShare, Pass};
use assay_work::Precision;
use assay_work::rule::field::GROUP_BYTES;
use assay_work::rule::network::{self, Layer, Tensor};

/// Threads of a block of most kernels.
const THREADS: u32 = 256;
/// Threads that make the steps of one walk.
const PROBE_LANES: u32 = 4;
/// Bytes of a block of ChaCha.
pub(super) const KEYSTREAM_BLOCK_BYTES: u64 = 64;
/// Columns of the box that a tensor map moves: as wide as its swizzle.
const BOX_COLUMNS: u32 = 128;
/// Modules that every device loads, beside those of its families.
const COMMON: [&str; 7] = ["keystream", "digest", "probe", "expand", "field", "network", "sweep"];

/// Bytes of operands that a thread expands.
const EXPANDED_PIECE_BYTES: u64 = 16;
/// Threads of a block of the rule of precision 7, each with a group.
const FIELD_THREADS: u32 = 128;
/// Blocks of one launch of it: 2²⁶ steps.
const MAX_FIELD_BLOCKS: u32 = 8192;
/// Rows that a block sums.
const SWEEP_BLOCK_ROWS: u32 = 64;

/// Launches a kernel with arguments of the types of its parameters, by their values.
macro_rules! launch {
    ($function:expr, $stream:expr, $launch:expr, $($argument:expr),+) => {
        $function.launch($stream, $launch, &mut [$(pointer(&mut { $argument })),+])
    };
}

/// All kernels that a device needs.
#[derive(Debug)]
pub(super) struct Kernels {
    keystream: Function,
    digest: Function,
    subtrees: Function,
    probe: Function,
    step: Function,
    linked_probe: Function,
    expand: Function,
    field: Function,
    convolution: Function,
    attention: Function,
    noise: Function,
    sweep: Function,
    pub(super) products: Products,
    /// The most blocks of a persistent kernel.
    multiprocessors: u32,
}

impl Kernels {
    /// Loads the modules of a device, which the driver compiles the first time. Of the families that need no
    /// self-test the fastest that loads computes each kind of work.
    pub(super) fn load(
        context: &Arc<Context>,
        device: &DeviceDescription,
        config: &CudaConfig,
        progress: &mut dyn FnMut(StartupProgress),
    ) -> Result<Self, CudaError> {
        let families = family::candidates(Precision::Int8, config.kernel, device.capability);
        let first = families.first().map(|family| family.module());
        let names: Vec<_> = COMMON.into_iter().chain(first).collect();
        let ptx: Vec<&Ptx> = names.iter().filter_map(|name| modules::find(name)).collect();
        let marker =
            ModuleMarker::new(config.cache_folder.as_deref(), &ptx, context.library().version, device.capability);
        let what = if marker.is_set() { "loading kernels" } else { "compiling kernels, once" };
        let mut done = 0;
        let mut step = || {
            progress(StartupProgress { what: what.into(), done, total: names.len() as u64 });
            done += 1;
        };
        let mut common = Vec::new();
        for name in COMMON {
            step();
            common.push(module(context, device, name)?);
        }
        step();
        let mut products = Products::default();
        products.choose_untested(context, device, config.kernel)?;
        step();
        marker.set();
        let digest = function(device, &common[1], "assay_digest")?;
        if family::shares_multiprocessors(device.capability) {
            digest.prefer_shared_memory();
        }
        Ok(Self {
            keystream: function(device, &common[0], "assay_keystream")?,
            digest,
            subtrees: function(device, &common[1], "assay_subtrees")?,
            probe: function(device, &common[2], "assay_probe")?,
            step: function(device, &common[2], "assay_step")?,
            linked_probe: function(device, &common[2], "assay_linked_probe")?,
            expand: function(device, &common[3], "assay_expand")?,
            field: function(device, &common[4], "assay_field")?,
            convolution: function(device, &common[5], "assay_convolution")?,
            attention: function(device, &common[5], "assay_attention")?,
            noise: function(device, &common[5], "assay_noise")?,
            sweep: function(device, &common[6], "assay_sweep")?,
            products,
            multiprocessors: device.multiprocessors,
        })
    }

    /// Multiprocessors of the device: tiles that it works on at once.
    pub(super) const fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Enqueues `bytes` bytes of a keystream, a multiple of 64.
    ///
    /// # Safety
    /// `out` is the address of `bytes` bytes of the stream's context, which live until the stream is done.
    pub(super) unsafe fn keystream(
        &self,
        stream: &Stream,
        key: &[u8; 32],
        id: u32,
        out: u64,
        bytes: u64,
    ) -> Result<(), Fault> {
        // At most 2³⁰ bytes in a slot, and in the states.
        let blocks = (bytes / KEYSTREAM_BLOCK_BYTES) as u32;
        let launch = Launch { grid: blocks.div_ceil(THREADS), threads: THREADS, shared_bytes: 0 };
        // SAFETY: the types are those of the kernel in `kernels/cuda`; the caller vouches for the memory.
        unsafe { launch!(self.keystream, stream, launch, out, words(key), u64::from(id), blocks) }
    }

    /// Enqueues the operands of a slot: `bytes` bytes of them, in the format of a unit.
    ///
    /// # Safety
    /// Both addresses are of the stream's context and live until the stream is done: the slot, which earlier work of
    /// the stream has written, and `bytes` bytes at `to`, the length of its operands in that format.
    pub(super) unsafe fn expand(
        &self,
        stream: &Stream,
        slot: u64,
        to: u64,
        bytes: u64,
        precision: Precision,
        format: OperandFormat,
    ) -> Result<(), Fault> {
        // At most 2³¹ bytes of operands.
        let pieces = (bytes / EXPANDED_PIECE_BYTES) as u32;
        let (kind, encoding) = (precision.code(), encoding_of(format));
        let launch = Launch { grid: pieces.div_ceil(THREADS), threads: THREADS, shared_bytes: 0 };
        // SAFETY: the types are those of the kernel in `kernels/cuda`; the caller vouches for the memory.
        unsafe { launch!(self.expand, stream, launch, slot, to, pieces, kind, encoding) }
    }

    /// Enqueues y of slot `u` by the rule of precision 7, in launches that a small GPU computes in 20 ms.
    ///
    /// # Safety
    /// Both addresses are of the stream's context and live until the stream is done: the n-by-n slot, which earlier work of
    /// the stream has written, and as many bytes at `to`.
    pub(super) unsafe fn field(&self, stream: &Stream, slot: u64, to: u64, n: u32, u: u32) -> Result<(), Fault> {
        // At most 2³⁰ bytes in a slot, and whole blocks.
        let blocks = n * n / (FIELD_THREADS * GROUP_BYTES as u32);
        for block in (0..blocks).step_by(MAX_FIELD_BLOCKS as usize) {
            let first = block * FIELD_THREADS;
            let launch = Launch { grid: MAX_FIELD_BLOCKS.min(blocks - block), threads: FIELD_THREADS, shared_bytes: 0 };
            // SAFETY: the types are those of the kernel in `kernels/cuda`; the caller vouches for the memory.
            unsafe { launch!(self.field, stream, launch, slot, to, n, u, first) }?;
        }
        Ok(())
    }

    /// Enqueues x of slot `u` of a pass by the rule of precision 8.
    ///
    /// # Safety
    /// As for [`Kernels::field`], with n of the pass.
    pub(super) unsafe fn network(&self, stream: &Stream, slot: u64, to: u64, pass: &Pass, u: u32) -> Result<(), Fault> {
        let (n, width, key) = (pass.n, Tensor::new(pass.n).width as u32, words(&network::noise_key(&pass.key, u)));
        let launch = |thread_bytes| Launch { grid: n * n / thread_bytes / THREADS, threads: THREADS, shared_bytes: 0 };
        // SAFETY: the types are those of the kernels in `kernels/cuda`; the caller vouches for the memory.
        unsafe {
            match Layer::of(u) {
                Layer::Convolution => launch!(self.convolution, stream, launch(16), slot, to, n, width),
                Layer::Attention => launch!(self.attention, stream, launch(n / 32), slot, to, n),
                Layer::Noise => launch!(self.noise, stream, launch(32), slot, to, key),
            }
        }
    }

    /// Enqueues tiles of a product.
    ///
    /// # Safety
    /// Operands, slot and sums of `product` are of the stream's context and live until the stream is done; its tiles
    /// are some that an n-by-n product has, and earlier work of the stream has written both operands.
    pub(super) unsafe fn multiply(
        &self,
        stream: &Stream,
        loaded: &LoadedKernel,
        product: Product,
    ) -> Result<(), Fault> {
        // SAFETY: the caller's.
        unsafe { self.multiply_in(stream, loaded, product, self.multiprocessors) }
    }

    /// As [`Kernels::multiply`], in at most `blocks` blocks of a persistent kernel.
    ///
    /// # Safety
    /// As for [`Kernels::multiply`].
    pub(super) unsafe fn multiply_in(
        &self,
        stream: &Stream,
        loaded: &LoadedKernel,
        mut product: Product,
        most_blocks: u32,
    ) -> Result<(), Fault> {
        let (family, tiles) = (loaded.family, product.tiles);
        let grid = if family.is_persistent { tiles.min(most_blocks) } else { tiles };
        let launch = Launch { grid, threads: family.threads, shared_bytes: family.shared_bytes };
        let mut maps = None;
        let mut arguments = Vec::with_capacity(3);
        if family.takes_tensor_maps {
            let map = |operand, rows| stream.context().check(tensor_map(operand, &product, rows));
            let (left, right) = (map(product.left, family.tile_rows)?, map(product.right, family.tile_columns)?);
            let (left, right) = maps.insert((left, right));
            arguments.extend([pointer(left), pointer(right)]);
        }
        arguments.push(pointer(&mut product));
        // SAFETY: the types are those of the kernel in `kernels/cuda`; the caller vouches for the memory.
        unsafe { loaded.function.launch(stream, launch, &mut arguments) }
    }

    /// Enqueues the digest of `bytes` bytes, a power of two from 4096.
    ///
    /// # Safety
    /// All addresses are of the stream's context and live until the stream is done: `partials` of 32 bytes for each
    /// 131072 of the data, `arrivals` of a zero word that nothing else uses meanwhile, `digest` of 32 bytes.
    pub(super) unsafe fn digest(
        &self,
        stream: &Stream,
        data: u64,
        bytes: u64,
        partials: u64,
        arrivals: u64,
        digest: u64,
    ) -> Result<(), Fault> {
        let chunks = chunks(bytes);
        // SAFETY: the types are those of the kernel in `kernels/cuda`; the caller vouches for the memory.
        unsafe { launch!(self.digest, stream, by_chunks(chunks), data, chunks, partials, arrivals, digest) }
    }

    /// Enqueues the chaining values of the subtrees of `subtree_chunks` chunks that `bytes` bytes consist of.
    ///
    /// # Safety
    /// Both addresses are of the stream's context and live until the stream is done: `values` of 32 bytes for each
    /// subtree, of which there are at least two.
    pub(super) unsafe fn subtrees(
        &self,
        stream: &Stream,
        data: u64,
        bytes: u64,
        subtree_chunks: u32,
        values: u64,
    ) -> Result<(), Fault> {
        let chunks = chunks(bytes);
        // SAFETY: the types are those of the kernel in `kernels/cuda`; the caller vouches for the memory.
        unsafe { launch!(self.subtrees, stream, by_chunks(chunks), data, chunks, subtree_chunks, values) }
    }

    /// Enqueues `steps` steps of every walk over `count` slots of `slot_bytes`.
    ///
    /// # Safety
    /// Both addresses are of the stream's context and live until the stream is done: the slots, filled, and 64 bytes of
    /// state for each walk.
    pub(super) unsafe fn probe(
        &self,
        stream: &Stream,
        slots: u64,
        (count, slot_bytes): (u32, u64),
        (walks, steps): (u32, u32),
        states: u64,
    ) -> Result<(), Fault> {
        // At most 2³⁰ / 64.
        let lines = (slot_bytes / 64) as u32;
        let launch = Launch { grid: (walks * PROBE_LANES).div_ceil(THREADS), threads: THREADS, shared_bytes: 0 };
        // SAFETY: the types are those of the kernel in `kernels/cuda`; the caller vouches for the memory.
        unsafe { launch!(self.probe, stream, launch, slots, count, lines, walks, steps, states) }
    }

    /// Enqueues `steps` steps of every walk over the slots of all devices.
    ///
    /// # Safety
    /// All addresses are of the stream's context and live until the stream is done: the slots of each device, filled, and 64
    /// bytes of state for each walk.
    ///
    /// # Panics
    /// When there are more devices than the kernel knows.
    pub(super) unsafe fn linked_probe(
        &self,
        stream: &Stream,
        peers: &Peers,
        slot_bytes: u64,
        (walks, steps): (u32, u32),
        states: u64,
    ) -> Result<(), Fault> {
        let mut table = PeerTable { bases: [0; MAX_PEERS], first: [0; MAX_PEERS], devices: peers.places.len() as u32 };
        for (device, (first, address)) in peers.places.iter().enumerate() {
            (table.first[device], table.bases[device]) = (*first, *address);
        }
        let lines = (slot_bytes / 64) as u32;
        let launch = Launch { grid: (walks * PROBE_LANES).div_ceil(THREADS), threads: THREADS, shared_bytes: 0 };
        // SAFETY: the types are those of the kernel in `kernels/cuda`; the caller vouches for the memory.
        unsafe { launch!(self.linked_probe, stream, launch, table, peers.total, lines, walks, steps, states) }
    }

    /// Enqueues one step of `walks` linked walks, at least one, over the slots of a share.
    ///
    /// # Safety
    /// All addresses are of the stream's context and live until the stream is done: the slots of the share, filled, 64 bytes
    /// of state for each walk, and a word, which becomes 1 where a state names another device's line.
    pub(super) unsafe fn step(
        &self,
        stream: &Stream,
        slots: u64,
        share: &LinkedShare,
        walks: u32,
        states: u64,
        refused: u64,
    ) -> Result<(), Fault> {
        let LinkedShare { n, offset: first, count, total } = *share;
        // At most 2³⁰ / 64.
        let lines = (u64::from(n) * u64::from(n) / 64) as u32;
        let launch = Launch { grid: (walks * PROBE_LANES).div_ceil(THREADS), threads: THREADS, shared_bytes: 0 };
        // SAFETY: the types are those of the kernel in `kernels/cuda`; the caller vouches for the memory.
        unsafe { launch!(self.step, stream, launch, slots, first, count, total, lines, walks, states, refused) }
    }

    /// Enqueues the sums of all rows of `count` n-by-n slots, at most 2²⁰ of them.
    ///
    /// # Safety
    /// All addresses are of the stream's context and live until the stream is done: the slots and n bytes of weights, which
    /// earlier work of the stream has written, and 4 bytes for each row.
    pub(super) unsafe fn sweep(
        &self,
        stream: &Stream,
        slots: u64,
        weights: u64,
        (n, count): (u32, u32),
        sums: u64,
    ) -> Result<(), Fault> {
        // At most 2⁹ blocks for a slot.
        let launch = Launch { grid: n / SWEEP_BLOCK_ROWS * count, threads: THREADS, shared_bytes: 0 };
        // SAFETY: the types are those of the kernel in `kernels/cuda`; the caller vouches for the memory.
        unsafe { launch!(self.sweep, stream, launch, slots, weights, n, sums) }
    }
}

/// The most devices of a linked probe: those of a host.
const MAX_PEERS: usize = 64;

/// `probe::Peers` of probe.cu.
#[repr(C)]
struct PeerTable {
    bases: [u64; MAX_PEERS],
    first: [u32; MAX_PEERS],
    devices: u32,
}

fn module(context: &Arc<Context>, device: &DeviceDescription, name: &str) -> Result<Arc<Module>, CudaError> {
    let none = || CudaError::NoKernel { device: device.title(), reasons: format!("{name}: not in this build") };
    let ptx = modules::find(name).ok_or_else(none)?;
    Module::new(context, ptx.name, ptx.text).map_err(|fault| match fault.is_of_module() {
        true => CudaError::NoKernel { device: device.title(), reasons: format!("{name}: {fault}") },
        false => CudaError::of_device(&device.title(), fault),
    })
}

fn function(device: &DeviceDescription, module: &Arc<Module>, name: &'static str) -> Result<Function, CudaError> {
    Function::new(module, name).map_err(|fault| CudaError::of_device(&device.title(), fault))
}

/// One operand of a product as a matrix of bytes, moved in boxes of `rows` rows.
fn tensor_map(operand: u64, product: &Product, rows: u32) -> Result<CUtensorMap, Fault> {
    let mut map = CUtensorMap { opaque: [0; 16] };
    let sizes = [u64::from(product.depth), u64::from(product.n)];
    let pitch_bytes = [u64::from(product.depth)];
    let (moved, steps) = ([BOX_COLUMNS, rows], [1, 1]);
    // SAFETY: two dimensions, and so many numbers behind each pointer; the address is only written into the map.
    let result = unsafe {
        sys::cuTensorMapEncodeTiled(
            &raw mut map,
            CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
            2,
            operand as *mut c_void,
            sizes.as_ptr(),
            pitch_bytes.as_ptr(),
            moved.as_ptr(),
            steps.as_ptr(),
            CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    call(result, "describing an operand to the tensor memory accelerator").map(|()| map)
}

/// The number of a format in the kernel that expands operands.
const fn encoding_of(format: OperandFormat) -> u32 {
    match format {
        OperandFormat::Int8 | OperandFormat::Int16 => 0,
        OperandFormat::Bf16 => 1,
        OperandFormat::F16 => 2,
        OperandFormat::E4m3 | OperandFormat::E2m1 => 3,
    }
}

/// A key as the kernels take it.
fn words(key: &[u8; 32]) -> [u32; 8] {
    std::array::from_fn(|i| u32::from_le_bytes(std::array::from_fn(|j| key[4 * i + j])))
}

/// Chunks of a string: at most 2²⁰ of a slot of 2³⁰ bytes, and 2²⁷ of the sums of the most rows.
const fn chunks(bytes: u64) -> u32 {
    (bytes / super::plan::CHUNK_BYTES) as u32
}

fn by_chunks(chunks: u32) -> Launch {
    let threads = BLOCK_CHUNKS as u32;
    Launch { grid: (chunks / threads).max(1), threads, shared_bytes: 0 }
}

fn pointer<T>(value: &mut T) -> *mut c_void {
    (&raw mut *value).cast()
}
