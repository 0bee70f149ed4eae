//! A device's stages one by one, for benchmarks, by the host's clock: as in a challenge, what wgpu adds counts.

use std::time::{Duration, Instant};

use ::wgpu::CommandEncoderDescriptor;

use super::device::WgpuDevice;
use super::digest::Hashing;
use super::flow::{Dispatch, Flow, FlowParts};
use super::gpu::NotMade;
use super::kernels::{Kernels, Pipeline, Product};
use super::memory::{DeviceBuffer, Memory, Piece};
use super::pass::{Filling, keystream, words_of};
use super::plan::{self, Layout, STATE_BYTES};
use super::shaders::{self, Dot, PEAK_MACS_PER_ITERATION, PEAK_THREADS, STREAM_THREADS, Tile};
use assay_device::measure::{Limits, Measured, PROBE_STEPS, Sample, Stage, walks_over};
use assay_device::pace::{WorkKind, Workload};
use assay_device::{Device, DeviceError, Handle, Pass, ProbeRound};
use assay_work::{PassKey, RoundKey};

/// The key of the pass that is measured.
const KEY: PassKey = PassKey([7; 32]);
/// Bytes of one copy between host and device.
const COPY_BYTES: u64 = 4 << 20;
/// The most bytes of one copy on the device, and of what is read in order: several times any cache.
const DEVICE_COPY_BYTES: u64 = 1 << 30;
/// Workgroups that show the device's limits: more than any device runs at once.
const LIMIT_GROUPS: u32 = 4096;
/// How long one run that shows a limit takes at least, and how many are made.
const LIMIT_TIME: Duration = Duration::from_millis(20);
const LIMIT_RUNS: u32 = 5;
/// A run that shows a limit grows until it takes that long, at most to so many times its first size.
const MOST_ITERATIONS: u32 = 1 << 20;

/// What a device keeps while it is measured.
#[derive(Default)]
pub(super) struct Bench {
    /// The product that is measured in place of the one that is chosen.
    product: Option<(String, Product)>,
    /// Where copies go.
    other: Option<DeviceBuffer>,
}

impl Bench {
    /// Gives its memory on the device back.
    pub(super) fn release(&mut self) {
        if let Some(other) = self.other.take() {
            other.raw.destroy();
        }
    }
}

impl Measured for WgpuDevice {
    fn kernels(&self) -> Vec<String> {
        let dots = match self.kernels.dot {
            Dot::Packed => [Dot::Packed, Dot::Plain],
            Dot::Plain => [Dot::Plain, Dot::Packed],
        };
        let limits = self.gpu.device.limits();
        let tiles: Vec<_> = Tile::ALL.into_iter().filter(|tile| tile.fits(&limits)).collect();
        let all = dots.iter().flat_map(|dot| tiles.iter().map(move |tile| name(*dot, *tile)));
        [dots[0].name().to_owned()].into_iter().chain(all).collect()
    }

    fn limits(&mut self) -> Limits {
        let told = |limit: Result<f64, DeviceError>| {
            limit.inspect_err(|error| tracing::warn!(%error, "a limit could not be measured")).ok()
        };
        let limits = Limits {
            operations_per_s: told(self.peak()),
            bytes_per_s: told(self.stream()),
            source: format!(
                "measured: {} products of packed bytes from registers alone, memory read in order",
                self.kernels.dot.name()
            ),
        };
        self.release();
        limits
    }

    fn peer(&self) -> Result<String, String> {
        Err("no vendor's INT8 product can be called through wgpu".into())
    }

    fn prepare(&mut self, n: u32, count: u32) -> Result<(), DeviceError> {
        self.fill(&Pass { key: KEY, n, offset: 0, count }, &Handle::default()).map(drop)
    }

    fn sample(&mut self, stage: Stage, kernel: &str, repeats: u32) -> Result<Sample, DeviceError> {
        let layout = self.resident()?;
        let (n, count) = (u128::from(layout.n), u128::from(layout.count));
        let (slot, slots) = (layout.slot_bytes(), u64::from(layout.count) * layout.slot_bytes());
        let product = 2 * n.pow(3);
        let (elapsed, operations, bytes) = match stage {
            Stage::Product => (self.products(&layout, kernel, repeats)?, product, 0),
            Stage::Pass => (self.passes(&layout, kernel, repeats)?, (count - 2) * product, 0),
            Stage::Leaves => (self.leaves(&layout, repeats)?, 0, 2 * slot),
            Stage::Digests => (self.digests(&layout, repeats)?, 0, slots),
            Stage::Probe => {
                let walks = walks_over(slots);
                let lines = u64::from(walks) * u64::from(PROBE_STEPS);
                (self.rounds(walks, repeats)?, 0, lines * STATE_BYTES)
            }
            Stage::HostToDevice => (self.copies_in(&layout, repeats)?, 0, copy_bytes(&layout)),
            Stage::DeviceToHost => (self.copies_out(&layout, repeats)?, 0, copy_bytes(&layout)),
            Stage::DeviceCopy => {
                let bytes = self.memory.slot_buffers(&layout)[0].bytes.min(DEVICE_COPY_BYTES);
                (self.device_copies(&layout, bytes, repeats)?, 0, 2 * bytes)
            }
            Stage::Peer => return Err(DeviceError::Unsupported("no peer".into())),
        };
        let repeats = u64::from(repeats);
        Ok(Sample { elapsed, operations: operations * u128::from(repeats), bytes: bytes * repeats })
    }
}

impl WgpuDevice {
    /// Products of the resident pass, slot after slot. They write what is there already.
    fn products(&mut self, layout: &Layout, kernel: &str, repeats: u32) -> Result<Duration, DeviceError> {
        self.choose(kernel)?;
        let pass = Pass { key: KEY, n: layout.n, offset: 0, count: layout.count };
        self.timed(|flow, kernels, memory, bench| {
            let filling = Filling { pass, layout: *layout, kernels, memory, poison: false };
            for turn in 0..repeats {
                let u = 2 + turn % (layout.count - 2);
                match &bench.product {
                    Some((_, product)) => filling.product_with(flow, product, u)?,
                    None => filling.product(flow, u)?,
                }
            }
            Ok(())
        })
    }

    /// Whole passes, with the kernel that is chosen; others are products only.
    fn passes(&mut self, layout: &Layout, kernel: &str, repeats: u32) -> Result<Duration, DeviceError> {
        self.choose(kernel)?;
        if self.bench.product.is_some() {
            return Err(DeviceError::Unsupported("passes are measured with the tiles that are chosen".into()));
        }
        let pass = Pass { key: KEY, n: layout.n, offset: 0, count: layout.count };
        let start = Instant::now();
        for _ in 0..repeats {
            self.fill(&pass, &Handle::default())?;
        }
        Ok(start.elapsed())
    }

    fn leaves(&mut self, layout: &Layout, repeats: u32) -> Result<Duration, DeviceError> {
        let key = words_of(KEY.as_bytes());
        self.timed(|flow, kernels, memory, _| {
            for leaf in (0..repeats).flat_map(|_| 0..2) {
                let pieces = (0..layout.pieces_per_slot).map(|piece| memory.piece(layout, leaf, piece));
                keystream(flow, kernels, pieces, &key, leaf.into())?;
            }
            Ok(())
        })
    }

    fn digests(&mut self, layout: &Layout, repeats: u32) -> Result<Duration, DeviceError> {
        self.timed(|flow, kernels, memory, _| {
            let hashing = Hashing { kernels, memory, layout: *layout };
            for u in (0..repeats).flat_map(|_| 0..layout.count) {
                let pieces = (0..layout.pieces_per_slot).map(|piece| memory.piece(layout, u, piece));
                hashing.string(flow, pieces, layout.slot_bytes(), layout.digests.first + u64::from(u))?;
            }
            Ok(())
        })
    }

    /// Rounds of the probe as a challenge has them.
    fn rounds(&mut self, walks: u32, repeats: u32) -> Result<Duration, DeviceError> {
        let start = Instant::now();
        for turn in 0..repeats {
            let round = ProbeRound { key: RoundKey([turn as u8; 32]), walks, steps: PROBE_STEPS };
            self.probe_round(&round, &Handle::default())?;
        }
        Ok(start.elapsed())
    }

    fn copies_in(&self, layout: &Layout, repeats: u32) -> Result<Duration, DeviceError> {
        let (piece, data) = (self.memory.piece(layout, 0, 0), vec![1; copy_bytes(layout) as usize]);
        let start = Instant::now();
        for _ in 0..repeats {
            self.gpu.calling(|| {
                self.gpu.queue.write_buffer(&piece.buffer.raw, piece.first, &data);
                self.gpu.queue.submit([]);
            })?;
            // What is written waits in memory of the host: not more than one copy of it.
            self.gpu.idle(self.config.stall_limit, "copying from the host")?;
        }
        Ok(start.elapsed())
    }

    fn copies_out(&self, layout: &Layout, repeats: u32) -> Result<Duration, DeviceError> {
        let (piece, mut data) = (self.memory.piece(layout, 0, 0), vec![0; copy_bytes(layout) as usize]);
        let start = Instant::now();
        for _ in 0..repeats {
            self.staging.read(&self.gpu, self.config.stall_limit, piece, 0, &mut data)?;
        }
        Ok(start.elapsed())
    }

    fn device_copies(&mut self, layout: &Layout, bytes: u64, repeats: u32) -> Result<Duration, DeviceError> {
        if self.bench.other.as_ref().is_none_or(|other| other.bytes < bytes) {
            self.bench.other = Some(self.take_other(bytes)?);
        }
        let (from, Some(to)) = (&self.memory.slot_buffers(layout)[0], &self.bench.other) else {
            return Err(DeviceError::Unsupported("no memory to copy to".into()));
        };
        let start = Instant::now();
        for _ in 0..repeats {
            self.gpu.calling(|| {
                let mut encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
                encoder.copy_buffer_to_buffer(&from.raw, 0, &to.raw, 0, bytes);
                self.gpu.queue.submit([encoder.finish()]);
            })?;
        }
        self.gpu.idle(self.config.stall_limit, "copying on the device")?;
        Ok(start.elapsed())
    }

    fn take_other(&mut self, bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        let free_bytes = self.free_bytes().saturating_sub(self.memory.held_bytes());
        let busy = DeviceError::Busy { needed_bytes: bytes, free_bytes };
        if bytes > plan::usable_bytes(free_bytes) {
            return Err(busy);
        }
        self.memory.other(&self.gpu, bytes).map_err(|error| match error {
            NotMade::OutOfMemory => busy,
            NotMade::Refused(why) => self.gpu.lose(&why),
        })
    }

    /// Takes the product of that name from now on.
    fn choose(&mut self, kernel: &str) -> Result<(), DeviceError> {
        if kernel == self.kernels.dot.name() {
            self.bench.product = None;
            return Ok(());
        }
        if self.bench.product.as_ref().is_some_and(|(name, _)| name == kernel) {
            return Ok(());
        }
        let all = [Dot::Packed, Dot::Plain].into_iter().flat_map(|dot| Tile::ALL.map(|tile| (dot, tile)));
        let unknown = || DeviceError::Unsupported(format!("no product is called {kernel}"));
        let (dot, tile) = all.into_iter().find(|(dot, tile)| name(*dot, *tile) == kernel).ok_or_else(unknown)?;
        let compiled = self.kernels.compile(&self.gpu, &shaders::product(tile, dot), &[true; 3]);
        let pipeline = compiled.map_err(|error| DeviceError::Unsupported(error.to_string()))?;
        self.bench.product = Some((kernel.to_owned(), Product { pipeline, tile }));
        Ok(())
    }

    /// How long what `record` records takes.
    fn timed<F>(&mut self, record: F) -> Result<Duration, DeviceError>
    where
        F: for<'a> FnOnce(&mut Flow<'a>, &'a Kernels, &'a Memory, &'a Bench) -> Result<(), DeviceError>,
    {
        let handle = Handle::default();
        let Self { gpu, bindings, parameters, rates, memory, kernels, config, bench, .. } = self;
        let parts = FlowParts {
            gpu,
            bindings,
            parameters,
            rates,
            handle: &handle,
            stall_limit: config.stall_limit,
            completion_counter: None,
        };
        let mut flow = Flow::new(parts);
        let start = Instant::now();
        record(&mut flow, kernels, memory, bench)?;
        flow.finish()?;
        Ok(start.elapsed())
    }

    /// Operations a second, from registers alone.
    #[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    fn peak(&mut self) -> Result<f64, DeviceError> {
        let compiled = self.kernels.compile(&self.gpu, &shaders::peak(self.kernels.dot), &[true]);
        let pipeline = compiled.map_err(|error| DeviceError::Unsupported(error.to_string()))?;
        let threads = u64::from(LIMIT_GROUPS) * u64::from(PEAK_THREADS);
        let results = self.take_other(threads * 4)?;
        let run = |device: &mut Self, iterations: u32| {
            let words = shaders::Peak { iterations }.words();
            device.run_alone(&pipeline, &words, &[Piece::whole(&results)], LIMIT_GROUPS)
        };
        let (iterations, best) = grown(self, run)?;
        let operations = 2 * PEAK_MACS_PER_ITERATION * threads * u64::from(iterations);
        Ok(operations as f64 / best.as_secs_f64())
    }

    /// Bytes a second, read in order.
    #[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    fn stream(&mut self) -> Result<f64, DeviceError> {
        let compiled = self.kernels.compile(&self.gpu, &shaders::stream(), &[true, true]);
        let pipeline = compiled.map_err(|error| DeviceError::Unsupported(error.to_string()))?;
        let threads = LIMIT_GROUPS * STREAM_THREADS;
        let most = plan::usable_bytes(self.free_bytes()) / 2;
        let bytes = 1 << self.bounds.buffer_bytes.min(DEVICE_COPY_BYTES).min(most).max(1 << 16).ilog2();
        let (data, results) = (self.take_other(bytes)?, self.take_other(u64::from(threads) * 4)?);
        let run = |device: &mut Self, times: u32| {
            let words = shaders::Stream { vectors: (bytes / 16) as u32, threads }.words();
            let bindings = [Piece::whole(&data), Piece::whole(&results)];
            (0..times).try_fold(Duration::ZERO, |sum, _| {
                Ok(sum + device.run_alone(&pipeline, &words, &bindings, LIMIT_GROUPS)?)
            })
        };
        let (times, best) = grown(self, run)?;
        Ok((bytes * u64::from(times)) as f64 / best.as_secs_f64())
    }

    /// One dispatch, and nothing else meanwhile.
    fn run_alone(
        &mut self,
        pipeline: &Pipeline,
        words: &[u32],
        bindings: &[Piece<'_>],
        workgroups: u32,
    ) -> Result<Duration, DeviceError> {
        let handle = Handle::default();
        let Self { gpu, bindings: groups, parameters, rates, config, .. } = self;
        let mut rates = *rates;
        let parts = FlowParts {
            gpu,
            bindings: groups,
            parameters,
            rates: &mut rates,
            handle: &handle,
            stall_limit: config.stall_limit,
            completion_counter: None,
        };
        let mut flow = Flow::new(parts);
        let start = Instant::now();
        flow.dispatch(&Dispatch {
            pipeline,
            words,
            bindings,
            workgroups,
            work: Workload { kind: WorkKind::Product, units: 0 },
        })?;
        flow.finish()?;
        Ok(start.elapsed())
    }
}

/// Runs for longer and longer until one run takes long enough to be measured; gives how long it was made, and the best
/// time of several.
fn grown(
    device: &mut WgpuDevice,
    mut run: impl FnMut(&mut WgpuDevice, u32) -> Result<Duration, DeviceError>,
) -> Result<(u32, Duration), DeviceError> {
    let mut size = 1;
    while run(device, size)? < LIMIT_TIME && size < MOST_ITERATIONS {
        size *= 2;
    }
    let mut best = Duration::MAX;
    for _ in 0..LIMIT_RUNS {
        best = best.min(run(device, size)?);
    }
    Ok((size, best))
}

/// A product's name in benchmarks.
fn name(dot: Dot, tile: Tile) -> String {
    let Tile { side, per_thread, words } = tile;
    format!("{}-{side}x{per_thread}x{words}", dot.name())
}

/// Bytes of a copy between host and device: of one piece at most.
fn copy_bytes(layout: &Layout) -> u64 {
    COPY_BYTES.min(layout.piece_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_have_names_of_their_own() {
        let all: std::collections::HashSet<_> =
            [Dot::Packed, Dot::Plain].into_iter().flat_map(|dot| Tile::ALL.map(|tile| name(dot, tile))).collect();
        assert_eq!(all.len(), 2 * Tile::ALL.len());
    }
}
