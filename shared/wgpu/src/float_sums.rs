//! The self-test of products with float sums ([`assay_device::accumulator`]), on the shader that computes them.

use super::device::WgpuDevice;
use super::flow::{Dispatch, Flow, FlowParts};
use super::kernels::Pipeline;
use super::memory::{DeviceBuffer, SlotPiece};
use super::shaders::{self, CHUNK_TERMS, Dot, ShaderTile};
use assay_device::accumulator::{LAUNCH_ROWS, OperandFormat, Sums, SumsUnderTest, Unit, UnitFinding, examine};
use assay_device::pace::{WorkKind, Workload};
use assay_device::{DeviceError, Handle};
use assay_work::Precision;

/// Operands of a row on a software adapter, which takes seconds for the longest.
const SOFTWARE_TERMS: u32 = 4096;

impl WgpuDevice {
    /// Whether products may multiply this way, as far as is known.
    pub(super) fn may_multiply_by(&self, dot: Dot) -> bool {
        dot != Dot::Float || self.units.iter().all(UnitFinding::is_exact)
    }

    /// Whether float sums are exact, in every tile; examines them, unless that was done.
    ///
    /// # Errors
    /// What the device says. What it found is no error.
    pub(super) fn has_exact_floats(&mut self) -> Result<bool, DeviceError> {
        if self.units.is_empty() {
            let [large, small] = self.kernels.tiles();
            let tiles = if large == small { vec![large] } else { vec![large, small] };
            self.units = tiles.into_iter().map(|tile| self.examine(tile)).collect::<Result<_, _>>()?;
        }
        Ok(self.units.iter().all(UnitFinding::is_exact))
    }

    fn examine(&mut self, tile: ShaderTile) -> Result<UnitFinding, DeviceError> {
        let terms = if self.description().software { SOFTWARE_TERMS } else { CHUNK_TERMS };
        let unit = Unit {
            name: format!("{}, tiles of {}", Dot::Float.name(), tile.side),
            precision: Precision::F16,
            format: OperandFormat::Int16,
            sums: Sums::Float32,
            terms,
        };
        let shader = shaders::raw_product(tile);
        let compiled = self.kernels.compile(&self.gpu, &shader, &[true; 3]);
        let pipeline = compiled.map_err(|error| self.refused(&error))?;
        let row_bytes = unit.row_bytes() as u64;
        let [left, right] =
            [self.take_area(LAUNCH_ROWS as u64 * row_bytes)?, self.take_area(LAUNCH_ROWS as u64 * row_bytes)?];
        let written = self.take_area((LAUNCH_ROWS * LAUNCH_ROWS * size_of::<u32>()) as u64)?;
        // A launch of its own says nothing of the products of a pass.
        let rates = self.rates;
        let mut launches = Launches { device: self, pipeline, tile, depth: row_bytes as u32, left, right, written };
        let finding = examine(&unit, &mut launches);
        self.rates = rates;
        // Groups name buffers that are gone.
        self.bindings.clear();
        let finding = finding?;
        let driver = &self.description.driver;
        if finding.is_exact() {
            tracing::info!(device = %self.description.id, %driver, "{finding}");
        } else {
            tracing::warn!(device = %self.description.id, %driver, "{finding}");
        }
        Ok(finding)
    }
}

struct Launches<'a> {
    device: &'a mut WgpuDevice,
    pipeline: Pipeline,
    tile: ShaderTile,
    /// Bytes of a row of operands.
    depth: u32,
    left: DeviceBuffer,
    right: DeviceBuffer,
    written: DeviceBuffer,
}

impl SumsUnderTest for Launches<'_> {
    fn sums(&mut self, left: &[u8], right: &[u8]) -> Result<Vec<u32>, DeviceError> {
        let WgpuDevice { gpu, bindings, parameters, rates, config, .. } = &mut *self.device;
        gpu.calling(|| {
            gpu.queue.write_buffer(&self.left.raw, 0, left);
            gpu.queue.write_buffer(&self.right.raw, 0, right);
        })?;
        let (handle, stall_limit) = (Handle::default(), config.stall_limit);
        let parts =
            FlowParts { gpu, bindings, parameters, rates, handle: &handle, stall_limit, completion_counter: None };
        let mut flow = Flow::new(parts);
        let n = LAUNCH_ROWS as u32;
        let across = n / self.tile.side;
        let parameters = shaders::ProductParams {
            n,
            tiles_across: across,
            first_tile: 0,
            row0: 0,
            column0: 0,
            slot: 0,
            depth: self.depth,
        };
        let macs = u64::from(n) * u64::from(n) * u64::from(self.depth) / 2;
        flow.dispatch(&Dispatch {
            pipeline: &self.pipeline,
            words: &parameters.words(),
            bindings: &[&self.left, &self.right, &self.written].map(SlotPiece::whole),
            workgroups: across * across,
            work: Workload { kind: WorkKind::Product, units: macs },
        })?;
        flow.finish()?;
        let bytes = self.device.read_piece(SlotPiece::whole(&self.written))?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }
}
