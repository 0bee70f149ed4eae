//! Measuring a device: what, how often, and in which order.
//!
//! Clocks drift, so everything of one matrix size is measured in turn, round after round, and the medians are
//! what counts. A first sample of each stage, which is not counted, warms up and says how many repeats fill
//! [`SAMPLE_S`].

use std::collections::HashMap;
use std::time::Duration;

use assay_device::backend::{BackendKind, Preparing};
use assay_device::bench::{Bench, BenchStage, PeakRates};
use assay_device::{DeviceError, DeviceInfo};
use indicatif::{ProgressBar, ProgressStyle};

use crate::report::{DeviceFigures, Figure};

/// How long one sample is to take, in seconds: long beside a launch, short beside a drift.
const SAMPLE_S: f64 = 0.1;
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

    fn show(&self, cell: &Cell) {
        self.0.set_message(cell.to_string());
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
    n: u32,
    kernel: String,
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "n = {}: {:?}", self.n, self.stage)?;
        if self.stage.depends_on_kernel() { write!(f, " with {}", self.kernel) } else { Ok(()) }
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
    let kernels = kernels(bench, info.backend, plan)?;
    let mut run = Runner { plan, progress, rates: HashMap::new(), figures: Vec::new(), left_out: Vec::new() };
    let (limits, peer) = (bench.peak_rates(), bench.peer());
    for (index, (&n, &fit)) in plan.sizes.iter().zip(fits).enumerate() {
        let count = (SLOTS_BYTES / (u64::from(n) * u64::from(n))).clamp(COUNT.0, COUNT.1);
        if u64::from(fit) < count {
            run.left_out.push(format!("n = {n}: {count} slots do not fit into the memory that is free"));
            continue;
        }
        let stages = BenchStage::ALL.into_iter().filter(|s| s.depends_on_n() || index == 0);
        let stages = stages.filter(|s| *s != BenchStage::Peer || peer.is_ok());
        let cells = stages.flat_map(|stage| {
            let kernels = if stage.depends_on_kernel() { &kernels[..] } else { &kernels[..1] };
            kernels.iter().map(move |kernel| Cell { stage, n, kernel: kernel.clone() })
        });
        let cells: Vec<Cell> = cells.filter(|cell| run.is_worth_it(cell, count)).collect();
        if !cells.is_empty() {
            // CAST: the clamp above keeps it small.
            run.size(bench, n, count as u32, cells)?;
        }
    }
    let Runner { mut figures, left_out, .. } = run;
    compare(&mut figures, &limits);
    let (peer, no_peer) = peer.map_or_else(|why| (None, Some(why)), |peer| (Some(peer), None));
    let (name, backend) = (info.name.clone(), info.backend.to_string());
    Ok(DeviceFigures { device_id: info.id, name, backend, limits, peer, no_peer, figures, left_out })
}

/// The kernels to measure, the one that the device would choose first unless others were named.
fn kernels(bench: &dyn Bench, backend: BackendKind, plan: &BenchPlan) -> Result<Vec<String>, DeviceError> {
    let all = bench.kernels();
    if let Some(unknown) = plan.kernels.iter().find(|kernel| !all.contains(kernel)) {
        let text = format!("--kernels {unknown}: this device runs {}", all.join(", "));
        return Err(DeviceError::Unsupported(text));
    }
    Ok(match plan.kernels.is_empty() {
        false => plan.kernels.clone(),
        true if backend == BackendKind::Cpu => all.into_iter().take(1).collect(),
        true => all,
    })
}

/// What a run gathers.
struct Runner<'a> {
    plan: &'a BenchPlan,
    progress: &'a BenchProgress,
    /// The last rate of each stage and kernel, which says how long the next size would take.
    rates: HashMap<(BenchStage, String), f64>,
    figures: Vec<Figure>,
    left_out: Vec<String>,
}

impl Runner<'_> {
    /// Whether a stage, as fast as at the size before, takes no longer than is bearable.
    fn is_worth_it(&mut self, cell: &Cell, count: u64) -> bool {
        let Some(rate) = self.rates.get(&(cell.stage, cell.kernel.clone())) else { return true };
        if self.plan.patient || !cell.stage.counts_operations() {
            return true;
        }
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let products = if cell.stage == BenchStage::Peer { 1.0 } else { (count - 2) as f64 };
        let seconds = products * 2.0 * f64::from(cell.n).powi(3) / rate;
        if seconds > PATIENCE_S {
            let (stage, n) = (cell.to_string(), cell.n);
            self.left_out.push(format!("{stage}: one sample would take {seconds:.0} s; --n {n} measures it"));
        }
        seconds <= PATIENCE_S
    }

    /// Measures everything of one size in turn.
    fn size(&mut self, bench: &mut dyn Bench, n: u32, count: u32, cells: Vec<Cell>) -> Result<(), DeviceError> {
        bench.prepare(n, count)?;
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
            self.rates.insert((cell.stage, cell.kernel.clone()), rate);
            self.figures.push(Figure {
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

/// Sets every figure beside the limits, and beside the peer's at the same size.
fn compare(figures: &mut [Figure], limits: &PeakRates) {
    let is_peer = |figure: &&Figure| figure.stage == BenchStage::Peer;
    let peers: HashMap<Option<u32>, f64> = figures.iter().filter(is_peer).map(|f| (f.n, f.rate_per_s)).collect();
    for figure in figures {
        let limit = match figure.stage {
            BenchStage::Product | BenchStage::Pass | BenchStage::Peer => limits.operations_per_s,
            BenchStage::Probe | BenchStage::DeviceCopy => limits.bytes_per_s,
            // The bus's limit is not known, and the arithmetic of the others is their own.
            _ => None,
        };
        figure.share_of_limit = limit.map(|limit| figure.rate_per_s / limit);
        if figure.stage.depends_on_kernel() {
            figure.ratio_to_peer = peers.get(&figure.n).map(|peer| figure.rate_per_s / peer);
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

    /// A device as fast as it is told: `rates` operations a second for each kernel, bytes at 1 GB/s.
    struct Told {
        rates: Vec<(&'static str, f64)>,
        peer: Option<f64>,
        n: u32,
        asked: Vec<(BenchStage, u32)>,
    }

    impl Bench for Told {
        fn device(&mut self) -> &mut dyn Device {
            unreachable!("its slots are told too")
        }

        fn kernels(&self) -> Vec<String> {
            self.rates.iter().map(|(name, _)| (*name).to_owned()).collect()
        }

        fn peak_rates(&mut self) -> PeakRates {
            PeakRates { operations_per_s: Some(4e12), bytes_per_s: Some(2e9), source: "told".into() }
        }

        fn peer(&self) -> Result<String, String> {
            self.peer.map(|_| "a library".into()).ok_or("no library".into())
        }

        fn prepare(&mut self, n: u32, _: u32) -> Result<(), DeviceError> {
            self.n = n;
            Ok(())
        }

        fn sample(&mut self, stage: BenchStage, kernel: &str, repeats: u32) -> Result<Measurement, DeviceError> {
            self.asked.push((stage, self.n));
            let product = 2 * u128::from(self.n).pow(3) * u128::from(repeats);
            let told = |rate: f64| Measurement {
                elapsed: Duration::from_secs_f64(product as f64 / rate),
                operations: product,
                bytes: 0,
            };
            let second = |bytes| Measurement { elapsed: Duration::from_secs(u64::from(repeats)), operations: 0, bytes };
            match stage {
                BenchStage::Product | BenchStage::Pass => {
                    Ok(told(self.rates.iter().find(|(name, _)| *name == kernel).map(|(_, rate)| *rate).unwrap()))
                }
                BenchStage::Peer => Ok(told(self.peer.unwrap())),
                BenchStage::Leaves | BenchStage::Digests => Err(DeviceError::Unsupported("not here".into())),
                _ => Ok(second(1_000_000_000 * u64::from(repeats))),
            }
        }
    }

    fn plan(sizes: &[u32], patient: bool) -> BenchPlan {
        BenchPlan { sizes: sizes.to_vec(), patient, kernels: Vec::new(), rounds: 3 }
    }

    fn run(device: &mut Told, backend: BackendKind, fits: &[u32], plan: &BenchPlan) -> DeviceFigures {
        let info = DeviceInfo {
            id: DeviceId([1; 16]),
            name: "told".into(),
            backend,
            detail: String::new(),
            total_bytes: 0,
            free_bytes: 0,
        };
        measure(device, &info, fits, plan, &BenchProgress(ProgressBar::hidden())).unwrap()
    }

    #[test]
    fn figures_stand_beside_the_limit_and_the_peer() {
        let mut device = Told { rates: vec![("fast", 2e12), ("slow", 5e11)], peer: Some(1e12), n: 0, asked: vec![] };
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
        let slow = || Told { rates: vec![("only", 1e9)], peer: None, n: 0, asked: vec![] };
        let mut device = slow();
        let measured = run(&mut device, BackendKind::Cuda, &[256, 256, 7], &plan(&[256, 2048, 16384], false));
        assert!(
            measured.left_out.iter().any(|why| why.contains("n = 2048") && why.contains("--n 2048")),
            "{measured:?}"
        );
        assert!(measured.left_out.iter().any(|why| why.contains("n = 16384") && why.contains("fit")), "{measured:?}");
        assert!(!device.asked.contains(&(BenchStage::Product, 2048)), "it was measured all the same");
        let mut device = slow();
        assert!(run(&mut device, BackendKind::Cuda, &[256, 256], &plan(&[256, 2048], true)).left_out.is_empty());
        assert!(device.asked.contains(&(BenchStage::Product, 2048)));
    }

    #[test]
    fn kernels_are_those_named_else_a_processors_best_or_all_of_a_gpu() {
        let device = Told { rates: vec![("a", 1.0), ("b", 1.0)], peer: None, n: 0, asked: vec![] };
        let mut plan = plan(&[256], false);
        assert_eq!(kernels(&device, BackendKind::Cpu, &plan).unwrap(), ["a"]);
        assert_eq!(kernels(&device, BackendKind::Cuda, &plan).unwrap(), ["a", "b"]);
        plan.kernels = vec!["b".into()];
        assert_eq!(kernels(&device, BackendKind::Cpu, &plan).unwrap(), ["b"]);
        plan.kernels = vec!["c".into()];
        assert!(
            matches!(kernels(&device, BackendKind::Cuda, &plan), Err(DeviceError::Unsupported(why)) if why.contains("a, b"))
        );
    }
}
