//! The kernels of one device, loaded, and their launches (kernels/README.md, Kernel interfaces).

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave, CUtensorMapL2promotion,
    CUtensorMapSwizzle,
};

use super::cache::Marker;
use super::config::CudaConfig;
use super::describe::DeviceDescription;
use super::driver::{Context, Function, Launch, Module, Stream, call};
use super::error::{CudaError, Fault};
use super::family::{self, Family};
use super::modules::{self, Ptx};
use super::plan::BLOCK_CHUNKS;
use assay_device::backend::Preparing;

/// Threads of a block of the keystream and of the probe.
const THREADS: u32 = 256;
/// Threads that make the steps of one walk.
const PROBE_LANES: u32 = 4;
/// Bytes of a block of ChaCha.
const KEYSTREAM_BLOCK_BYTES: u64 = 64;
/// Shared memory that a block may take without asking.
const UNASKED_SHARED_BYTES: u32 = 48 << 10;
/// Columns of the box that a tensor map moves: as wide as its swizzle.
const BOX_COLUMNS: u32 = 128;
/// Modules that every device loads, beside that of its family.
const COMMON: [&str; 3] = ["keystream", "digest", "probe"];

/// All kernels that a device needs.
#[derive(Debug)]
pub(super) struct Kernels {
    keystream: Function,
    digest: Function,
    subtrees: Function,
    probe: Function,
    product: Function,
    /// The launch parameters of `product`.
    pub(super) family: &'static Family,
    /// The most blocks of a persistent kernel.
    multiprocessors: u32,
    /// Faster families that could not be loaded, and why.
    pub(super) passed_over: Vec<String>,
}

/// The slots that products are computed in, as their kernel takes them.
#[derive(Debug)]
pub(super) struct Operands {
    /// Where slot 0 starts.
    slots: u64,
    n: u32,
    maps: Option<Box<[CUtensorMap; 2]>>,
}

/// Tiles of one product.
#[derive(Debug, Clone, Copy)]
pub(super) struct Band {
    /// The slot that is computed.
    pub(super) u: u32,
    /// Its parents.
    pub(super) earlier: u32,
    /// The slot before it.
    pub(super) previous: u32,
    /// The first tile.
    pub(super) first_tile: u32,
    /// How many.
    pub(super) tiles: u32,
}

impl Kernels {
    /// Loads the modules of a device, which the driver compiles the first time. The fastest family that loads is used.
    pub(super) fn load(
        context: &Arc<Context>,
        device: &DeviceDescription,
        config: &CudaConfig,
        progress: &mut dyn FnMut(Preparing),
    ) -> Result<Self, CudaError> {
        let families = family::candidates(config.kernel, device.capability);
        let first = families.first().map(|family| family.module);
        let names: Vec<_> = COMMON.into_iter().chain(first).collect();
        let ptx: Vec<&Ptx> = names.iter().filter_map(|name| modules::find(name)).collect();
        let marker = Marker::new(config.cache_folder.as_deref(), &ptx, context.library().version, device.capability);
        let what = if marker.is_set() { "loading kernels" } else { "compiling kernels, once" };
        let mut done = 0;
        let mut step = || {
            progress(Preparing { what: what.into(), done, total: names.len() as u64 });
            done += 1;
        };
        let mut common = Vec::new();
        for name in COMMON {
            step();
            common.push(module(context, device, name)?);
        }
        step();
        let mut passed_over = Vec::new();
        for family in families {
            match load_family(context, device, family) {
                Ok(product) => {
                    step();
                    marker.set();
                    let digest = function(device, &common[1], "assay_digest")?;
                    if family.shares_multiprocessor(device.capability) {
                        prefer_shared_memory(device, [&product, &digest]);
                    }
                    return Ok(Self {
                        keystream: function(device, &common[0], "assay_keystream")?,
                        digest,
                        subtrees: function(device, &common[1], "assay_subtrees")?,
                        probe: function(device, &common[2], "assay_probe")?,
                        product,
                        family,
                        multiprocessors: device.multiprocessors,
                        passed_over,
                    });
                }
                Err(NotThis::Family(reason)) => {
                    tracing::warn!(device = %device.id, family = family.name(), %reason, "kernels passed over");
                    passed_over.push(format!("{}: {reason}", family.name()));
                }
                Err(NotThis::Device(fault)) => return Err(CudaError::of_device(&device.title(), fault)),
            }
        }
        Err(CudaError::NoKernel { device: device.title(), reasons: passed_over.join("; ") })
    }

    /// Multiprocessors of the device: tiles that it works on at once.
    pub(super) const fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// The slots in the form that the product's kernel takes.
    pub(super) fn operands(&self, context: &Context, slots: u64, n: u32, count: u32) -> Result<Operands, Fault> {
        let map = |rows| context.check(tensor_map(slots, n, count, rows));
        let maps = if self.family.takes_tensor_maps {
            Some(Box::new([map(self.family.tile_rows)?, map(self.family.tile_columns)?]))
        } else {
            None
        };
        Ok(Operands { slots, n, maps })
    }

    /// Enqueues `bytes` bytes of a keystream, a multiple of 64.
    ///
    /// # Safety
    /// `out` is the address of so many bytes of the stream's context, which live until the stream is done.
    pub(super) unsafe fn keystream(
        &self,
        stream: &Stream,
        key: &[u8; 32],
        id: u32,
        out: u64,
        bytes: u64,
    ) -> Result<(), Fault> {
        // At most 2³⁰ bytes in a slot, and in the states.
        let mut blocks = (bytes / KEYSTREAM_BLOCK_BYTES) as u32;
        let (mut out, mut id) = (out, u64::from(id));
        let mut words: [u32; 8] = std::array::from_fn(|i| u32::from_le_bytes(std::array::from_fn(|j| key[4 * i + j])));
        let launch = Launch { grid: blocks.div_ceil(THREADS), threads: THREADS, shared_bytes: 0 };
        let mut arguments = [pointer(&mut out), pointer(&mut words), pointer(&mut id), pointer(&mut blocks)];
        // SAFETY: the types are those of kernels/README.md; the caller vouches for the memory.
        unsafe { self.keystream.launch(stream, launch, &mut arguments) }
    }

    /// Enqueues tiles of a product.
    ///
    /// # Safety
    /// The slots of `operands` live until the stream is done; `band` names slots and tiles that there are, and what the
    /// stream runs before has filled both parents.
    pub(super) unsafe fn product(&self, stream: &Stream, operands: &mut Operands, band: Band) -> Result<(), Fault> {
        let Band { mut u, mut earlier, mut previous, mut first_tile, mut tiles } = band;
        let grid = if self.family.is_persistent { tiles.min(self.multiprocessors) } else { tiles };
        let launch = Launch { grid, threads: self.family.threads, shared_bytes: self.family.shared_bytes };
        let mut arguments = Vec::with_capacity(9);
        if let Some(maps) = &mut operands.maps {
            let [left, right] = maps.as_mut();
            arguments.extend([pointer(left), pointer(right)]);
        }
        arguments.extend([pointer(&mut operands.slots), pointer(&mut operands.n)]);
        arguments.extend([pointer(&mut earlier), pointer(&mut previous), pointer(&mut u)]);
        arguments.extend([pointer(&mut first_tile), pointer(&mut tiles)]);
        // SAFETY: the types are those of kernels/README.md; the caller vouches for the memory.
        unsafe { self.product.launch(stream, launch, &mut arguments) }
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
        let (mut data, mut partials, mut arrivals, mut digest) = (data, partials, arrivals, digest);
        let mut chunks = chunks(bytes);
        let mut arguments = [
            pointer(&mut data),
            pointer(&mut chunks),
            pointer(&mut partials),
            pointer(&mut arrivals),
            pointer(&mut digest),
        ];
        // SAFETY: the types are those of kernels/README.md; the caller vouches for the memory.
        unsafe { self.digest.launch(stream, by_chunks(chunks), &mut arguments) }
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
        let (mut data, mut subtree_chunks, mut values) = (data, subtree_chunks, values);
        let mut chunks = chunks(bytes);
        let mut arguments =
            [pointer(&mut data), pointer(&mut chunks), pointer(&mut subtree_chunks), pointer(&mut values)];
        // SAFETY: the types are those of kernels/README.md; the caller vouches for the memory.
        unsafe { self.subtrees.launch(stream, by_chunks(chunks), &mut arguments) }
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
        let (mut slots, mut count, mut walks, mut steps, mut states) = (slots, count, walks, steps, states);
        // At most 2³⁰ / 64.
        let mut lines = (slot_bytes / 64) as u32;
        let launch = Launch { grid: (walks * PROBE_LANES).div_ceil(THREADS), threads: THREADS, shared_bytes: 0 };
        let mut arguments = [
            pointer(&mut slots),
            pointer(&mut count),
            pointer(&mut lines),
            pointer(&mut walks),
            pointer(&mut steps),
            pointer(&mut states),
        ];
        // SAFETY: the types are those of kernels/README.md; the caller vouches for the memory.
        unsafe { self.probe.launch(stream, launch, &mut arguments) }
    }
}

/// Why a family was not loaded.
enum NotThis {
    /// The family cannot be used; another may.
    Family(String),
    /// The device failed.
    Device(Fault),
}

fn load_family(
    context: &Arc<Context>,
    device: &DeviceDescription,
    family: &'static Family,
) -> Result<Function, NotThis> {
    if !(family.runs_on)(device.capability) {
        let reason = format!("needs {}, and this device has {}", family.needs, device.capability);
        return Err(NotThis::Family(reason));
    }
    if family.shared_bytes > device.shared_bytes.max(UNASKED_SHARED_BYTES) {
        let (needs, has) = (family.shared_bytes, device.shared_bytes);
        return Err(NotThis::Family(format!("needs {needs} bytes of shared memory for a block, and there are {has}")));
    }
    let ptx = modules::find(family.module).ok_or_else(|| NotThis::Family("not in this build".into()))?;
    let refused = |fault: Fault| {
        if fault.is_of_module() { NotThis::Family(fault.to_string()) } else { NotThis::Device(fault) }
    };
    let module = Module::new(context, ptx.name, ptx.text).map_err(refused)?;
    let function = Function::new(&module, family.entry).map_err(refused)?;
    if family.shared_bytes > UNASKED_SHARED_BYTES {
        function.allow_shared_bytes(family.shared_bytes).map_err(refused)?;
    }
    Ok(function)
}

/// The driver sizes shared memory for one kernel at a time, and leaves no room for the other one unless asked. A refused
/// hint costs speed only.
fn prefer_shared_memory(device: &DeviceDescription, functions: [&Function; 2]) {
    for fault in functions.into_iter().filter_map(|function| function.prefer_shared_memory().err()) {
        tracing::warn!(device = %device.id, %fault, "digests may not run beside products");
    }
}

fn module(context: &Arc<Context>, device: &DeviceDescription, name: &str) -> Result<Arc<Module>, CudaError> {
    let none = || CudaError::NoKernel { device: device.title(), reasons: format!("{name}: not in this build") };
    let ptx = modules::find(name).ok_or_else(none)?;
    Module::new(context, ptx.name, ptx.text).map_err(|fault| CudaError::of_device(&device.title(), fault))
}

fn function(device: &DeviceDescription, module: &Arc<Module>, name: &'static str) -> Result<Function, CudaError> {
    Function::new(module, name).map_err(|fault| CudaError::of_device(&device.title(), fault))
}

/// All slots as one matrix of bytes, moved in boxes of `rows` rows.
fn tensor_map(slots: u64, n: u32, count: u32, rows: u32) -> Result<CUtensorMap, Fault> {
    let mut map = CUtensorMap { opaque: [0; 16] };
    let sizes = [u64::from(n), u64::from(count) * u64::from(n)];
    let pitch_bytes = [u64::from(n)];
    let (moved, steps) = ([BOX_COLUMNS, rows], [1, 1]);
    // SAFETY: two dimensions, and so many numbers behind each pointer; the address is only written into the map.
    let result = unsafe {
        sys::cuTensorMapEncodeTiled(
            &raw mut map,
            CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
            2,
            slots as *mut c_void,
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
    call(result, "describing the slots to the tensor memory accelerator").map(|()| map)
}

/// Chunks of a string: at most 2²⁰, of a slot of 2³⁰ bytes.
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
