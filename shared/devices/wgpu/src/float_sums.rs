//! The self-test of products with float sums ([`assay_device::accumulator`]), on the shader that computes them.

use super::device::WgpuDevice;
use super::flow::{Dispatch, Flow, FlowParts};
use super::kernels::Pipeline;
use super::memory::{DeviceBuffer, SlotPiece};
use super::shaders::{self, CHUNK_TERMS, CooperativeTile, Dot, Shader};
use assay_device::accumulator::{
    LAUNCH_ROWS, MAX_UNIT_FAILURE_BYTES, OperandFormat, SumFormat, SumsUnderTest, Unit, UnitFinding, examine,
};
use assay_device::pace::{WorkKind, Workload};
use assay_device::{DeviceError, Handle};
use assay_work::Precision;
use assay_work::text::printable;

/// Operands of a row on a software adapter, which takes seconds for the longest.
const SOFTWARE_TERMS: u32 = 4096;

impl WgpuDevice {
    /// Whether products may multiply this way, as far as is known.
    pub(super) fn may_multiply_by(&self, precision: Precision, dot: Dot) -> bool {
        (dot != Dot::Cooperative || self.kernels.cooperative().is_some())
            && self.float_sums.of(precision, dot).all(UnitFinding::is_exact)
    }

    /// Whether the sums of this way to multiply are exact, in every tile; examines float sums, unless that was done
    /// before.
    ///
    /// # Errors
    /// The device's. An inexact sum is a finding, not an error.
    pub(super) fn has_exact_sums(&mut self, precision: Precision, dot: Dot) -> Result<bool, DeviceError> {
        if self.float_sums.of(precision, dot).next().is_none() {
            let shaders = self.shaders_under_test(dot);
            if dot == Dot::Cooperative && shaders.is_empty() {
                return Ok(false);
            }
            for (side, shader) in shaders {
                let finding = self.examine(precision, dot, side, &shader)?;
                self.float_sums.note(dot, finding);
            }
        }
        Ok(self.may_multiply_by(precision, dot))
    }

    /// The shaders that compute sums this way, with the side of their tiles; empty where sums are integers.
    fn shaders_under_test(&self, dot: Dot) -> Vec<(u32, Shader)> {
        match dot {
            Dot::Packed | Dot::Plain | Dot::Wide => Vec::new(),
            Dot::Float | Dot::FloatChunks => {
                let mut tiles = self.kernels.tiles().to_vec();
                tiles.dedup();
                tiles.into_iter().map(|tile| (tile.side, shaders::raw_product(tile))).collect()
            }
            Dot::Cooperative => {
                let raw = |tile| (CooperativeTile::SIDE, shaders::raw_cooperative_product(tile));
                self.kernels.cooperative().map(raw).into_iter().collect()
            }
        }
    }

    fn examine(
        &mut self,
        precision: Precision,
        dot: Dot,
        side: u32,
        shader: &Shader,
    ) -> Result<UnitFinding, DeviceError> {
        let terms = if self.description().software { SOFTWARE_TERMS } else { CHUNK_TERMS };
        let format = if dot == Dot::Cooperative { OperandFormat::F16 } else { OperandFormat::Int16 };
        let name = format!("{}, tiles of {side}", dot.name());
        let unit = Unit { name, precision, format, sums: SumFormat::Float32, terms };
        let pipeline = match self.kernels.compile(&self.gpu, shader, &[true; 3]) {
            Ok(pipeline) => pipeline,
            // A driver that does not take the shader has no such unit, even if it lists one.
            Err(error) if dot == Dot::Cooperative && self.gpu.check().is_ok() => {
                return Ok(self.found(UnitFinding {
                    unit: unit.name,
                    precision,
                    bits_kept: None,
                    output_bits: None,
                    failed: Some(printable(&error.to_string(), MAX_UNIT_FAILURE_BYTES)),
                }));
            }
            Err(error) => return Err(self.refused(&error)),
        };
        let row_bytes = unit.row_bytes() as u64;
        let [left, right] =
            [self.take_area(LAUNCH_ROWS as u64 * row_bytes)?, self.take_area(LAUNCH_ROWS as u64 * row_bytes)?];
        let written = self.take_area((LAUNCH_ROWS * LAUNCH_ROWS * size_of::<u32>()) as u64)?;
        // A launch of its own says nothing of the products of a pass.
        let rates = self.rates;
        let mut launches =
            FloatSumLaunches { device: self, pipeline, side, depth: row_bytes as u32, left, right, written };
        let finding = examine(&unit, &mut launches);
        self.rates = rates;
        // Groups name buffers that are gone.
        self.bindings.clear();
        Ok(self.found(finding?))
    }

    fn found(&self, finding: UnitFinding) -> UnitFinding {
        let driver = &self.description.driver;
        if finding.is_exact() {
            tracing::info!(device = %self.description.id, %driver, "{finding}");
        } else {
            tracing::warn!(device = %self.description.id, %driver, "{finding}");
        }
        finding
    }
}

struct FloatSumLaunches<'a> {
    device: &'a mut WgpuDevice,
    pipeline: Pipeline,
    /// Elements along a side of a tile.
    side: u32,
    /// Bytes of a row of operands.
    depth: u32,
    left: DeviceBuffer,
    right: DeviceBuffer,
    written: DeviceBuffer,
}

impl SumsUnderTest for FloatSumLaunches<'_> {
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
        let across = n / self.side;
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
