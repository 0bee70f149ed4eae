//! The cost of a miner to a validator in a day, by the size of the fleet: from measured loads, and extrapolated beyond
//! them.

use std::error::Error;
use std::fmt::Write;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::figures::Figures;

const DAY_S: f64 = 86_400.0;
/// A panel's size in pixels.
const PANEL: (u32, u32) = (560, 380);
/// Fleets that are drawn beyond the measured ones.
const BEYOND: [u32; 3] = [3000, 5000, 10_000];
/// Okabe and Ito's blue.
const COLOUR: RGBColor = RGBColor(0, 114, 178);

/// The cost of each miner of a fleet in a day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    pub miners: u32,
    /// Whether this count was connected; else the cost is extrapolated from the two largest fleets that were.
    pub is_measured: bool,
    /// CPU time of the validator in seconds.
    pub cpu_s: f64,
    /// Its resident memory.
    pub memory_bytes: f64,
    /// By how much the records grow.
    pub records_bytes: f64,
    /// Bytes of its connection, both ways.
    pub network_bytes: f64,
}

/// A quantity of a [`Cost`] and how it is shown.
struct Quantity {
    title: &'static str,
    /// The unit of the figures: values are divided by it.
    unit: f64,
    of: fn(&Cost) -> f64,
}

const QUANTITIES: [Quantity; 4] = [
    Quantity { title: "CPU seconds", unit: 1.0, of: |cost| cost.cpu_s },
    Quantity { title: "resident memory, KiB", unit: 1024.0, of: |cost| cost.memory_bytes },
    Quantity { title: "records, MB a day", unit: 1e6, of: |cost| cost.records_bytes },
    Quantity { title: "network, MB a day", unit: 1e6, of: |cost| cost.network_bytes },
];

/// The costs of fleets whose loads were measured, each miner audited so often in a day, and of those beyond them.
#[must_use]
pub fn costs(measured: &[Figures], audits_a_day: f64) -> Vec<Cost> {
    let mut costs: Vec<_> = measured.iter().filter_map(|figures| cost(figures, audits_a_day)).collect();
    costs.sort_by_key(|cost| cost.miners);
    let [.., smaller, larger] = costs[..] else { return costs };
    let beyond = BEYOND.into_iter().filter(|miners| *miners > larger.miners);
    costs.extend(beyond.map(|miners| beyond_measured(&smaller, &larger, miners)));
    costs
}

fn cost(figures: &Figures, audits_a_day: f64) -> Option<Cost> {
    let (idle, audited) = (figures.idle.as_ref()?, figures.audited.as_ref()?);
    let miners = f64::from(audited.miners);
    // The cost of merely connected miners is part of the measurements while they were audited.
    let verdict_s = (audited.validator_cores - idle.validator_cores).max(0.0) / audited.verdicts_per_s;
    let idle_bytes = idle.network_bytes_per_s / audited.verdicts_per_s;
    let verdict_bytes = audited.sent_bytes_per_verdict + audited.received_bytes_per_verdict - idle_bytes;
    Some(Cost {
        miners: audited.miners,
        is_measured: true,
        cpu_s: idle.validator_cores / miners * DAY_S + audits_a_day * verdict_s,
        memory_bytes: audited.resident_bytes as f64 / miners,
        records_bytes: audits_a_day * audited.records_bytes_per_verdict,
        network_bytes: idle.network_bytes_per_s / miners * DAY_S + audits_a_day * verdict_bytes,
    })
}

/// As if the whole fleet's cost went on growing as between two measured fleets.
fn beyond_measured(smaller: &Cost, larger: &Cost, miners: u32) -> Cost {
    let each = |of: fn(&Cost) -> f64| {
        let whole = |cost: &Cost| of(cost) * f64::from(cost.miners);
        let slope = (whole(larger) - whole(smaller)) / f64::from(larger.miners - smaller.miners);
        (whole(larger) + slope * f64::from(miners - larger.miners)) / f64::from(miners)
    };
    Cost {
        miners,
        is_measured: false,
        cpu_s: each(|cost| cost.cpu_s),
        memory_bytes: each(|cost| cost.memory_bytes),
        records_bytes: each(|cost| cost.records_bytes),
        network_bytes: each(|cost| cost.network_bytes),
    }
}

#[must_use]
pub fn table(costs: &[Cost]) -> String {
    let mut text = " miners  CPU s/day  memory KiB  records MB/day  network MB/day\n".to_owned();
    for cost in costs {
        let [cpu, memory, records, network] = QUANTITIES.map(|quantity| (quantity.of)(cost) / quantity.unit);
        let what = if cost.is_measured { "measured" } else { "drawn on" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:7}  {cpu:9.2}  {memory:10.1}  {records:14.3}  {network:14.1}  {what}", cost.miners);
    }
    text
}

/// Draws the costs: full points are measured, hollow ones are not.
pub fn draw(costs: &[Cost], caption: &str) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (2 * PANEL.0, 2 * PANEL.1 + 40)).into_drawing_area();
        root.fill(&WHITE)?;
        let root = root.titled(caption, ("sans-serif", 20))?;
        for (area, quantity) in root.split_evenly((2, 2)).iter().zip(&QUANTITIES) {
            panel(area, costs, quantity).map_err(|error| error.to_string())?;
        }
        root.present()?;
    }
    Ok(text)
}

fn panel<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    costs: &[Cost],
    quantity: &Quantity,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
    let point = |cost: &Cost| (f64::from(cost.miners), (quantity.of)(cost) / quantity.unit);
    let top = costs.iter().map(|cost| point(cost).1).fold(0.0, f64::max) * 1.15;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{} for each miner", quantity.title), ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d((8.0..12_000.0).log_scale(), 0.0..top.max(f64::MIN_POSITIVE))?;
    chart
        .configure_mesh()
        .x_desc("miners")
        .x_label_formatter(&|miners| format!("{miners:.0}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    let measured = costs.iter().filter(|cost| cost.is_measured).map(point);
    chart.draw_series(LineSeries::new(measured, COLOUR.stroke_width(2)))?;
    let beyond = costs.iter().skip_while(|cost| costs.iter().any(|next| next.is_measured && next.miners > cost.miners));
    chart.draw_series(DashedLineSeries::new(beyond.map(point), 6, 4, COLOUR.stroke_width(1)))?;
    chart.draw_series(costs.iter().map(|cost| {
        let style = if cost.is_measured { COLOUR.filled() } else { COLOUR.stroke_width(2) };
        Circle::new(point(cost), 4, style)
    }))?;
    Ok(())
}
