//! The rates of the operations that challenges ask for, one figure for each on every device, beside the processor's.

use assay_device::backend::BackendKind;
use assay_device::bench::BenchStage;
use assay_program::render::{Screen, table, units};
use assay_work::Precision;
use serde::Serialize;

use crate::report::{DeviceFigures, StageFigure};

/// The rate of one operation on a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperationFigure {
    pub operation: &'static str,
    /// The kind of work or the stage that challenges it.
    pub challenged_by: &'static str,
    pub unit: &'static str,
    /// The matrix size measured.
    pub n: Option<u32>,
    /// The rate of the fastest kernel at the largest size measured, in units a second.
    pub rate_per_s: f64,
    /// The rate over the processor's in the same run, where that was measured.
    pub times_processor: Option<f64>,
}

const fn of_kind(kind: Precision) -> (&'static str, &'static str) {
    match kind {
        Precision::Int8 => ("GEMM, 8-bit integers", "op"),
        Precision::F16 => ("GEMM, 16-bit floats", "op"),
        Precision::Fp8 => ("GEMM, 8-bit floats", "op"),
        Precision::Fp4 => ("GEMM, 4-bit floats", "op"),
        Precision::Field => ("field squaring and addition, 254 bits", "field op"),
        Precision::Network => ("GEMM of convolution, softmax and noise", "op"),
    }
}

/// The figures of every device, in the order of the devices.
pub fn figures(devices: &[DeviceFigures]) -> Vec<Vec<OperationFigure>> {
    let processor = devices.iter().find(|device| device.backend == BackendKind::Cpu.name()).map(of_device);
    let beside = |mut figure: OperationFigure| {
        let same = |other: &&OperationFigure| (other.operation, other.n) == (figure.operation, figure.n);
        let other = processor.iter().flatten().find(same);
        figure.times_processor = other.map(|other| figure.rate_per_s / other.rate_per_s);
        figure
    };
    devices.iter().map(|device| of_device(device).into_iter().map(beside).collect()).collect()
}

fn of_device(device: &DeviceFigures) -> Vec<OperationFigure> {
    let best = |stage: BenchStage, kind: Option<Precision>| -> Option<&StageFigure> {
        let figures = device.figures.iter().filter(|f| f.stage == stage && (kind.is_none() || f.precision == kind));
        figures.max_by(|a, b| a.n.cmp(&b.n).then(a.rate_per_s.total_cmp(&b.rate_per_s)))
    };
    let kinds = Precision::ALL.into_iter().filter_map(|kind| {
        let StageFigure { n, rate_per_s, .. } = best(BenchStage::Product, Some(kind))?;
        let (operation, unit) = of_kind(kind);
        let rate_per_s = match (kind, n) {
            (Precision::Field, Some(n)) => kind.field_operations_per_s(*n, rate_per_s / 2.0),
            _ => *rate_per_s,
        };
        Some(OperationFigure { operation, challenged_by: kind.name(), unit, n: *n, rate_per_s, times_processor: None })
    });
    let stages =
        [(BenchStage::Sweep, "GEMV, memory in order", "sweep"), (BenchStage::Probe, "memory at random", "probe")];
    let stages = stages.into_iter().filter_map(|(stage, operation, challenged_by)| {
        let StageFigure { n, rate_per_s, .. } = best(stage, None)?;
        Some(OperationFigure {
            operation,
            challenged_by,
            unit: "B",
            n: *n,
            rate_per_s: *rate_per_s,
            times_processor: None,
        })
    });
    kinds.chain(stages).collect()
}

impl OperationFigure {
    /// The rate with its unit.
    pub fn rate(&self) -> String {
        let (scale, prefix) = if self.unit == "op" { (1e12, "T") } else { (1e9, "G") };
        format!("{} {prefix}{}/s", units::figures(self.rate_per_s / scale), self.unit)
    }
}

pub fn text(operations: &[OperationFigure], screen: &Screen) -> String {
    let mut table = table::new(screen, &["operation", "challenged by", "n", "rate", "/ processor"]);
    for figure in operations {
        table.add_row([
            figure.operation.into(),
            figure.challenged_by.into(),
            table::figure(figure.n.map_or(String::new(), |n| n.to_string())),
            table::figure(figure.rate()),
            table::figure(figure.times_processor.map_or(String::new(), units::figures)),
        ]);
    }
    table::text(&table)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::report::BenchReport;
    use crate::report::tests::example;

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
        assert_eq!(rates(card), ["2000 Top/s", "48.8 Gfield op/s", "4000 GB/s"], "the fastest at the largest size");
        assert_eq!(rates(processor), ["2.00 Top/s", "0.05 Gfield op/s", "4.00 GB/s"]);
        assert!(card.operations.iter().all(|figure| (figure.times_processor.unwrap() - 1000.0).abs() < 1e-6));
        assert!(processor.operations.iter().all(|figure| figure.times_processor == Some(1.0)));
        assert!(report.text(&Screen { width: None, colour: false }).contains("field squaring and addition"));
        let mut alone = operations();
        alone.devices.truncate(1);
        let alone = BenchReport::new(alone.program, alone.devices);
        assert!(alone.devices[0].operations.iter().all(|figure| figure.times_processor.is_none()));
    }
}
