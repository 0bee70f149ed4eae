//! Measuring a device: what, how often, and in which order.
//!
//! Clocks drift, so everything of one matrix size is measured in turn, round after round, and the medians are
//! what counts. A first sample of each stage, which is not counted, warms up and says how many repeats fill
//! [`SAMPLE_S`].

use std::collections::HashMap;
use std::time::Duration;

use assay_device::backend::{BackendKind, Preparing};
use assay_device::bench::{Bench, BenchStage, PeakRates, product_operations};
use assay_device::{DeviceError, DeviceInfo};
use assay_work::Precision;
use indicatif::{ProgressBar, ProgressStyle};

use crate::report::{DeviceFigures, Figure, KindLimit};

/// How long one sample is to take, in seconds: long beside a launch, short beside a drift.
pub(crate) const SAMPLE_S: f64 = 0.1;
/// The longest first sample that is not asked for by name, in seconds.
const PATIENCE_S: f64 = 10.0;
/// The most repeats in one sample.
const MAX_REPEATS: f64 = 10_000.0;
/// Slots are as many as take this many bytes: several times any cache.
const SLOTS_BYTES: u64 = 1 << 30;
/// The fewest and the most slots.
const COUNT: (u64, u64) = (8, 256);

/// What to measure.
#[derive(Debug, Clone)]
pub struct BenchPlan {
    /// The matrix sizes, smallest first.
    pub sizes: Vec<u32>,
    /// Whether also what takes long is measured.
    pub patient: bool,
    /// The product kernels; when empty all of a GPU's, and the one chosen of a processor's.
    pub kernels: Vec<String>,
    /// The kinds of work of products and passes, at least one; everything else is measured with the first alone.
    pub precisions: Vec<Precision>,
    /// How many samples of each.
    pub rounds: u32,
}

/// Shows on a terminal what is being measured.
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
    pub fn preparing(&self, now: &Preparing) {
        let part = if now.total > 0 { format!(" ({} of {})", now.done, now.total) } else { String::new() };
        self.0.set_message(format!("{}{part}", now.what));
    }

    /// Shows what is being measured.
    pub(crate) fn show_text(&self, text: &str) {
        self.0.set_message(text.to_owned());
    }

    fn show(&self, cell: &Cell) {
        self.show_text(&cell.to_string());
    }
}

impl Drop for BenchProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// One thing to measure.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Cell {
    stage: BenchStage,
    precision: Precision,
    n: u32,
    kernel: String,
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "n = {}: {:?}", self.n, self.stage)?;
        if self.stage.depends_on_kernel() { write!(f, " of {} with {}", self.precision, self.kernel) } else { Ok(()) }
    }
}

/// Measures a device whose memory holds `fits` slots of each size of the plan.
///
/// # Errors
/// The device's, but for stages that it has not.
pub fn measure(
    bench: &mut dyn Bench,
    info: &DeviceInfo,
    fits: &[u32],
    plan: &BenchPlan,
    progress: &BenchProgress,
) -> Result<DeviceFigures, DeviceError> {
    let (kernels, left_out) = kernels(bench, info.backend, plan)?;
    let mut run = Runner { plan, progress, rates: HashMap::new(), figures: Vec::new(), left_out };
    let (limits, peer) = (bench.peak_rates(), bench.peer());
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
    for (index, (&n, &fit)) in plan.sizes.iter().zip(fits).enumerate() {
        let count = (SLOTS_BYTES / (u64::from(n) * u64::from(n))).clamp(COUNT.0, COUNT.1);
        if u64::from(fit) < count {
            run.left_out.push(format!("n = {n}: {count} slots do not fit into the memory that is free"));
            continue;
        }
        for (turn, (precision, kernels)) in kernels.iter().enumerate() {
            let stages = BenchStage::ALL.into_iter().filter(|s| s.depends_on_n() || index == 0);
            let stages = stages.filter(|s| s.depends_on_kind() || turn == 0);
            // The library's product is of INT8.
            let has_peer = peer.is_ok() && *precision == Precision::Int8;
            let stages = stages.filter(|s| *s != BenchStage::Peer || has_peer);
            let cells = stages.flat_map(|stage| {
                let kernels = if stage.depends_on_kernel() { &kernels[..] } else { &kernels[..1] };
                kernels.iter().map(move |kernel| Cell { stage, precision: *precision, n, kernel: kernel.clone() })
            });
            let cells: Vec<Cell> = cells.filter(|cell| run.is_worth_it(cell, count)).collect();
            if !cells.is_empty() {
                // CAST: the clamp above keeps it small.
                run.size(bench, *precision, n, count as u32, cells)?;
            }
        }
    }
    let Runner { mut figures, left_out, .. } = run;
    compare(&mut figures, &limits, &kind_limits);
    let (peer, no_peer) = peer.map_or_else(|why| (None, Some(why)), |peer| (Some(peer), None));
    let (name, backend) = (info.name.clone(), info.backend.to_string());
    Ok(DeviceFigures { device_id: info.id, name, backend, limits, kind_limits, peer, no_peer, figures, left_out })
}

/// The kernels to measure of a kind of work, at least one.
type OfKind = (Precision, Vec<String>);

/// The kernels to measure of each kind of work, the one that the device would choose first unless others were named; and
/// what is left out, because the device does not compute a kind or none of its kernels was named.
fn kernels(
    bench: &dyn Bench,
    backend: BackendKind,
    plan: &BenchPlan,
) -> Result<(Vec<OfKind>, Vec<String>), DeviceError> {
    let all: Vec<OfKind> = plan.precisions.iter().map(|kind| (*kind, bench.kernels(*kind))).collect();
    let unknown = plan.kernels.iter().find(|kernel| !all.iter().any(|(_, of_kind)| of_kind.contains(kernel)));
    if let Some(unknown) = unknown {
        let mut known: Vec<&str> = Vec::new();
        for kernel in all.iter().flat_map(|(_, of_kind)| of_kind) {
            if !known.contains(&kernel.as_str()) {
                known.push(kernel);
            }
        }
        let text = format!("--kernels {unknown}: this device runs {}", known.join(", "));
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

/// What a run gathers.
struct Runner<'a> {
    plan: &'a BenchPlan,
    progress: &'a BenchProgress,
    /// The last rate of each stage, kind of work and kernel, which says how long the next size would take.
    rates: HashMap<(BenchStage, Precision, String), f64>,
    figures: Vec<Figure>,
    left_out: Vec<String>,
}

impl Runner<'_> {
    /// Whether a stage, as fast as at the size before, takes no longer than is bearable.
    fn is_worth_it(&mut self, cell: &Cell, count: u64) -> bool {
        let Some(rate) = self.rates.get(&(cell.stage, cell.precision, cell.kernel.clone())) else { return true };
        if self.plan.patient || !cell.stage.counts_operations() {
            return true;
        }
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let products = if cell.stage == BenchStage::Peer { 1.0 } else { (count - 2) as f64 };
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
        cells: Vec<Cell>,
    ) -> Result<(), DeviceError> {
        bench.prepare(precision, n, count)?;
        let mut turns = Vec::with_capacity(cells.len());
        for cell in cells {
            self.progress.show(&cell);
            match bench.sample(cell.stage, &cell.kernel, 1) {
                Ok(first) => {
                    // CAST: bounded on both sides.
                    let repeats = (SAMPLE_S / first.elapsed.as_secs_f64()).clamp(1.0, MAX_REPEATS).ceil() as u32;
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
            self.figures.push(Figure {
                // The library's product is of a kind of work too.
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
}

/// Sets every figure beside the limits, and beside the peer's of the same kind of work and size.
fn compare(figures: &mut [Figure], limits: &PeakRates, kind_limits: &[KindLimit]) {
    let is_peer = |figure: &&Figure| figure.stage == BenchStage::Peer;
    let place = |figure: &Figure| (figure.precision, figure.n);
    let peers: HashMap<_, f64> = figures.iter().filter(is_peer).map(|f| (place(f), f.rate_per_s)).collect();
    for figure in figures {
        let limit = match figure.stage {
            BenchStage::Product | BenchStage::Pass | BenchStage::Peer => {
                let of_kind = kind_limits.iter().find(|limit| Some(limit.precision) == figure.precision);
                of_kind.map(|limit| limit.operations_per_s)
            }
            BenchStage::Probe | BenchStage::DeviceCopy => limits.bytes_per_s,
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

    /// A device as fast as it is told: `rates` operations a second for each kernel, bytes at 1 GB/s. It computes INT8 and
    /// FP4, the latter twice as fast and by the first kernel alone.
    struct Told {
        rates: Vec<(&'static str, f64)>,
        peer: Option<f64>,
        prepared: (Precision, u32),
        asked: Vec<(BenchStage, Precision, u32)>,
    }

    impl Told {
        fn new(rates: &[(&'static str, f64)], peer: Option<f64>) -> Self {
            Self { rates: rates.into(), peer, prepared: (Precision::Int8, 0), asked: Vec::new() }
        }
    }

    impl Bench for Told {
        fn device(&mut self) -> &mut dyn Device {
            unreachable!("its slots are told too")
        }

        fn kernels(&self, precision: Precision) -> Vec<String> {
            let count = match precision {
                Precision::Int8 => self.rates.len(),
                Precision::Fp4 => 1,
                Precision::F16 | Precision::Fp8 => 0,
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

        fn peer(&self) -> Result<String, String> {
            self.peer.map(|_| "a library".into()).ok_or("no library".into())
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
        BenchPlan { sizes: sizes.to_vec(), patient, kernels: Vec::new(), precisions: vec![Precision::Int8], rounds: 3 }
    }

    fn run(device: &mut Told, backend: BackendKind, fits: &[u32], plan: &BenchPlan) -> DeviceFigures {
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
        let mut device = Told::new(&[("fast", 2e12), ("slow", 5e11)], Some(1e12));
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
        let probe = measured.figures.iter().find(|f| f.stage == BenchStage::Probe).unwrap();
        assert!(close(probe.share_of_limit.unwrap(), 0.5), "{probe:?}");
        assert!(measured.figures.iter().all(|f| f.stage != BenchStage::Leaves), "a stage that the device has not");
        assert_eq!(measured.left_out, Vec::<String>::new());
    }

    #[test]
    fn what_takes_too_long_or_does_not_fit_is_left_out_with_its_reason() {
        let slow = || Told::new(&[("only", 1e9)], None);
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
        let mut device = Told::new(&[("fast", 2e12), ("slow", 5e11)], Some(1e12));
        let plan = BenchPlan { precisions: Precision::ALL.into(), ..plan(&[1024, 2048], false) };
        let measured = run(&mut device, BackendKind::Cuda, &[1000, 1000], &plan);
        let of_kind = |precision| {
            let is = |f: &&Figure| f.stage == BenchStage::Product && f.precision == Some(precision);
            measured.figures.iter().filter(is).collect::<Vec<_>>()
        };
        assert_eq!((of_kind(Precision::Int8).len(), of_kind(Precision::Fp4).len()), (4, 2));
        for figure in of_kind(Precision::Fp4) {
            assert!((figure.rate_per_s / 4e12 - 1.0).abs() < 1e-6, "{figure:?}");
            assert!((figure.share_of_limit.unwrap() - 0.5).abs() < 1e-6, "{figure:?}");
            assert_eq!(figure.ratio_to_peer, None, "the library's product is of INT8");
        }
        assert_eq!(measured.left_out.len(), 2, "F16 and FP8: {:?}", measured.left_out);
        let once = |stage| device.asked.iter().all(|(of, kind, _)| *of != stage || *kind == Precision::Int8);
        assert!(once(BenchStage::Probe) && once(BenchStage::Peer), "what does not depend on the kind is measured once");
        let limits: Vec<_> = measured.kind_limits.iter().map(|l| (l.precision, l.operations_per_s)).collect();
        assert_eq!(limits, [(Precision::Int8, 4e12), (Precision::Fp4, 8e12)]);
    }

    #[test]
    fn kernels_are_those_named_else_a_processors_best_or_all_of_a_gpu() {
        let device = Told::new(&[("a", 1.0), ("b", 1.0)], None);
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
        assert!(
            matches!(kernels(&device, BackendKind::Cuda, &plan), Err(DeviceError::Unsupported(why)) if why.contains("a, b"))
        );
    }
}
