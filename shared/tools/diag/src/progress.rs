//! The progress line: on a terminal, and nowhere else.

use std::time::Duration;

use assay_program::render::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::plan::DiagPlan;
use crate::record::Measure;
use crate::state::Run;

/// The line. Dropped, it is cleared.
pub struct ProgressLine {
    bar: ProgressBar,
    time: Duration,
    rounds: Option<u32>,
}

impl ProgressLine {
    pub fn new(plan: &DiagPlan) -> Self {
        let length = plan.rounds.map_or(plan.time.as_secs().max(1), u64::from);
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{elapsed_precise} [{bar:20}] {percent:>3} %  {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = bar.with_style(style.progress_chars("=> "));
        Self { bar, time: plan.time, rounds: plan.rounds }
    }

    pub fn show(&mut self, run: &Run) {
        if self.bar.is_hidden() {
            return;
        }
        let records: Vec<_> = run.devices.values().map(|state| state.record.lock()).collect();
        let rounds = records.iter().map(|record| record.rounds).min().unwrap_or(0);
        let at = self.rounds.map_or(run.started.elapsed().min(self.time).as_secs(), |_| rounds.into());
        self.bar.set_position(at);
        let findings: usize = records.iter().map(|record| record.findings.len()).sum();
        let hottest = records.iter().filter_map(|record| record.temperature.points().last()).map(|point| point.1);
        let newest = |record: &crate::record::RunRecord| {
            let passes = record.rates.iter().filter(|((measure, _), _)| *measure == Measure::Passes);
            passes.filter_map(|(_, series)| series.points().last()).max_by(|a, b| a.0.total_cmp(&b.0)).map(|p| p.1)
        };
        let rate: f64 = records.iter().filter_map(|record| newest(record)).sum();
        let mut parts = vec![
            format!("round {}", rounds + 1),
            units::counted(records.len() as u64, "device"),
            format!("{} TOPS", units::figures(rate / 1e12)),
        ];
        if let Some(celsius) = hottest.max_by(f64::total_cmp) {
            parts.push(format!("{celsius:.0} °C"));
        }
        parts.push(format!("{findings} finding(s)"));
        if let [only] = &records[..] {
            parts.push(only.doing.clone());
        }
        self.bar.set_message(parts.join(", "));
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
