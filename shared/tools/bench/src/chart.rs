//! SVG charts: products and passes over the matrix size, one panel for each device; or the operations of all devices,
//! one group of bars for each.

use assay_device::bench::BenchStage;
use assay_work::Precision;
use plotters::prelude::*;

use crate::operations::OperationFigure;
use crate::report::{BenchReport, DeviceFigures};

/// A panel's size in pixels.
const PANEL: (u32, u32) = (900, 480);
/// The height of a bar, the space between operations and the height of a device's name, in pixels.
const BAR: i32 = 22;
const GAP: i32 = 10;
const LINE: i32 = 22;
/// Where bars begin, and the width of the longest, in pixels.
const BARS_FROM: i32 = 290;
const BARS_WIDTH: i32 = 440;
/// Colours of the lines, told apart by the colour-blind too (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

/// A failure to draw a chart.
#[derive(Debug, thiserror::Error)]
pub enum BenchChartError {
    /// The report has no rate of a product.
    #[error("no product was measured: there is nothing to draw")]
    Empty,
    /// The drawing library's error.
    #[error("the chart: {0}")]
    Drawing(String),
}

struct PlotSeries {
    name: String,
    /// n, and TOPS.
    points: Vec<(f64, f64)>,
}

/// Operations, each with a bar for every device beside the fastest of them.
pub fn draw_operations(report: &BenchReport) -> Result<String, BenchChartError> {
    let all: Vec<_> = report.devices.iter().zip(COLOURS.iter().cycle()).collect();
    let mut rows: Vec<(&str, Vec<(RGBColor, &OperationFigure)>)> = Vec::new();
    for (figure, colour) in all.iter().flat_map(|(device, colour)| device.operations.iter().map(move |f| (f, **colour)))
    {
        match rows.iter_mut().find(|(operation, _)| *operation == figure.operation) {
            Some((_, bars)) => bars.push((colour, figure)),
            None => rows.push((figure.operation, vec![(colour, figure)])),
        }
    }
    if rows.is_empty() {
        return Err(BenchChartError::Empty);
    }
    // CAST: a host has at most 64 devices, and there are fewer operations than that.
    let height_of = |bars: usize| bars as i32 * BAR + GAP;
    let names = all.len() as i32 * LINE;
    let height = names + GAP + rows.iter().map(|(_, bars)| height_of(bars.len())).sum::<i32>();
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (PANEL.0, height as u32)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let words = |text: &str, at: (i32, i32)| Text::new(text.to_owned(), at, ("sans-serif", 14));
        for (place, (device, colour)) in (0..).zip(&all) {
            let top = place * LINE + 8;
            root.draw(&Rectangle::new([(12, top), (26, top + 12)], colour.filled())).map_err(failed)?;
            root.draw(&words(&format!("{} ({})", device.name, device.backend), (34, top - 1))).map_err(failed)?;
        }
        let mut top = names + GAP;
        for (operation, bars) in &rows {
            root.draw(&words(operation, (12, top))).map_err(failed)?;
            let fastest = bars.iter().map(|(_, figure)| figure.rate_per_s).fold(f64::MIN_POSITIVE, f64::max);
            for (colour, figure) in bars {
                // CAST: at most the width.
                let end = BARS_FROM + 1 + (f64::from(BARS_WIDTH) * figure.rate_per_s / fastest) as i32;
                let bar = [(BARS_FROM, top), (end, top + BAR - 6)];
                root.draw(&Rectangle::new(bar, colour.filled())).map_err(failed)?;
                root.draw(&words(&figure.rate(), (end + 8, top))).map_err(failed)?;
                top += BAR;
            }
            top += GAP;
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

/// Products and passes over the matrix size.
pub fn draw(report: &BenchReport) -> Result<String, BenchChartError> {
    let devices: Vec<_> = report.devices.iter().map(|d| (d, lines(d))).filter(|(_, l)| !l.is_empty()).collect();
    if devices.is_empty() {
        return Err(BenchChartError::Empty);
    }
    let mut text = String::new();
    {
        // CAST: a host has at most 64 devices.
        let size = (PANEL.0, PANEL.1 * devices.len() as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        for (area, (device, lines)) in root.split_evenly((devices.len(), 1)).iter().zip(&devices) {
            panel(area, device, lines).map_err(failed)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

fn failed(error: impl std::fmt::Display) -> BenchChartError {
    BenchChartError::Drawing(error.to_string())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type DrawResult<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn panel<'a>(area: &Area<'a>, device: &DeviceFigures, lines: &[PlotSeries]) -> DrawResult<'a> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let limit = device.limits.operations_per_s.map(|rate| rate / 1e12);
    let top = points().map(|p| p.1).chain(limit).fold(0.0, f64::max) * 1.1;
    let (first, last) = points().fold((f64::MAX, 0.0_f64), |(a, b), p| (a.min(p.0), b.max(p.0)));
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{}: TOPS of products", device.name), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d((first * 0.9..last * 1.1).log_scale().base(2.0), 0.0..top)?;
    let sizes: Vec<f64> =
        lines.iter().map(|l| &l.points).max_by_key(|p| p.len()).into_iter().flatten().map(|p| p.0).collect();
    chart
        .configure_mesh()
        .x_desc("n")
        .y_desc("TOPS")
        .x_labels(sizes.len())
        .x_label_formatter(&|n| format!("{n:.0}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    if let Some(limit) = limit {
        let dashed = DashedLineSeries::new([(first * 0.9, limit), (last * 1.1, limit)], 6, 4, BLACK.stroke_width(1));
        chart.draw_series(dashed)?.label("limit").legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], BLACK));
    }
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style).point_size(3))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()
}

/// The lines of a device: product and pass of each kernel, and the peer.
fn lines(device: &DeviceFigures) -> Vec<PlotSeries> {
    let mut lines: Vec<PlotSeries> = Vec::new();
    for figure in device.figures.iter().filter(|f| f.stage.counts_operations()) {
        let Some(n) = figure.n else { continue };
        let name = match (&figure.kernel, figure.stage) {
            (_, BenchStage::Peer) => device.peer.clone().unwrap_or_else(|| BenchStage::Peer.to_string()),
            (kernel, stage) => {
                let of_kind = figure.precision.filter(|precision| *precision != Precision::Int8);
                let words = [Some(stage.name()), of_kind.map(Precision::name), kernel.as_deref()];
                words.into_iter().flatten().collect::<Vec<_>>().join(" ")
            }
        };
        let point = (f64::from(n), figure.rate_per_s / 1e12);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(PlotSeries { name, points: vec![point] }),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{example, operations};

    #[test]
    fn a_chart_names_the_device_its_lines_and_the_sizes() {
        let svg = draw(&example()).unwrap();
        for part in ["<svg", "A card", "product wgmma-sm90a", "pass wgmma-sm90a", "a library", "limit", "1024", "2048"]
        {
            assert!(svg.contains(part), "{part} in\n{svg}");
        }
        assert_eq!(svg.matches("<svg").count(), 1);
    }

    #[test]
    fn a_chart_of_operations_has_a_bar_for_each_device_with_its_rate() {
        let report = operations();
        let svg = draw_operations(&report).unwrap();
        for part in ["A card (cuda)", "A processor (cpu)", "GEMM, 8-bit integers", "2000 Top/s", "2.00 Top/s"] {
            assert!(svg.contains(part), "{part} in\n{svg}");
        }
        assert!(draw_operations(&example()).unwrap_err().to_string().contains("nothing to draw"));
    }

    #[test]
    fn nothing_measured_is_no_chart() {
        let mut report = example();
        report.devices[0].figures.retain(|f| !f.stage.counts_operations());
        assert!(draw(&report).unwrap_err().to_string().contains("nothing to draw"));
    }
}
