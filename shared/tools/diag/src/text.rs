//! The report as a person reads it.

use assay_program::render::{Screen, short_ids, table, units};
use assay_protocol::verdict::Outcome;

use crate::finding::{Severity, TestFinding};
use crate::report::{DeviceTestReport, DiagReport, RateReport, TestReport, TestStatus};

/// The meaning of a pass, and its limits.
const SHOWS: &str = "What this shows: in this time every pass gave the same bits again, with every kernel, and on \
every equal device; the samples drawn are what the processor computes; walks read all of the memory filled. What it \
does not show: memory that was not filled, units that no kernel uses (FP64, video, display), links between devices, \
the network, and faults that need longer or other heat. A single device of its kind that repeats a wrong bit every \
time is only found by samples.";

impl DiagReport {
    pub fn text(&self, screen: &Screen) -> String {
        let mut parts = vec![self.headline()];
        let short = short_ids(self.devices.iter().map(|device| device.device_id));
        parts.extend(self.devices.iter().zip(short).map(|(device, short)| device.text(&short, screen)));
        for unusable in &self.unusable {
            parts.push(format!(
                "device {}: {}: FAIL\n  it could not be tested: {}",
                unusable.device_id, unusable.name, unusable.why
            ));
        }
        parts.push(wrapped(SHOWS, screen));
        parts.push(format!("seed: {} (the same seed makes the same passes)", self.seed));
        parts.join("\n\n")
    }

    fn headline(&self) -> String {
        let devices = self.devices.len() + self.unusable.len();
        let failed = self.devices.iter().filter(|device| device.verdict == Outcome::Fail).count() + self.unusable.len();
        let rounds = self.devices.iter().map(|device| device.rounds).min().unwrap_or(0);
        let what = match self.verdict {
            Outcome::Pass => format!("{} passed", units::counted(devices as u64, "device")),
            Outcome::Fail => format!("{failed} of {} failed", units::counted(devices as u64, "device")),
            Outcome::Inconclusive => "not one whole round on every device".to_owned(),
        };
        let ended = if self.interrupted { ", ended early" } else { "" };
        let took = clock(self.took_s);
        format!("{}: {what} in {took}, {rounds} round(s) of each device at least{ended}", capitals(self.verdict))
    }
}

impl DeviceTestReport {
    fn text(&self, short: &str, screen: &Screen) -> String {
        let mut lines = vec![format!("device {short}: {} ({}): {}", self.name, self.backend, capitals(self.verdict))];
        if let Some(first) = self.kernels.first() {
            lines.push(format!(
                "  memory: {} of the {} slots that fit, n = {}, {}",
                first.slots,
                self.slots_that_fit,
                self.n,
                memory(self.filled_bytes)
            ));
        }
        for kernel in self.kernels.iter().skip(1).filter(|kernel| kernel.slots < self.kernels[0].slots) {
            lines.push(format!("  passes with {}: {} slots, for its speed", kernel.name, kernel.slots));
        }
        lines.push(format!(
            "  {}, {}",
            units::counted(self.rounds.into(), "round"),
            units::counted(self.passes, "pass")
        ));
        lines.push(self.tests(screen));
        if !self.rates.is_empty() {
            lines.push(self.rates(screen));
        }
        lines.push(match &self.sensors {
            Some(sensors) => format!("  sensors: {sensors}"),
            None => "  sensors: not available".into(),
        });
        if let Some([_, wear]) = &self.wear {
            let text = |value: Option<u32>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
            lines.push(format!(
                "  PCIe: {} of {} lanes, generation {} of {}; retired pages: {}, replaced rows: {}",
                text(wear.pcie_width),
                text(wear.pcie_max_width),
                text(wear.pcie_generation),
                text(wear.pcie_max_generation),
                text(wear.retired_pages),
                text(wear.remapped_corrected.zip(wear.remapped_uncorrected).map(|(a, b)| a.saturating_add(b)))
            ));
        }
        lines.extend(self.findings.iter().map(|finding| wrapped(&format!("  {}", line(finding)), screen)));
        if self.more_findings > 0 {
            lines.push(format!("  and {} more", self.more_findings));
        }
        lines.join("\n")
    }

    fn tests(&self, screen: &Screen) -> String {
        let mut table = table::new(screen, &["test", "result", "compared"]);
        for TestReport { test, status, checked, not_done } in &self.tests {
            let compared = match not_done {
                Some(why) => why.clone(),
                None => format!("{} {}", units::count((*checked).into()), what(*test)),
            };
            table.add_row([test.name().to_owned(), status.name().to_owned(), compared]);
        }
        table::text(&table)
    }

    fn rates(&self, screen: &Screen) -> String {
        let header = ["rate of", "kernel", "unit", "P50", "P95", "P99", "least", "drift", "samples"];
        let mut table = table::new(screen, &header);
        for RateReport { measure, kernel, figures, .. } in &self.rates {
            let (unit, scale) = if measure.counts_operations() { ("TOPS", 1e12) } else { ("GB/s", 1e9) };
            let figure = |rate: f64| table::figure(units::figures(rate / scale));
            table.add_row([
                measure.name().into(),
                kernel.clone().unwrap_or_default().into(),
                unit.into(),
                figure(figures.p50),
                figure(figures.p95),
                figure(figures.p99),
                figure(figures.min),
                table::figure(figures.drift_percent.map_or_else(String::new, |drift| format!("{drift:+.1} %"))),
                table::figure(figures.samples),
            ]);
        }
        table::text(&table)
    }
}

const fn what(test: crate::finding::Test) -> &'static str {
    use crate::finding::Test;
    match test {
        Test::Device => "passes",
        Test::Passes => "slots with those of other passes",
        Test::Samples => "samples with the processor's",
        Test::Probe => "rounds and walks",
        Test::Copies => "bytes",
        Test::Sensors => "readings",
        Test::Speed => "rates",
    }
}

/// A result's word in a report.
fn capitals(outcome: Outcome) -> String {
    outcome.to_string().to_uppercase()
}

fn memory(bytes: u64) -> String {
    if bytes < 1 << 30 { format!("{} MiB", bytes >> 20) } else { format!("{} GiB", units::gib(bytes)) }
}

fn line(finding: &TestFinding) -> String {
    let gravity = if finding.severity == Severity::Fail { TestStatus::Fail } else { TestStatus::Warn };
    let mut place = vec![clock(finding.at_s)];
    if let Some(round) = finding.round.filter(|round| *round > 0) {
        place.push(format!("round {round}"));
    }
    if let Some(pass) = finding.pass.filter(|pass| *pass > 0) {
        place.push(format!("pass {pass}"));
    }
    if let Some(kernel) = finding.kernel.as_ref().filter(|kernel| !kernel.is_empty()) {
        place.push(format!("kernel {kernel}"));
    }
    if let Some(celsius) = finding.temperature_c {
        place.push(format!("{celsius} °C"));
    }
    format!("{} {} ({}): {}", gravity.name(), finding.test.name(), place.join(", "), finding.text)
}

/// Seconds as `1:02:03` or `2:03`.
fn clock(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "no time is negative")]
    let seconds = seconds as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// Text in lines that fit the screen.
fn wrapped(text: &str, screen: &Screen) -> String {
    let Some(width) = screen.width.map(usize::from) else { return text.to_owned() };
    let indent = text.len() - text.trim_start().len();
    let mut lines = vec![" ".repeat(indent)];
    for word in text.split_whitespace() {
        let last = lines.last_mut().map_or(0, |line| line.chars().count());
        let is_empty = lines.last().is_some_and(|line| line.trim().is_empty());
        if !is_empty && last + 1 + word.chars().count() > width {
            lines.push(" ".repeat(indent + 2));
        }
        if let Some(line) = lines.last_mut() {
            if !line.trim().is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_the_screen() {
        let narrow = Screen { width: Some(40), colour: false };
        let text =
            wrapped("  FAIL passes (0:03): a word and another one, and one that goes on and on for long", &narrow);
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.starts_with("  FAIL") && text.lines().skip(1).all(|line| line.starts_with("    ")), "{text}");
        assert_eq!(wrapped("  as it is", &Screen::FILE), "  as it is");
    }

    #[test]
    fn times_are_read_as_a_clock() {
        assert_eq!(["0:00", "1:05", "1:00:00"], [0.9, 65.0, 3600.2].map(clock));
    }
}
