//! The product kernels of one device: those that are loaded, and which of them computes each kind of work.

use std::sync::Arc;

use super::config::KernelChoice;
use super::describe::DeviceDescription;
use super::driver::{Context, Function, Module};
use super::error::{CudaError, Fault};
use super::family::{self, FAMILIES, KernelFamily};
use super::modules;
use super::plan::ProductRoom;
use assay_device::accumulator::UnitFinding;
use assay_work::Precision;

/// Shared memory that a block may take without asking.
pub(super) const UNASKED_SHARED_BYTES: u32 = 48 << 10;
/// Blocks of a launch that drains sums, for each multiprocessor, of a family whose blocks are its tiles: enough that few
/// stand idle at a launch's end.
const DRAINING_WAVES: u32 = 4;

/// A family's kernel on a device.
#[derive(Debug)]
pub(super) struct LoadedKernel {
    pub(super) family: &'static KernelFamily,
    pub(super) function: Function,
}

/// All product kernels of a device.
#[derive(Debug, Default)]
pub(super) struct Products {
    loaded: Vec<LoadedKernel>,
    /// By the order of [`Precision::ALL`].
    chosen: [Option<usize>; Precision::ALL.len()],
    /// Families that could not be used, and why.
    pub(super) passed_over: Vec<String>,
    pub(super) units: Vec<UnitFinding>,
}

/// The failure to load a family.
pub(super) enum LoadFailure {
    /// The family cannot be used; another may.
    Family(String),
    Device(Fault),
}

impl Products {
    /// The kernel of a kind of work; `None` where the device does not compute it.
    pub(super) fn of(&self, precision: Precision) -> Option<&LoadedKernel> {
        self.chosen[precision as usize].map(|at| &self.loaded[at])
    }

    /// The kinds of work that the device computes, ascending.
    pub(super) fn precisions(&self) -> Vec<Precision> {
        Precision::ALL.into_iter().filter(|precision| self.of(*precision).is_some()).collect()
    }

    /// A family that is loaded.
    pub(super) fn get(&self, family: &KernelFamily) -> Option<&LoadedKernel> {
        self.loaded.iter().find(|loaded| loaded.family.choice == family.choice)
    }

    /// A loaded family computes a kind of work from now on.
    pub(super) fn choose(&mut self, precision: Precision, family: &KernelFamily) {
        self.chosen[precision as usize] = self.loaded.iter().position(|loaded| loaded.family.choice == family.choice);
    }

    /// The self-test's finding about a family, if it has run.
    pub(super) fn finding(&self, precision: Precision, family: &KernelFamily) -> Option<&UnitFinding> {
        self.units.iter().find(|unit| unit.precision == precision && unit.unit == family.name())
    }

    /// Loads a family, unless it is loaded.
    pub(super) fn load(
        &mut self,
        context: &Arc<Context>,
        device: &DeviceDescription,
        family: &'static KernelFamily,
    ) -> Result<(), LoadFailure> {
        if self.get(family).is_none() {
            let function = load_family(context, device, family)?;
            self.loaded.push(LoadedKernel { family, function });
        }
        Ok(())
    }

    /// Notes why a family is not used, once.
    pub(super) fn pass_over(&mut self, device: &DeviceDescription, family: &KernelFamily, reason: &str) {
        let line = format!("{}: {reason}", family.name());
        if !self.passed_over.contains(&line) {
            tracing::warn!(device = %device.id, family = family.name(), %reason, "kernels passed over");
            self.passed_over.push(line);
        }
    }

    /// Chooses the first family that loads of those that need no test, for each kind of work that one computes. Fails
    /// only with the device's fault.
    pub(super) fn choose_untested(
        &mut self,
        context: &Arc<Context>,
        device: &DeviceDescription,
        choice: KernelChoice,
    ) -> Result<(), CudaError> {
        for precision in Precision::ALL {
            let candidates = family::candidates(precision, choice, device.capability);
            for family in candidates.into_iter().filter(|family| !family.needs_test()) {
                match self.load(context, device, family) {
                    Ok(()) => {
                        self.choose(precision, family);
                        break;
                    }
                    Err(LoadFailure::Family(reason)) => self.pass_over(device, family, &reason),
                    Err(LoadFailure::Device(fault)) => return Err(CudaError::of_device(&device.title(), fault)),
                }
            }
        }
        Ok(())
    }

    /// Refuses a device without a kernel for INT8, once all families have been tried.
    ///
    /// # Errors
    /// [`CudaError::NoKernel`]: the family asked for cannot be used.
    pub(super) fn require_int8(&self, device: &DeviceDescription) -> Result<(), CudaError> {
        if self.of(Precision::Int8).is_some() {
            return Ok(());
        }
        let reasons = match self.passed_over.as_slice() {
            [] => "the family asked for needs a test, and float units are switched off".to_owned(),
            reasons => reasons.join("; "),
        };
        Err(CudaError::NoKernel { device: device.title(), reasons })
    }
}

/// The memory of products of some kinds of work besides slots, for any family of those that a device runs.
pub(super) fn room(precisions: &[Precision], n: u32, device: &DeviceDescription) -> ProductRoom {
    let rooms = precisions.iter().flat_map(|precision| {
        let families = FAMILIES.iter().filter(|family| family.computes.contains(precision));
        let families = families.filter(|family| (family.runs_on)(device.capability));
        families.map(|family| room_of(family, *precision, n, device.multiprocessors))
    });
    rooms.fold(ProductRoom::default(), ProductRoom::max)
}

fn room_of(family: &KernelFamily, precision: Precision, n: u32, multiprocessors: u32) -> ProductRoom {
    let operands = u64::from(family.expanded_sides(precision) * family.bytes_per_byte(precision));
    let sums = if family.drains(precision, n) {
        4 * family.tile_elements() * u64::from(most_tiles(family, precision, n, multiprocessors))
    } else {
        0
    };
    ProductRoom { operands_bytes: operands * u64::from(n) * u64::from(n), sums_bytes: sums }
}

/// Tiles of one launch at most. Each block that drains has its own part of the sums.
pub(super) fn most_tiles(family: &KernelFamily, precision: Precision, n: u32, multiprocessors: u32) -> u32 {
    let tiles = family.tiles(n);
    match (family.drains(precision, n), family.is_persistent) {
        (false, _) => tiles,
        (true, true) => multiprocessors.min(tiles),
        (true, false) => (DRAINING_WAVES * multiprocessors).min(tiles),
    }
}

fn load_family(
    context: &Arc<Context>,
    device: &DeviceDescription,
    family: &'static KernelFamily,
) -> Result<Function, LoadFailure> {
    if !(family.runs_on)(device.capability) {
        let reason = format!("needs {}, and this device has {}", family.needs, device.capability);
        return Err(LoadFailure::Family(reason));
    }
    if family.shared_bytes > device.shared_bytes.max(UNASKED_SHARED_BYTES) {
        let (needs, has) = (family.shared_bytes, device.shared_bytes);
        return Err(LoadFailure::Family(format!(
            "needs {needs} bytes of shared memory for a block, and there are {has}"
        )));
    }
    let ptx = modules::find(family.module()).ok_or_else(|| LoadFailure::Family("not in this build".into()))?;
    let refused = |fault: Fault| {
        if fault.is_of_module() { LoadFailure::Family(fault.to_string()) } else { LoadFailure::Device(fault) }
    };
    let module = Module::new(context, ptx.name, ptx.text).map_err(refused)?;
    let function = Function::new(&module, family.entry).map_err(refused)?;
    if family.shared_bytes > UNASKED_SHARED_BYTES {
        function.allow_shared_bytes(family.shared_bytes).map_err(refused)?;
    }
    if family::shares_multiprocessors(device.capability) {
        function.prefer_shared_memory();
    }
    Ok(function)
}
