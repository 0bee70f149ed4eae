//! Rates and temperature over time, as an SVG chart: two panels for each device.

use plotters::prelude::*;

use crate::finding::Severity;
use crate::record::Measure;
use crate::report::{DeviceTestReport, DiagReport};

/// A panel's size in pixels.
const PANEL: (u32, u32) = (900, 300);
/// Colours of the lines, told apart by the colour-blind too (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];
const FAILURE: RGBColor = RGBColor(213, 94, 0);

/// A failure to draw a chart.
#[derive(Debug, thiserror::Error)]
pub enum BurnInChartError {
    /// No pass was measured.
    #[error("no pass was made: there is nothing to draw")]
    Empty,
    /// The drawing library's error.
    #[error("the chart: {0}")]
    Drawing(String),
}

struct PlotLine {
    name: String,
    points: Vec<(f64, f64)>,
}

struct Panel {
    title: String,
    unit: &'static str,
    lines: Vec<PlotLine>,
    /// Seconds at which the device failed.
    failures: Vec<f64>,
}

pub fn draw(report: &DiagReport) -> Result<String, BurnInChartError> {
    let panels: Vec<_> = report.devices.iter().flat_map(panels).filter(|panel| !panel.lines.is_empty()).collect();
    if panels.is_empty() {
        return Err(BurnInChartError::Empty);
    }
    let mut text = String::new();
    {
        // CAST: a host has at most 64 devices, with two panels each.
        let size = (PANEL.0, PANEL.1 * panels.len() as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        for (area, panel) in root.split_evenly((panels.len(), 1)).iter().zip(&panels) {
            draw_panel(area, panel, report.took_s.max(1e-3)).map_err(failed)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

fn failed(error: impl std::fmt::Display) -> BurnInChartError {
    BurnInChartError::Drawing(error.to_string())
}

fn panels(device: &DeviceTestReport) -> [Panel; 2] {
    let failures: Vec<f64> =
        device.findings.iter().filter(|f| f.severity == Severity::Fail).map(|finding| finding.at_s).collect();
    let title = |what: &str| format!("{} {}: {what}", device.name, &device.device_id.to_string()[..8]);
    let rates = device.rates.iter().filter(|rate| rate.measure == Measure::Passes).map(|rate| PlotLine {
        name: rate.kernel.clone().unwrap_or_else(|| "passes".into()),
        points: rate.points.iter().map(|(at, per_s)| (*at, per_s / 1e12)).collect(),
    });
    let heat = [("°C", &device.temperature_c), ("W", &device.power_w)]
        .map(|(name, points)| PlotLine { name: name.into(), points: points.clone() });
    let heat = heat.into_iter().filter(|line| !line.points.is_empty()).collect();
    [
        Panel { title: title("passes"), unit: "TOPS", lines: rates.collect(), failures: failures.clone() },
        Panel { title: title("temperature and power"), unit: "°C, W", lines: heat, failures },
    ]
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type PlotResult<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw_panel<'a>(area: &Area<'a>, panel: &Panel, last_s: f64) -> PlotResult<'a> {
    let highest = panel.lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
    let top = if highest > 0.0 { highest * 1.1 } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..last_s, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .y_desc(panel.unit)
        .x_label_formatter(&|seconds| format!("{seconds:.0}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (line, colour) in panel.lines.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style).point_size(2))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    if !panel.failures.is_empty() {
        let bars = panel.failures.iter().map(|at| PathElement::new([(*at, 0.0), (*at, top)], FAILURE.stroke_width(2)));
        chart
            .draw_series(bars)?
            .label("failure")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], FAILURE.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()
}
