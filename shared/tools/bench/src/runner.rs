//! Measuring a device: the stages, the number of their samples, and their order.
//!
//! Clocks drift, so stages of one matrix size are measured in turn, round after round, and the medians are
//! reported; those that multiply apart from the others, behind which clocks are higher than the power limit allows. A first
//! sample of each stage, which is not counted, warms up and determines the repeats that fill a sample.

use std::collections::HashMap;
use std::time::Duration;

use assay_device::backend::{BackendKind, StartupProgress};
use assay_device::bench::{Bench, BenchStage, PeakRates, product_operations};
use assay_device::{DeviceError, DeviceInfo};
use assay_work::Precision;
use indicatif::{ProgressBar, ProgressStyle};

use crate::figure::StageFigure;
use crate::report::{DeviceFigures, KindLimit};

/// How long one sample is to take, in seconds: long beside a launch, short beside a drift.
pub const SAMPLE_S: f64 = 0.1;
/// The longest first sample that is not asked for by name, in seconds.
const PATIENCE_S: f64 = 10.0;
/// The most repeats in one sample.
const MAX_REPEATS: f64 = 10_000.0;
/// Slots are as many as take this many bytes: several times any cache.
const SLOTS_BYTES: u64 = 1 << 30;
/// The fewest and the most slots.
const COUNT: (u64, u64) = (8, 256);
/// Slots of a GPU's pass from [`LONG_PASS_SIZE`] on, as far as they fit: the start and the end of a pass are then as
/// small a part of it as in a challenge.
const LONG_PASS: u32 = 128;
const LONG_PASS_SIZE: u32 = 8192;
/// The matrix size of the slots over which the probe alone is measured: the largest whose slots are a hundredth of the bytes.
const PROBE_SIZES: [u32; 5] = [4096, 2048, 1024, 512, 256];

/// The measurements of a device.
#[derive(Debug, Clone)]
pub struct BenchPlan {
    /// The matrix sizes, smallest first.
    pub sizes: Vec<u32>,
    /// Whether slow measurements are made too.
    pub patient: bool,
    /// The product kernels; when empty all of a GPU's, and the one chosen of a processor's.
    pub kernels: Vec<String>,
    /// The kinds of work of products and passes, at least one; everything else is measured with the first alone.
    pub precisions: Vec<Precision>,
    /// Number of samples of each.
    pub rounds: u32,
    /// How long one sample is to take, in seconds: long beside a launch, short beside a drift.
    pub sample_s: f64,
    /// How many slots there are, where that was asked for.
    pub slots: Option<u32>,
    /// The bytes of slots over which the probe is measured, in place of everything else; mostly empty.
    pub probe_bytes: Vec<u64>,
}

impl BenchPlan {
    /// Number of slots for a kind of work, of those for the others: a processor's squarings take seconds a slot.
    fn count_of(&self, precision: Precision, backend: BackendKind, count: u32) -> u32 {
        let is_slow = precision == Precision::Field && backend == BackendKind::Cpu && self.slots.is_none();
        // CAST: 8.
        if is_slow { count.min(COUNT.0 as u32) } else { count }
    }

    /// Number of slots of a size to use on a device where `fit` of them fit.
    fn count(&self, backend: BackendKind, n: u32, fit: u32) -> u32 {
        // CAST: the clamp keeps it small.
        let usual = (SLOTS_BYTES / (u64::from(n) * u64::from(n))).clamp(COUNT.0, COUNT.1) as u32;
        match self.slots {
            Some(slots) => slots,
            // A quarter of the memory is left for copies and the peer's results.
            None if backend != BackendKind::Cpu && n >= LONG_PASS_SIZE => usual.max(LONG_PASS.min(fit / 4 * 3)),
            None => usual,
        }
    }
}

/// Shows the current measurement on a terminal.
pub struct BenchProgress(ProgressBar);

impl BenchProgress {
    /// A bar on standard error, when that is a terminal.
    pub fn new() -> Self {
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Shows how far the opening of a device is.
    pub fn preparing(&self, now: &StartupProgress) {
        let part = if now.total > 0 { format!(" ({} of {})", now.done, now.total) } else { String::new() };
        self.0.set_message(format!("{}{part}", now.what));
    }

    pub(crate) fn show_text(&self, text: &str) {
        self.0.set_message(text.to_owned());
    }

    fn show(&self, cell: &BenchCell) {
        self.show_text(&cell.to_string());
    }
}

impl Drop for BenchProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct BenchCell {
    stage: BenchStage,
    precision: Precision,
    n: u32,
    kernel: String,
}

impl std::fmt::Display for BenchCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "n = {}: {:?}", self.n, self.stage)?;
        if self.stage.depends_on_kernel() { write!(f, " of {} with {}", self.precision, self.kernel) } else { Ok(()) }
    }
}

/// Measures a device whose memory holds `fits` slots of each size of the plan.
///
/// # Errors
/// The device's, but for stages that it does not have.
pub fn measure(
    bench: &mut dyn Bench,
    info: &DeviceInfo,
    fits: &[u32],
    plan: &BenchPlan,
    progress: &BenchProgress,
) -> Result<DeviceFigures, DeviceError> {
    let (kernels, left_out) = kernels(bench, info.backend, plan)?;
    let mut run = Runner { plan, progress, rates: HashMap::new(), figures: Vec::new(), left_out };
    // No kind is left where none of its kernels was named.
    let first = kernels.first().map_or(Precision::Int8, |(precision, _)| *precision);
    let (limits, peer) = (bench.peak_rates(), bench.peer(first));
    let kinds = kernels.iter().map(|(precision, _)| *precision);
    let kind_limits: Vec<KindLimit> = kinds
        .filter_map(|precision| {
            let operations_per_s = match precision {
                Precision::Int8 => limits.operations_per_s,
                other => bench.operations_limit(other),
            };
            operations_per_s.map(|operations_per_s| KindLimit { precision, operations_per_s })
        })
        .collect();
    for &bytes in &plan.probe_bytes {
        run.probe(bench, &kernels, bytes)?;
    }
    let sizes = plan.sizes.iter().zip(fits).filter(|_| plan.probe_bytes.is_empty());
    for (index, (&n, &fit)) in sizes.enumerate() {
        let count = plan.count(info.backend, n, fit);
        if fit < count {
            run.left_out.push(format!("n = {n}: {count} slots do not fit into the memory that is free"));
            continue;
        }
        for (turn, (precision, kernels)) in kernels.iter().enumerate() {
            let count = plan.count_of(*precision, info.backend, count);
            let stages = BenchStage::ALL.into_iter().filter(|s| s.depends_on_n() || index == 0);
            let stages = stages.filter(|s| s.depends_on_kind() || turn == 0);
            let has_peer = bench.peer(*precision).is_ok();
            let stages = stages.filter(|s| *s != BenchStage::Peer || has_peer);
            let cells = stages.flat_map(|stage| {
                let kernels = if stage.depends_on_kernel() { &kernels[..] } else { &kernels[..1] };
                kernels.iter().map(move |kernel| BenchCell { stage, precision: *precision, n, kernel: kernel.clone() })
            });
            let cells = cells.filter(|cell| run.is_worth_it(cell, count));
            let (products, others): (Vec<_>, Vec<_>) = cells.partition(|cell| cell.stage.depends_on_kind());
            for cells in [products, others].into_iter().filter(|cells| !cells.is_empty()) {
                run.size(bench, *precision, n, count, cells)?;
            }
        }
    }
    let Runner { mut figures, left_out, .. } = run;
    compare(&mut figures, &limits, &kind_limits);
    let (peer, no_peer) = peer.map_or_else(|why| (None, Some(why)), |peer| (Some(peer), None));
    let (name, backend) = (info.name.clone(), info.backend.to_string());
    Ok(DeviceFigures {
        device_id: info.id,
        name,
        backend,
        limits,
        kind_limits,
        peer,
        no_peer,
        figures,
        operations: Vec::new(),
        left_out,
    })
}

/// The kernels to measure of a kind of work, at least one.
type OfKind = (Precision, Vec<String>);

/// The kernels to measure of each kind of work, the one that the device would choose first unless others were named;
/// and the kinds left out, because the device does not compute them or none of their kernels was named.
fn kernels(
    bench: &dyn Bench,
    backend: BackendKind,
    plan: &BenchPlan,
) -> Result<(Vec<OfKind>, Vec<String>), DeviceError> {
    let all: Vec<OfKind> = plan.precisions.iter().map(|kind| (*kind, bench.kernels(*kind))).collect();
    let unknown = plan.kernels.iter().find(|kernel| !all.iter().any(|(_, of_kind)| of_kind.contains(kernel)));
    if let Some(unknown) = unknown {
        let known: Vec<_> = all.iter().map(|(kind, of_kind)| format!("{kind}: {}", of_kind.join(", "))).collect();
        let text = format!("--kernels {unknown}: this device runs\n{}", known.join("\n"));
        return Err(DeviceError::Unsupported(text));
    }
    let (mut chosen, mut left_out) = (Vec::new(), Vec::new());
    for (precision, mut of_kind) in all {
        match of_kind.is_empty() {
            true => left_out.push(format!("{precision}: this device does not compute this kind of work")),
            false if !plan.kernels.is_empty() => {
                of_kind = plan.kernels.iter().filter(|kernel| of_kind.contains(kernel)).cloned().collect();
                if of_kind.is_empty() {
                    left_out.push(format!("{precision}: none of the kernels named computes this kind of work"));
                }
            }
            false if backend == BackendKind::Cpu => of_kind.truncate(1),
            false => {}
        }
        if !of_kind.is_empty() {
            chosen.push((precision, of_kind));
        }
    }
    Ok((chosen, left_out))
}

/// A run's rates and figures so far.
struct Runner<'a> {
    plan: &'a BenchPlan,
    progress: &'a BenchProgress,
    /// The last rate of each stage, kind of work and kernel, which says how long the next size would take.
    rates: HashMap<(BenchStage, Precision, String), f64>,
    figures: Vec<StageFigure>,
    left_out: Vec<String>,
}

impl Runner<'_> {
    /// Whether a stage, as fast as at the size before, takes no longer than is bearable.
    fn is_worth_it(&mut self, cell: &BenchCell, count: u32) -> bool {
        let Some(rate) = self.rates.get(&(cell.stage, cell.precision, cell.kernel.clone())) else { return true };
        if self.plan.patient || !cell.stage.counts_operations() {
            return true;
        }
        let products = if cell.stage == BenchStage::Peer { 1.0 } else { f64::from(count - 2) };
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let seconds = products * product_operations(cell.precision, cell.n) as f64 / rate;
        if seconds > PATIENCE_S {
            let (stage, n) = (cell.to_string(), cell.n);
            self.left_out.push(format!("{stage}: one sample would take {seconds:.0} s; --n {n} measures it"));
        }
        seconds <= PATIENCE_S
    }

    /// Measures everything of one kind of work and size in turn.
    fn size(
        &mut self,
        bench: &mut dyn Bench,
        precision: Precision,
        n: u32,
        count: u32,
        cells: Vec<BenchCell>,
    ) -> Result<(), DeviceError> {
        bench.prepare(precision, n, count)?;
        let mut turns = Vec::with_capacity(cells.len());
        for cell in cells {
            self.progress.show(&cell);
            match bench.sample(cell.stage, &cell.kernel, 1) {
                Ok(first) => {
                    // CAST: bounded on both sides.
                    let repeats =
                        (self.plan.sample_s / first.elapsed.as_secs_f64()).clamp(1.0, MAX_REPEATS).ceil() as u32;
                    turns.push((cell, repeats, Vec::new()));
                }
                // A stage that this device has not is not worth a word.
                Err(DeviceError::Unsupported(_)) => {}
                Err(error) => return Err(error),
            }
        }
        for _ in 0..self.plan.rounds {
            for (cell, repeats, samples) in &mut turns {
                self.progress.show(cell);
                samples.push(bench.sample(cell.stage, &cell.kernel, *repeats)?.rate_per_s());
            }
        }
        for (cell, _, samples) in turns {
            let rate = median(&samples);
            self.rates.insert((cell.stage, cell.precision, cell.kernel.clone()), rate);
            self.figures.push(StageFigure {
                bytes: None,
                precision: cell.stage.counts_operations().then_some(cell.precision),
                n: cell.stage.depends_on_n().then_some(cell.n),
                kernel: cell.stage.depends_on_kernel().then_some(cell.kernel),
                stage: cell.stage,
                rate_per_s: rate,
                samples_per_s: samples,
                share_of_limit: None,
                ratio_to_peer: None,
            });
        }
        Ok(())
    }

    /// Measures the probe over slots of `bytes` bytes.
    fn probe(&mut self, bench: &mut dyn Bench, kernels: &[OfKind], bytes: u64) -> Result<(), DeviceError> {
        let Some((precision, names)) = kernels.first() else { return Ok(()) };
        let fits = |n: &&u32| u64::from(**n).pow(2) * 100 <= bytes;
        let n = PROBE_SIZES.iter().find(fits).copied().unwrap_or(PROBE_SIZES[PROBE_SIZES.len() - 1]);
        // CAST: slots of 4096 bytes squared of any memory are less than 2^32.
        let count = ((bytes / u64::from(n).pow(2)) as u32).max(3);
        self.progress.show_text(&format!("probe over {bytes} bytes"));
        bench.prepare(*precision, n, count)?;
        let mut repeats = 1;
        let mut samples_per_s = Vec::new();
        for round in 0..=self.plan.rounds {
            let sample = bench.sample(BenchStage::Probe, &names[0], repeats)?;
            if round == 0 {
                // CAST: bounded on both sides.
                repeats = (self.plan.sample_s / sample.elapsed.as_secs_f64()).clamp(1.0, MAX_REPEATS).ceil() as u32;
            } else {
                samples_per_s.push(sample.rate_per_s());
            }
        }
        self.figures.push(StageFigure {
            stage: BenchStage::Probe,
            bytes: Some(u64::from(count) * u64::from(n).pow(2)),
            precision: None,
            n: Some(n),
            kernel: None,
            rate_per_s: median(&samples_per_s),
            samples_per_s,
            share_of_limit: None,
            ratio_to_peer: None,
        });
        Ok(())
    }
}

/// Sets every figure beside the limits, and beside the peer's of the same kind of work and size.
fn compare(figures: &mut [StageFigure], limits: &PeakRates, kind_limits: &[KindLimit]) {
    let is_peer = |figure: &&StageFigure| figure.stage == BenchStage::Peer;
    let place = |figure: &StageFigure| (figure.precision, figure.n);
    let peers: HashMap<_, f64> = figures.iter().filter(is_peer).map(|f| (place(f), f.rate_per_s)).collect();
    for figure in figures {
        let limit = match figure.stage {
            BenchStage::Product | BenchStage::Pass | BenchStage::Peer => {
                let of_kind = kind_limits.iter().find(|limit| Some(limit.precision) == figure.precision);
                of_kind.map(|limit| limit.operations_per_s)
            }
            BenchStage::Probe | BenchStage::Sweep | BenchStage::DeviceCopy => limits.bytes_per_s,
            // The bus's limit is not known, and the arithmetic of the others is their own.
            _ => None,
        };
        figure.share_of_limit = limit.map(|limit| figure.rate_per_s / limit);
        if figure.stage.depends_on_kernel() {
            figure.ratio_to_peer = peers.get(&place(figure)).map(|peer| figure.rate_per_s / peer);
        }
    }
}

/// The middle one; of an even number the upper of the two.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use assay_device::Device;
    use assay_device::bench::Measurement;
    use assay_work::DeviceId;

    use super::*;

    /// A device with set speeds: `rates` operations a second for each kernel, bytes at 1 GB/s. It computes INT8 and
    /// FP4, the latter twice as fast and by the first kernel alone.
    struct ScriptedBench {
        rates: Vec<(&'static str, f64)>,
        peer: Option<f64>,
        prepared: (Precision, u32),
        asked: Vec<(BenchStage, Precision, u32)>,
    }

    impl ScriptedBench {
        fn new(rates: &[(&'static str, f64)], peer: Option<f64>) -> Self {
            Self { rates: rates.into(), peer, prepared: (Precision::Int8, 0), asked: Vec::new() }
        }
    }

    impl Bench for ScriptedBench {
        fn device(&mut self) -> &mut dyn Device {
            unreachable!("its slots are told too")
        }

        fn kernels(&self, precision: Precision) -> Vec<String> {
            let count = match precision {
                Precision::Int8 => self.rates.len(),
                Precision::Fp4 => 1,
                _ => 0,
            };
            self.rates.iter().take(count).map(|(name, _)| (*name).to_owned()).collect()
        }

        fn operations_limit(&mut self, precision: Precision) -> Option<f64> {
            assert_eq!(precision, Precision::Fp4, "that of INT8 is among the peak rates");
            Some(8e12)
        }

        fn peak_rates(&mut self) -> PeakRates {
            PeakRates { operations_per_s: Some(4e12), bytes_per_s: Some(2e9), source: "told".into() }
        }

        fn peer(&self, precision: Precision) -> Result<String, String> {
            self.peer.filter(|_| precision == Precision::Int8).map(|_| "a library".into()).ok_or("no library".into())
        }

        fn prepare(&mut self, precision: Precision, n: u32, _: u32) -> Result<(), DeviceError> {
            self.prepared = (precision, n);
            Ok(())
        }

        fn sample(&mut self, stage: BenchStage, kernel: &str, repeats: u32) -> Result<Measurement, DeviceError> {
            let (precision, n) = self.prepared;
            self.asked.push((stage, precision, n));
            let product = product_operations(precision, n) * u128::from(repeats);
            let faster = if precision == Precision::Fp4 { 2.0 } else { 1.0 };
            let told = |rate: f64| Measurement {
                elapsed: Duration::from_secs_f64(product as f64 / rate),
                operations: product,
                bytes: 0,
            };
            let second = |bytes| Measurement { elapsed: Duration::from_secs(u64::from(repeats)), operations: 0, bytes };
            match stage {
                BenchStage::Product | BenchStage::Pass => Ok(told(
                    self.rates.iter().find(|(name, _)| *name == kernel).map(|(_, rate)| faster * rate).unwrap(),
                )),
                BenchStage::Peer => Ok(told(self.peer.unwrap())),
                BenchStage::Leaves | BenchStage::Digests => Err(DeviceError::Unsupported("not here".into())),
                _ => Ok(second(1_000_000_000 * u64::from(repeats))),
            }
        }
    }

    fn plan(sizes: &[u32], patient: bool) -> BenchPlan {
        BenchPlan {
            sizes: sizes.to_vec(),
            patient,
            kernels: Vec::new(),
            precisions: vec![Precision::Int8],
            rounds: 3,
            sample_s: SAMPLE_S,
            slots: None,
            probe_bytes: Vec::new(),
        }
    }

    fn run(device: &mut ScriptedBench, backend: BackendKind, fits: &[u32], plan: &BenchPlan) -> DeviceFigures {
        let info = DeviceInfo {
            id: DeviceId([1; 16]),
            name: "told".into(),
            backend,
            detail: String::new(),
            precisions: vec![Precision::Int8],
            units: Vec::new(),
            total_bytes: 0,
            free_bytes: 0,
        };
        measure(device, &info, fits, plan, &BenchProgress(ProgressBar::hidden())).unwrap()
    }

    #[test]
    fn figures_stand_beside_the_limit_and_the_peer() {
        let mut device = ScriptedBench::new(&[("fast", 2e12), ("slow", 5e11)], Some(1e12));
        let measured = run(&mut device, BackendKind::Cuda, &[1000, 1000], &plan(&[1024, 2048], false));
        let products: Vec<_> = measured.figures.iter().filter(|f| f.stage == BenchStage::Product).collect();
        assert_eq!(products.len(), 4, "two kernels at two sizes");
        let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
        for figure in &products {
            let rate = if figure.kernel.as_deref() == Some("fast") { 2e12 } else { 5e11 };
            assert!(close(figure.rate_per_s, rate), "{figure:?}");
            assert!(close(figure.share_of_limit.unwrap(), rate / 4e12), "{figure:?}");
            assert!(close(figure.ratio_to_peer.unwrap(), rate / 1e12), "{figure:?}");
            assert_eq!(figure.samples_per_s.len(), 3);
        }
        let copies: Vec<_> = measured.figures.iter().filter(|f| f.stage == BenchStage::HostToDevice).collect();
        assert_eq!((copies.len(), copies[0].n), (1, None), "a copy is measured once");
        for stage in [BenchStage::Probe, BenchStage::Sweep] {
            let of_memory = measured.figures.iter().find(|f| f.stage == stage).unwrap();
            assert!(close(of_memory.share_of_limit.unwrap(), 0.5), "{of_memory:?}");
        }
        assert!(measured.figures.iter().all(|f| f.stage != BenchStage::Leaves), "a stage that the device has not");
        assert_eq!(measured.left_out, Vec::<String>::new());
    }

    #[test]
    fn what_takes_too_long_or_does_not_fit_is_left_out_with_its_reason() {
        let slow = || ScriptedBench::new(&[("only", 1e9)], None);
        let mut device = slow();
        let measured = run(&mut device, BackendKind::Cuda, &[256, 256, 7], &plan(&[256, 2048, 16384], false));
        assert!(
            measured.left_out.iter().any(|why| why.contains("n = 2048") && why.contains("--n 2048")),
            "{measured:?}"
        );
        assert!(measured.left_out.iter().any(|why| why.contains("n = 16384") && why.contains("fit")), "{measured:?}");
        assert!(!device.asked.contains(&(BenchStage::Product, Precision::Int8, 2048)), "it was measured all the same");
        let mut device = slow();
        assert!(run(&mut device, BackendKind::Cuda, &[256, 256], &plan(&[256, 2048], true)).left_out.is_empty());
        assert!(device.asked.contains(&(BenchStage::Product, Precision::Int8, 2048)));
    }

    #[test]
    fn each_kind_of_work_is_measured_with_its_own_kernels_and_limit() {
        let mut device = ScriptedBench::new(&[("fast", 2e12), ("slow", 5e11)], Some(1e12));
        let plan = BenchPlan { precisions: Precision::ALL.into(), ..plan(&[1024, 2048], false) };
        let measured = run(&mut device, BackendKind::Cuda, &[1000, 1000], &plan);
        let of_kind = |precision| {
            let is = |f: &&StageFigure| f.stage == BenchStage::Product && f.precision == Some(precision);
            measured.figures.iter().filter(is).collect::<Vec<_>>()
        };
        assert_eq!((of_kind(Precision::Int8).len(), of_kind(Precision::Fp4).len()), (4, 2));
        for figure in of_kind(Precision::Fp4) {
            assert!((figure.rate_per_s / 4e12 - 1.0).abs() < 1e-6, "{figure:?}");
            assert!((figure.share_of_limit.unwrap() - 0.5).abs() < 1e-6, "{figure:?}");
            assert_eq!(figure.ratio_to_peer, None, "the library's product is of INT8");
        }
        assert_eq!(measured.left_out.len(), 4, "all but INT8 and FP4: {:?}", measured.left_out);
        let once = |stage| device.asked.iter().all(|(of, kind, _)| *of != stage || *kind == Precision::Int8);
        assert!(once(BenchStage::Probe) && once(BenchStage::Peer), "what does not depend on the kind is measured once");
        let limits: Vec<_> = measured.kind_limits.iter().map(|l| (l.precision, l.operations_per_s)).collect();
        assert_eq!(limits, [(Precision::Int8, 4e12), (Precision::Fp4, 8e12)]);
    }

    #[test]
    fn a_gpus_pass_of_large_matrices_is_long_where_that_fits() {
        let plan = plan(&[8192], false);
        let count = |backend, n, fit| plan.count(backend, n, fit);
        assert_eq!(count(BackendKind::Cuda, 8192, 2000), 128);
        assert_eq!(count(BackendKind::Wgpu, 16_384, 100), 75, "a quarter of the memory stays free");
        assert_eq!(count(BackendKind::Cuda, 8192, 10), 16, "more than fit: left out");
        assert_eq!(count(BackendKind::Cuda, 4096, 2000), 64);
        assert_eq!(count(BackendKind::Cpu, 8192, 2000), 16);
        let named = BenchPlan { slots: Some(4), ..plan.clone() };
        assert_eq!(named.count(BackendKind::Cuda, 8192, 2000), 4);
    }

    #[test]
    fn the_probe_is_measured_over_so_many_bytes_and_nothing_else_is() {
        let mut device = ScriptedBench::new(&[("fast", 2e12)], Some(1e12));
        let plan = BenchPlan { probe_bytes: vec![20_000_000, 4_000_000_000], ..plan(&[1024], false) };
        let measured = run(&mut device, BackendKind::Cuda, &[1000], &plan);
        let figures: Vec<_> = measured.figures.iter().map(|f| (f.stage, f.n, f.bytes, f.samples_per_s.len())).collect();
        let over = |n: u32, count: u64| (BenchStage::Probe, Some(n), Some(count * u64::from(n).pow(2)), 3);
        assert_eq!(figures, [over(256, 305), over(4096, 238)], "never more than was asked for");
        assert!(device.asked.iter().all(|(stage, ..)| *stage == BenchStage::Probe), "{:?}", device.asked);
    }

    #[test]
    fn a_peer_is_measured_next_to_the_product_of_its_kind() {
        let mut device = ScriptedBench::new(&[("fast", 2e12)], Some(1e12));
        let plan = BenchPlan { precisions: vec![Precision::Int8, Precision::Fp4], ..plan(&[1024], false) };
        run(&mut device, BackendKind::Cuda, &[1000], &plan);
        let int8: Vec<_> =
            device.asked.iter().filter(|(_, kind, _)| *kind == Precision::Int8).map(|(s, ..)| *s).collect();
        let next = int8
            .iter()
            .zip(&int8[1..])
            .filter(|(a, _)| **a == BenchStage::Product)
            .all(|(_, b)| *b == BenchStage::Peer);
        assert!(next, "{int8:?}");
        assert!(!device.asked.contains(&(BenchStage::Peer, Precision::Fp4, 1024)), "the library has none of it");
    }

    #[test]
    fn kernels_are_those_named_else_a_processors_best_or_all_of_a_gpu() {
        let device = ScriptedBench::new(&[("a", 1.0), ("b", 1.0)], None);
        let mut plan = plan(&[256], false);
        let of = |backend, plan: &BenchPlan| kernels(&device, backend, plan).unwrap();
        let int8 = |names: &[&str]| (Precision::Int8, names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(of(BackendKind::Cpu, &plan), (vec![int8(&["a"])], vec![]));
        assert_eq!(of(BackendKind::Cuda, &plan), (vec![int8(&["a", "b"])], vec![]));
        plan.kernels = vec!["b".into()];
        plan.precisions = vec![Precision::Int8, Precision::Fp4];
        let (chosen, left_out) = of(BackendKind::Cpu, &plan);
        assert_eq!(chosen, [int8(&["b"])]);
        assert!(left_out[0].starts_with("fp4: none of the kernels named"), "{left_out:?}");
        plan.kernels = vec!["c".into()];
        assert!(matches!(kernels(&device, BackendKind::Cuda, &plan), Err(DeviceError::Unsupported(why))
                if why.ends_with("this device runs\nint8: a, b\nfp4: a")));
    }
}
