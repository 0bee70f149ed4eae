//! The measurements, as tables and as JSON.

use assay_device::backend::BackendKind;
use assay_device::bench::{BenchStage, PeakRates};
use assay_program::render::{Screen, table, units};
use assay_work::{DeviceId, Precision};
use serde::Serialize;

use crate::figure::StageFigure;
use crate::operations::{self, OperationFigure};

#[derive(Debug, Serialize)]
pub struct BenchReport {
    /// The program and its version.
    pub program: String,
    /// The devices that were measured by themselves, in the order measured.
    pub devices: Vec<DeviceFigures>,
    /// How fast the devices reach one another, where that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkFigures>,
}

/// How fast the devices of a host reach one another's memory, by the path that a linked probe takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkFigures {
    pub n: u32,
    /// All devices, in the order of the challenge.
    pub devices: Vec<LinkedDevice>,
    /// Every ordered pair, and every device with itself, row by row.
    pub pairs: Vec<PairFigure>,
    /// The linked probe over all of them.
    pub probe: LinkedProbeFigure,
}

/// A device among those linked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkedDevice {
    pub device_id: DeviceId,
    pub name: String,
    pub backend: String,
    /// Number of slots that it held.
    pub slots: u32,
}

/// States that one device stepped and another one stepped after it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairFigure {
    /// Which device they come from, in the order of the devices.
    pub from: usize,
    /// Which device they go to; the same: its own states, which go nowhere.
    pub to: usize,
    /// The median, in bytes of states a second. As many bytes of lines are read beside on each of both.
    pub bytes_per_s: f64,
    /// The rate of every sample.
    pub samples_per_s: Vec<f64>,
}

/// A linked probe over all devices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkedProbeFigure {
    pub walks: u32,
    pub steps: u32,
    pub rounds: u32,
    /// The median time in seconds.
    pub seconds: f64,
    /// The time of one step of all walks.
    pub step_seconds: f64,
    /// Bytes that cross between devices, at least: 64 bytes a step, all but the share of the device with the most
    /// slots.
    pub crossed_bytes: f64,
    /// Crossed bytes over the time.
    pub bytes_per_s: f64,
    /// The mean of the bytes a second into each device: the figure of a verdict.
    pub bytes_per_s_into_each: f64,
    /// Every sample's time.
    pub samples_s: Vec<f64>,
}

#[derive(Debug, Serialize)]
pub struct DeviceFigures {
    pub device_id: DeviceId,
    pub name: String,
    pub backend: String,
    pub limits: PeakRates,
    /// The limit of each kind of work that was measured, where it is known.
    pub kind_limits: Vec<KindLimit>,
    /// The vendor library measured beside.
    pub peer: Option<String>,
    /// The reason that no peer was measured.
    pub no_peer: Option<String>,
    pub figures: Vec<StageFigure>,
    /// The operations that challenges ask for, of the kinds that were measured.
    pub operations: Vec<OperationFigure>,
    /// Stages left out, with the reason.
    pub left_out: Vec<String>,
}

/// The most that products of a kind of work could reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct KindLimit {
    /// The kind, by its number.
    pub precision: Precision,
    /// Operations a second, dense.
    pub operations_per_s: f64,
}

impl BenchReport {
    pub fn new(program: String, mut devices: Vec<DeviceFigures>) -> Self {
        let is_processor = |device: &&DeviceFigures| device.backend == BackendKind::Cpu.name();
        let processor = devices.iter().find(is_processor).map(|device| operations::of_device(&device.figures));
        for device in &mut devices {
            device.operations = operations::of_device(&device.figures);
            operations::compare(&mut device.operations, processor.as_deref().unwrap_or_default());
        }
        Self { program, devices, link: None }
    }

    pub fn text(&self, screen: &Screen) -> String {
        let link = self.link.iter().map(|link| link_text(link, screen));
        self.devices.iter().map(|device| device_text(device, screen)).chain(link).collect::<Vec<_>>().join("\n\n")
    }
}

/// The matrix of all pairs, from row to column, then the probe.
fn link_text(link: &LinkFigures, screen: &Screen) -> String {
    let mut lines = vec![format!("linked devices, n = {}", link.n)];
    let device = |(place, device): (usize, &LinkedDevice)| {
        format!("  {place}: {} ({}, {}), {} slots", device.name, device.backend, device.device_id, device.slots)
    };
    lines.extend(link.devices.iter().enumerate().map(device));
    lines.push("GB/s of states stepped on one device, then on another, by way of host memory:".into());
    let header: Vec<_> = (0..link.devices.len()).map(|to| format!("to {to}")).collect();
    let header: Vec<_> = std::iter::once("from").chain(header.iter().map(String::as_str)).collect();
    let mut matrix = table::new(screen, &header);
    for row in link.pairs.chunks(link.devices.len().max(1)) {
        let from = row.first().map_or(String::new(), |pair| pair.from.to_string());
        let rates = row.iter().map(|pair| table::figure(giga(pair.bytes_per_s)));
        matrix.add_row(std::iter::once(table::figure(from)).chain(rates));
    }
    lines.push(table::text(&matrix));
    let LinkedProbeFigure { walks, steps, rounds, seconds, step_seconds, .. } = link.probe;
    lines.push(format!("linked probe of {walks} walks on each device, {steps} steps, {rounds} rounds:"));
    let (all, each) = (giga(link.probe.bytes_per_s), giga(link.probe.bytes_per_s_into_each));
    let (seconds, step) = (units::figures(seconds), units::figures(step_seconds * 1e6));
    lines.push(format!("  {seconds} s, {step} µs a step, {all} GB/s crossed, {each} GB/s into each device"));
    lines.join("\n")
}

fn device_text(device: &DeviceFigures, screen: &Screen) -> String {
    let mut lines = vec![format!("{} ({}, {})", device.name, device.backend, device.device_id)];
    let limits = &device.limits;
    let compute = limits.operations_per_s.map(|rate| format!("{} TOPS", tera(rate)));
    let memory = limits.bytes_per_s.map(|rate| format!("{} GB/s", giga(rate)));
    let known: Vec<String> = [compute, memory].into_iter().flatten().collect();
    lines.push(format!("limits: {}", if known.is_empty() { "unknown".into() } else { known.join(", ") }));
    lines.push(format!("  ({})", limits.source));
    let of_kinds = device.kind_limits.iter().filter(|limit| limit.precision != Precision::Int8);
    lines.extend(of_kinds.map(|l| format!("limit of {}: {} TOPS", l.precision, tera(l.operations_per_s))));
    match (&device.peer, &device.no_peer) {
        (Some(peer), _) => lines.push(format!("peer: {peer}")),
        (None, Some(why)) => lines.push(format!("peer: none: {why}")),
        (None, None) => {}
    }
    lines.extend([products(device, screen), bytes(device, screen)]);
    // Of one kind of work the tables above say as much.
    if device.operations.iter().any(|figure| figure.challenged_by != Precision::Int8.name() && figure.unit != "B") {
        lines.push(operations::text(&device.operations, screen));
    }
    lines.extend(device.left_out.iter().map(|why| format!("left out: {why}")));
    lines.join("\n")
}

/// Products and passes, one line for each size and kernel.
fn products(device: &DeviceFigures, screen: &Screen) -> String {
    let header =
        ["n", "kind", "kernel", "product TOPS", "of limit", "/ peer", "pass TOPS", "of limit", "pass / product"];
    let mut table = table::new(screen, &header);
    for product in device.figures.iter().filter(|f| matches!(f.stage, BenchStage::Product | BenchStage::Peer)) {
        let place = |f: &StageFigure| (f.precision, f.n, f.kernel.clone());
        let is_pass = |f: &&StageFigure| f.stage == BenchStage::Pass && place(f) == place(product);
        let pass = device.figures.iter().find(is_pass);
        table.add_row([
            table::figure(product.n.map_or(String::new(), |n| n.to_string())),
            product.precision.map_or("", Precision::name).into(),
            product.kernel.as_deref().unwrap_or("peer").into(),
            table::figure(tera(product.rate_per_s)),
            table::figure(percent(product.share_of_limit)),
            table::figure(ratio(product.ratio_to_peer)),
            table::figure(pass.map_or(String::new(), |pass| tera(pass.rate_per_s))),
            table::figure(percent(pass.and_then(|pass| pass.share_of_limit))),
            table::figure(ratio(pass.map(|pass| pass.rate_per_s / product.rate_per_s))),
        ]);
    }
    table::text(&table)
}

/// Stages that move bytes, one line for each.
fn bytes(device: &DeviceFigures, screen: &Screen) -> String {
    let mut table = table::new(screen, &["stage", "n", "GB/s", "of limit"]);
    for figure in device.figures.iter().filter(|f| !f.stage.counts_operations()) {
        let over = figure.bytes.map_or_else(String::new, |bytes| format!(" over {} GB", giga(bytes as f64)));
        table.add_row([
            (figure.stage.to_string() + &over).into(),
            table::figure(figure.n.map_or(String::new(), |n| n.to_string())),
            table::figure(giga(figure.rate_per_s)),
            table::figure(percent(figure.share_of_limit)),
        ]);
    }
    table::text(&table)
}

fn tera(rate: f64) -> String {
    units::figures(rate / 1e12)
}

fn giga(rate: f64) -> String {
    units::figures(rate / 1e9)
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{:.1} %", 100.0 * share))
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with a kernel, a peer, a probe and something left out.
    pub fn example() -> BenchReport {
        let figure = |stage: BenchStage, n, kernel: Option<&str>, rate_per_s| StageFigure {
            stage,
            precision: stage.counts_operations().then_some(Precision::Int8),
            n,
            bytes: None,
            kernel: kernel.map(str::to_owned),
            rate_per_s,
            samples_per_s: vec![rate_per_s],
            share_of_limit: Some(0.625),
            ratio_to_peer: kernel.map(|_| 1.25),
        };
        let figures = [1024, 2048].into_iter().flat_map(|n| {
            let scale = f64::from(n) / 2048.0;
            [
                figure(BenchStage::Product, Some(n), Some("wgmma-sm90a"), 1.25e15 * scale),
                figure(BenchStage::Pass, Some(n), Some("wgmma-sm90a"), 1e15 * scale),
                figure(BenchStage::Peer, Some(n), None, 1e15 * scale),
                figure(BenchStage::Probe, Some(n), None, 2.5e12),
            ]
        });
        let device = DeviceFigures {
            device_id: DeviceId([0xab; 16]),
            name: "A card".into(),
            backend: "cuda".into(),
            limits: PeakRates { operations_per_s: Some(2e15), bytes_per_s: None, source: "said".into() },
            kind_limits: vec![KindLimit { precision: Precision::F16, operations_per_s: 1e15 }],
            peer: Some("a library".into()),
            no_peer: None,
            figures: figures.collect(),
            operations: Vec::new(),
            left_out: vec!["n = 4096: too large".into()],
        };
        BenchReport { program: "a program 0.1.0".into(), devices: vec![device], link: None }
    }

    fn linked() -> BenchReport {
        let device = |id| LinkedDevice {
            device_id: DeviceId([id; 16]),
            name: format!("card {id}"),
            backend: "cuda".into(),
            slots: 200 + u32::from(id),
        };
        let pair = |(from, to, bytes_per_s)| PairFigure { from, to, bytes_per_s, samples_per_s: vec![bytes_per_s] };
        let probe = LinkedProbeFigure {
            walks: 65_536,
            steps: 64,
            rounds: 9,
            seconds: 1.25,
            step_seconds: 2.17e-3,
            crossed_bytes: 1e9,
            bytes_per_s: 8e8,
            bytes_per_s_into_each: 4e8,
            samples_s: vec![1.25],
        };
        let pairs = [(0, 0, 9e9), (0, 1, 1.5e9), (1, 0, 2.5e9), (1, 1, 8e9)].map(pair).into();
        let link = Some(LinkFigures { n: 1024, devices: vec![device(7), device(8)], pairs, probe });
        BenchReport { program: "a program 0.1.0".into(), devices: Vec::new(), link }
    }

    #[test]
    fn linked_devices_are_a_matrix_from_row_to_column() {
        let text = linked().text(&Screen::FILE);
        let lines: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for line in [
            "0: card 7 (cuda, 07070707070707070707070707070707), 207 slots",
            "1: card 8 (cuda, 08080808080808080808080808080808), 208 slots",
            "from to 0 to 1",
            "0 9.00 1.50",
            "1 2.50 8.00",
            "linked probe of 65536 walks on each device, 64 steps, 9 rounds:",
            "1.25 s, 2170 µs a step, 0.80 GB/s crossed, 0.40 GB/s into each device",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line} in\n{text}");
        }
        let json = serde_json::to_value(linked()).unwrap();
        assert_eq!(
            (&json["link"]["pairs"][1]["to"], &json["link"]["pairs"][1]["bytes_per_s"]),
            (&1.into(), &1.5e9.into())
        );
        assert_eq!(serde_json::to_value(example()).unwrap().get("link"), None, "what was not measured is not there");
    }

    #[test]
    fn the_table_has_every_figure_with_its_shares() {
        let text = example().text(&Screen::FILE);
        for part in [
            "A card (cuda, abab",
            "limits: 2000 TOPS",
            "limit of f16: 1000 TOPS",
            "int8",
            "wgmma-sm90a",
            "1250",
            "62.5 %",
            "1.25",
            "0.80",
            "2500",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.contains("left out: n = 4096: too large"), "{text}");
    }

    #[test]
    fn json_has_rates_in_units_of_one() {
        let json = serde_json::to_value(example()).unwrap();
        let product = &json["devices"][0]["figures"][4];
        assert_eq!((product["stage"].as_str(), product["rate_per_s"].as_f64()), (Some("product"), Some(1.25e15)));
        assert_eq!(json["devices"][0]["device_id"], "ab".repeat(16));
    }

    /// A card and a processor a thousandth as fast.
    pub fn operations() -> BenchReport {
        let devices = [("A card", "cuda", 1.0), ("A processor", "cpu", 1e-3)].map(|(name, backend, scale)| {
            let mut device = example().devices.remove(0);
            (device.name, device.backend) = (name.into(), backend.into());
            let figure = |stage, kind, kernel: &str, n, rate_per_s: f64| StageFigure {
                stage,
                precision: kind,
                n: Some(n),
                bytes: None,
                kernel: Some(kernel.into()),
                rate_per_s: rate_per_s * scale,
                samples_per_s: Vec::new(),
                share_of_limit: None,
                ratio_to_peer: None,
            };
            device.figures = vec![
                figure(BenchStage::Product, Some(Precision::Int8), "slow", 2048, 1e15),
                figure(BenchStage::Product, Some(Precision::Int8), "fast", 2048, 2e15),
                figure(BenchStage::Product, Some(Precision::Int8), "fast", 1024, 3e15),
                figure(BenchStage::Product, Some(Precision::Field), "fast", 2048, 1e14),
                figure(BenchStage::Sweep, None, "", 2048, 4e12),
            ];
            device
        });
        BenchReport::new("a program".into(), devices.into())
    }

    #[test]
    fn an_operation_has_its_unit_and_stands_beside_the_processor() {
        let report = operations();
        let [card, processor] = &report.devices[..] else { panic!("two devices") };
        let rates = |device: &DeviceFigures| device.operations.iter().map(OperationFigure::rate).collect::<Vec<_>>();
        // 1e14 operations of products of 2 n^3 each, which have 2 n^2 field operations.
        assert_eq!(rates(card), ["2000 Top/s", "48.8 G field op/s", "4.00 TB/s"], "the fastest at the largest size");
        assert_eq!(rates(processor), ["2.00 Top/s", "48.8 M field op/s", "4.00 GB/s"]);
        assert!(card.operations.iter().all(|figure| (figure.times_processor.unwrap() - 1000.0).abs() < 1e-6));
        assert!(processor.operations.iter().all(|figure| figure.times_processor == Some(1.0)));
        assert!(report.text(&Screen { width: None, colour: false }).contains("field squaring and addition"));
        let mut alone = operations();
        alone.devices.truncate(1);
        let alone = BenchReport::new(alone.program, alone.devices);
        assert!(alone.devices[0].operations.iter().all(|figure| figure.times_processor.is_none()));
    }
}
