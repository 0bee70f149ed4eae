//! The rates of the operations that challenges ask for, one figure for each on every device, beside the processor's.

use assay_device::bench::BenchStage;
use assay_program::render::{Screen, table, units};
use assay_work::Precision;
use serde::Serialize;

use crate::figure::StageFigure;

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
        Precision::Field => ("field squaring and addition, 254 bits", " field op"),
        Precision::Network => ("GEMM of convolution, softmax and noise", "op"),
    }
}

/// Sets figures beside those of the processor at the same size.
pub fn compare(figures: &mut [OperationFigure], processor: &[OperationFigure]) {
    for figure in figures {
        let same = |other: &&OperationFigure| (other.operation, other.n) == (figure.operation, figure.n);
        figure.times_processor = processor.iter().find(same).map(|other| figure.rate_per_s / other.rate_per_s);
    }
}

/// The operations among the figures of a device.
pub fn of_device(figures: &[StageFigure]) -> Vec<OperationFigure> {
    let best = |stage: BenchStage, kind: Option<Precision>| -> Option<&StageFigure> {
        let figures = figures.iter().filter(|f| f.stage == stage && (kind.is_none() || f.precision == kind));
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
        let prefixes = [(1e12, "T"), (1e9, "G")];
        let (scale, prefix) = prefixes.into_iter().find(|(scale, _)| self.rate_per_s >= *scale).unwrap_or((1e6, "M"));
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
