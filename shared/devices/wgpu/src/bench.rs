//! A GPU's stages one by one, by the host's clock: as in a challenge, wgpu's own time counts.

use std::cell::Cell;
use std::time::{Duration, Instant};

use ::wgpu::CommandEncoderDescriptor;

use crate::device::WgpuDevice;
use crate::digest::DigestTree;
use crate::flow::{Dispatch, Flow, FlowParts};
use crate::gpu::CreationFailure;
use crate::kernels::{Kernels, Pipeline, ProductPipeline};
use crate::memory::{DeviceBuffer, Memory, SlotPiece};
use crate::pass::{BufferedPass, keystream, words_of};
use crate::plan::{self, BufferLayout};
use crate::shaders::{self, Dot, PEAK_MACS_PER_ITERATION, PEAK_THREADS, STREAM_THREADS, ShaderTile};
use assay_device::bench::{
    Bench, BenchStage, KEY, Measurement, PeakRates, bench_pass, bench_round, bench_sweep, product_slot, time,
    walks_over,
};
use assay_device::pace::{WorkKind, Workload};
use assay_device::{Device, DeviceError, Handle};
use assay_work::Precision;

/// Bytes of one copy between host and device.
const COPY_BYTES: u64 = 4 << 20;
/// The most bytes of one copy on the device, and of one read in order: several times any cache.
const DEVICE_COPY_BYTES: u64 = 1 << 30;
/// Workgroups that show the peak rates: more than any device runs at once.
const PEAK_GROUPS: u32 = 4096;
/// How long one run that shows a peak rate takes at least, and how many are made.
const PEAK_TIME: Duration = Duration::from_millis(20);
const PEAK_RUNS: u32 = 5;
/// The largest factor by which a run that shows a peak rate grows over its first size until it takes that long.
const MAX_ITERATIONS: u32 = 1 << 20;

pub struct WgpuBench {
    /// The product that is measured in place of the one that is chosen.
    product: Option<(String, ProductPipeline)>,
    /// The target of copies.
    other: Option<DeviceBuffer>,
    /// The handle of every sample, never cancelled.
    handle: Handle,
    pub device: WgpuDevice,
}

impl WgpuBench {
    pub(super) fn new(device: WgpuDevice) -> Self {
        Self { product: None, other: None, handle: Handle::default(), device }
    }
}

impl Bench for WgpuBench {
    fn device(&mut self) -> &mut dyn Device {
        &mut self.device
    }

    fn kernels(&self, precision: Precision) -> Vec<String> {
        let chosen = self.device.kernels.dot(precision);
        let others = Dot::of(precision).iter().copied().filter(|dot| *dot != chosen);
        let dots = [chosen].into_iter().chain(others).filter(|dot| self.device.may_multiply_by(precision, *dot));
        let limits = self.device.gpu.device.limits();
        let all = dots.flat_map(|dot| match dot {
            Dot::Cooperative => vec![dot.name().to_owned()],
            _ => ShaderTile::ALL.into_iter().filter(|tile| tile.fits(&limits)).map(|tile| name(dot, tile)).collect(),
        });
        let mut names = vec![chosen.name().to_owned()];
        names.extend(all.filter(|name| *name != chosen.name()));
        names
    }

    fn peak_rates(&mut self) -> PeakRates {
        let known = |rate: Result<f64, DeviceError>| {
            rate.inspect_err(|error| tracing::warn!(%error, "a peak rate could not be measured")).ok()
        };
        let rates = PeakRates {
            operations_per_s: known(self.peak()),
            bytes_per_s: known(self.stream()),
            source: format!(
                "measured: {} products of packed bytes from registers alone, memory read in order",
                self.device.kernels.bytes_dot().name()
            ),
        };
        self.device.release();
        rates
    }

    fn peer(&self, _: Precision) -> Result<String, String> {
        Err("no vendor's product can be called through wgpu".into())
    }

    fn sample(&mut self, stage: BenchStage, kernel: &str, repeats: u32) -> Result<Measurement, DeviceError> {
        let layout = self.device.residency.layout()?;
        let (pass, handle) = (bench_pass(self.precision(), layout.n, layout.count), Handle::default());
        if stage.depends_on_kernel() {
            self.choose(kernel)?;
        }
        let mut copy_bytes = COPY_BYTES.min(layout.piece_bytes);
        let elapsed = match stage {
            BenchStage::Product => self.products(&layout, repeats)?,
            BenchStage::Pass if self.product.is_some() => {
                let text = "passes are measured with the tiles that are chosen";
                return Err(DeviceError::Unsupported(text.into()));
            }
            BenchStage::Pass => time(repeats, |_| self.device.fill(&pass, &handle).map(drop))?,
            BenchStage::Leaves => self.leaves(&layout, repeats)?,
            BenchStage::Digests => self.digests(&layout, repeats)?,
            BenchStage::Probe => {
                let round = |turn| bench_round(turn, walks_over(pass.bytes()));
                time(repeats, |turn| self.device.probe_round(&round(turn), &handle).map(drop))?
            }
            BenchStage::Sweep => {
                time(repeats, |turn| self.device.sweep_round(&bench_sweep(turn, &pass), &handle).map(drop))?
            }
            BenchStage::HostToDevice => self.copies_in(&layout, copy_bytes, repeats)?,
            BenchStage::DeviceToHost => self.copies_out(&layout, copy_bytes, repeats)?,
            BenchStage::DeviceCopy => {
                copy_bytes = self.device.memory.slot_buffers(&layout)[0].bytes.min(DEVICE_COPY_BYTES);
                self.device_copies(&layout, copy_bytes, repeats)?
            }
            BenchStage::Peer => return Err(DeviceError::Unsupported("no peer".into())),
        };
        Ok(stage.measurement(&pass, copy_bytes, repeats, elapsed))
    }
}

impl WgpuBench {
    /// The kind of work of the resident pass.
    fn precision(&self) -> Precision {
        self.device.pass.map_or(Precision::Int8, |pass| pass.precision)
    }

    /// Products of the resident pass, slot after slot. They write the bytes that are there already.
    fn products(&mut self, layout: &BufferLayout, repeats: u32) -> Result<Duration, DeviceError> {
        let pass = bench_pass(self.precision(), layout.n, layout.count);
        self.timed(repeats, |flow, kernels, memory, chosen, turn| {
            let filling =
                BufferedPass { pass, layout: *layout, kernels, memory, poison: false, expanded: Cell::default() };
            match chosen {
                Some((_, product)) => filling.product_with(flow, product, product_slot(&pass, turn)),
                None => filling.product(flow, product_slot(&pass, turn)),
            }
        })
    }

    fn leaves(&mut self, layout: &BufferLayout, repeats: u32) -> Result<Duration, DeviceError> {
        let key = words_of(KEY.as_bytes());
        self.timed(2 * repeats, |flow, kernels, memory, _, turn| {
            let leaf = turn % 2;
            let pieces = (0..layout.pieces_per_slot).map(|piece| memory.piece(layout, leaf, piece));
            keystream(flow, kernels, pieces, &key, leaf.into())
        })
    }

    fn digests(&mut self, layout: &BufferLayout, repeats: u32) -> Result<Duration, DeviceError> {
        self.timed(repeats, |flow, kernels, memory, _, _| {
            let hashing = DigestTree { kernels, memory, layout: *layout };
            (0..layout.count).try_for_each(|u| {
                let pieces = (0..layout.pieces_per_slot).map(|piece| memory.piece(layout, u, piece));
                hashing.string(flow, pieces, layout.slot_bytes(), layout.digests.first + u64::from(u))
            })
        })
    }

    fn copies_in(&self, layout: &BufferLayout, bytes: u64, repeats: u32) -> Result<Duration, DeviceError> {
        let WgpuDevice { gpu, memory, config, .. } = &self.device;
        let (piece, data) = (memory.piece(layout, 0, 0), vec![1; bytes as usize]);
        time(repeats, |_| {
            gpu.calling(|| {
                gpu.queue.write_buffer(&piece.buffer.raw, piece.first, &data);
                gpu.queue.submit([]);
            })?;
            // Written bytes wait in memory of the host: at most one copy of them.
            gpu.idle(config.stall_limit, "copying from the host")
        })
    }

    fn copies_out(&self, layout: &BufferLayout, bytes: u64, repeats: u32) -> Result<Duration, DeviceError> {
        let WgpuDevice { gpu, memory, config, staging, .. } = &self.device;
        let (piece, mut data) = (memory.piece(layout, 0, 0), vec![0; bytes as usize]);
        time(repeats, |_| staging.read(gpu, config.stall_limit, piece, 0, &mut data))
    }

    fn device_copies(&mut self, layout: &BufferLayout, bytes: u64, repeats: u32) -> Result<Duration, DeviceError> {
        let to = match self.other.take() {
            Some(other) if other.bytes >= bytes => other,
            _ => self.take_other(bytes)?,
        };
        let to = self.other.insert(to);
        let WgpuDevice { gpu, memory, config, .. } = &self.device;
        let from = &memory.slot_buffers(layout)[0];
        let start = Instant::now();
        time(repeats, |_| {
            gpu.calling(|| {
                let mut encoder = gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
                encoder.copy_buffer_to_buffer(&from.raw, 0, &to.raw, 0, bytes);
                gpu.queue.submit([encoder.finish()]);
            })
        })?;
        gpu.idle(config.stall_limit, "copying on the device")?;
        Ok(start.elapsed())
    }

    fn take_other(&mut self, bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        let free_bytes = self.device.free_bytes().saturating_sub(self.device.memory.held_bytes());
        let busy = DeviceError::Busy { needed_bytes: bytes, free_bytes };
        if bytes > plan::usable_bytes(free_bytes) {
            return Err(busy);
        }
        self.device.memory.other(&self.device.gpu, bytes).map_err(|error| match error {
            CreationFailure::OutOfMemory => busy,
            CreationFailure::Refused(why) => self.device.gpu.lose(&why),
        })
    }

    /// Takes the product of that name from now on.
    fn choose(&mut self, kernel: &str) -> Result<(), DeviceError> {
        let precision = self.precision();
        if Dot::of(precision).iter().any(|dot| dot.name() == kernel) {
            self.product = None;
            return self.device.choose_kernel(precision, kernel);
        }
        if self.product.as_ref().is_some_and(|(name, _)| name == kernel) {
            return Ok(());
        }
        let mut all = Dot::of(precision).iter().flat_map(|dot| ShaderTile::ALL.map(|tile| (*dot, tile)));
        let unknown = || DeviceError::Unsupported(format!("no product is called {kernel}"));
        let (dot, tile) = all.find(|(dot, tile)| name(*dot, *tile) == kernel).ok_or_else(unknown)?;
        // Its operands are written out as this way to multiply reads them.
        self.device.choose_kernel(precision, dot.name())?;
        let n = self.device.resident()?.n;
        let dot = dot.for_terms(precision.terms(n));
        let pipeline = self.compile(&shaders::product(tile, dot), &[true; 3])?;
        self.product = Some((kernel.to_owned(), ProductPipeline { pipeline, side: tile.side }));
        Ok(())
    }

    fn compile(&mut self, shader: &shaders::Shader, storages: &[bool]) -> Result<Pipeline, DeviceError> {
        let compiled = self.device.kernels.compile(&self.device.gpu, shader, storages);
        compiled.map_err(|error| DeviceError::Unsupported(error.to_string()))
    }

    /// The time of the dispatches that `record` records in each turn.
    fn timed<'a>(
        &'a mut self,
        repeats: u32,
        mut record: impl FnMut(
            &mut Flow<'a>,
            &'a Kernels,
            &'a Memory,
            &'a Option<(String, ProductPipeline)>,
            u32,
        ) -> Result<(), DeviceError>,
    ) -> Result<Duration, DeviceError> {
        let WgpuDevice { gpu, bindings, parameters, rates, memory, kernels, config, .. } = &mut self.device;
        let (handle, stall_limit) = (&self.handle, config.stall_limit);
        let mut flow =
            Flow::new(FlowParts { gpu, bindings, parameters, rates, handle, stall_limit, completion_counter: None });
        let start = Instant::now();
        (0..repeats).try_for_each(|turn| record(&mut flow, kernels, memory, &self.product, turn))?;
        flow.finish()?;
        Ok(start.elapsed())
    }

    /// Operations a second, from registers alone.
    #[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    fn peak(&mut self) -> Result<f64, DeviceError> {
        let pipeline = self.compile(&shaders::peak(self.device.kernels.bytes_dot()), &[true])?;
        let threads = u64::from(PEAK_GROUPS) * u64::from(PEAK_THREADS);
        let results = self.take_other(threads * 4)?;
        let run = |bench: &mut Self, iterations: u32| {
            let words = shaders::PeakParams { iterations }.words();
            bench.run_alone(&pipeline, &words, &[SlotPiece::whole(&results)], PEAK_GROUPS)
        };
        let (iterations, best) = grown(self, run)?;
        let operations = 2 * PEAK_MACS_PER_ITERATION * threads * u64::from(iterations);
        Ok(operations as f64 / best.as_secs_f64())
    }

    /// Bytes a second, read in order.
    #[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    fn stream(&mut self) -> Result<f64, DeviceError> {
        let pipeline = self.compile(&shaders::stream(), &[true, true])?;
        let threads = PEAK_GROUPS * STREAM_THREADS;
        let most = plan::usable_bytes(self.device.free_bytes()) / 2;
        let bytes = 1 << self.device.bounds.buffer_bytes.min(DEVICE_COPY_BYTES).min(most).max(1 << 16).ilog2();
        let (data, results) = (self.take_other(bytes)?, self.take_other(u64::from(threads) * 4)?);
        let run = |bench: &mut Self, times: u32| {
            let words = shaders::StreamParams { vectors: (bytes / 16) as u32, threads }.words();
            let bindings = [SlotPiece::whole(&data), SlotPiece::whole(&results)];
            (0..times).try_fold(Duration::ZERO, |sum, _| {
                Ok(sum + bench.run_alone(&pipeline, &words, &bindings, PEAK_GROUPS)?)
            })
        };
        let (times, best) = grown(self, run)?;
        Ok((bytes * u64::from(times)) as f64 / best.as_secs_f64())
    }

    /// One dispatch, with no other work meanwhile.
    fn run_alone(
        &mut self,
        pipeline: &Pipeline,
        words: &[u32],
        bindings: &[SlotPiece<'_>],
        workgroups: u32,
    ) -> Result<Duration, DeviceError> {
        let work = Workload { kind: WorkKind::Product, units: 0 };
        // It says nothing of the products of a pass.
        let rates = self.device.rates;
        let dispatch = Dispatch { pipeline, words, bindings, workgroups, work };
        let took = self.timed(1, |flow, _, _, _, _| flow.dispatch(&dispatch));
        self.device.rates = rates;
        took
    }
}

/// Runs for longer and longer until one run takes long enough to be measured; gives how long it was made, and the best
/// time of several.
fn grown(
    bench: &mut WgpuBench,
    mut run: impl FnMut(&mut WgpuBench, u32) -> Result<Duration, DeviceError>,
) -> Result<(u32, Duration), DeviceError> {
    let mut size = 1;
    while run(bench, size)? < PEAK_TIME && size < MAX_ITERATIONS {
        size *= 2;
    }
    let mut best = Duration::MAX;
    for _ in 0..PEAK_RUNS {
        best = best.min(run(bench, size)?);
    }
    Ok((size, best))
}

/// A product's name in benchmarks.
fn name(dot: Dot, tile: ShaderTile) -> String {
    let ShaderTile { side, per_thread, words } = tile;
    format!("{}-{side}x{per_thread}x{words}", dot.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_have_names_of_their_own() {
        let all: std::collections::HashSet<_> = [Precision::Int8, Precision::F16]
            .into_iter()
            .flat_map(Dot::of)
            .flat_map(|dot| ShaderTile::ALL.map(|tile| name(*dot, tile)))
            .collect();
        assert_eq!(all.len(), 5 * ShaderTile::ALL.len());
    }
}
