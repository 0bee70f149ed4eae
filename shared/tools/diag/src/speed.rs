//! Rates judged: against limits that were given, against equal devices, and from the beginning to the end.

use std::collections::BTreeMap;

use assay_device::DeviceInfo;
use assay_device::backend::BackendKind;
use assay_work::DeviceId;

use crate::finding::{Severity, Test, TestFinding};
use crate::plan::TestLimits;
use crate::record::{Measure, RunRecord};
use crate::state::{Run, model};
use crate::stats::{Figures, median};

/// By how much a device slows down before that is worth a warning, in percent, where no limit was given.
const WARN_DRIFT_PERCENT: f64 = 10.0;
/// The fewest samples that are held against siblings: fewer are chance.
const MIN_SAMPLES: u64 = 4;
/// How much slower than its siblings a device is before that is worth a warning.
const OUTLIER: f64 = 0.85;

pub fn conclude(run: &Run) {
    let mut found: Vec<(DeviceId, Severity, String)> = Vec::new();
    let records: Vec<(&DeviceInfo, RunRecord)> =
        run.devices.values().map(|state| (&state.info, state.record.lock().clone())).collect();
    for (info, record) in &records {
        found.extend(of_device(record, &run.plan.limits).into_iter().map(|(s, text)| (info.id, s, text)));
    }
    let mut siblings: BTreeMap<String, Vec<(DeviceId, &RunRecord)>> = BTreeMap::new();
    for (info, record) in &records {
        // Processor devices are equal when they have as many threads.
        let detail = if info.backend == BackendKind::Cpu { info.detail.as_str() } else { "" };
        siblings.entry(format!("{} {detail}", model(info))).or_default().push((info.id, record));
    }
    for equal in siblings.values() {
        found.extend(outliers(equal).into_iter().map(|(id, text)| (id, Severity::Warn, text)));
    }
    for (id, severity, text) in found {
        run.find(id, TestFinding::new(severity, Test::Speed, text));
    }
    for state in run.devices.values() {
        let mut record = state.record.lock();
        let samples = record.rates.values().map(crate::stats::Series::seen).sum();
        record.count(Test::Speed, samples);
    }
}

/// Judges one device's rates against the limits and its own first ones.
fn of_device(record: &RunRecord, limits: &TestLimits) -> Vec<(Severity, String)> {
    let mut found = Vec::new();
    let passes = || record.rates.iter().filter(|((measure, _), _)| *measure == Measure::Passes);
    if let Some(least) = limits.min_tops {
        let best = passes().filter_map(|(_, series)| series.figures()).map(|figures| figures.p50 / 1e12);
        match best.max_by(f64::total_cmp) {
            Some(best) if best >= least => {}
            Some(best) => {
                found.push((
                    Severity::Fail,
                    format!("its passes reach {best:.3} TOPS, at least {least} were asked for"),
                ));
            }
            None => found.push((Severity::Fail, format!("it made no pass, and {least} TOPS were asked for"))),
        }
    }
    for ((measure, kernel), series) in &record.rates {
        let Some(drift) = series.drift_percent().filter(|_| matches!(measure, Measure::Passes | Measure::Probe)) else {
            continue;
        };
        let of =
            if kernel.is_empty() { measure.name().to_owned() } else { format!("{} with {kernel}", measure.name()) };
        let text = format!("{of} slowed down by {:.1} % from the first quarter to the last", -drift);
        match limits.max_drift_percent {
            Some(most) if -drift > most => found.push((Severity::Fail, format!("{text}; {most} % is the limit"))),
            None if -drift > WARN_DRIFT_PERCENT => found.push((Severity::Warn, text)),
            _ => {}
        }
    }
    found
}

/// Those of equal devices that are slower than the others.
fn outliers(equal: &[(DeviceId, &RunRecord)]) -> Vec<(DeviceId, String)> {
    let mut figures: BTreeMap<(Measure, &str), Vec<(DeviceId, Figures)>> = BTreeMap::new();
    for (id, record) in equal {
        for ((measure, kernel), series) in &record.rates {
            if let Some(of_series) = series.figures().filter(|figures| figures.samples >= MIN_SAMPLES) {
                figures.entry((*measure, kernel)).or_default().push((*id, of_series));
            }
        }
    }
    let mut found = Vec::new();
    for ((measure, kernel), of_devices) in &figures {
        for (id, own) in of_devices {
            let others = of_devices.iter().filter(|(other, _)| other != id).map(|(_, figures)| figures.p50);
            let Some(middle) = median(others.collect()) else { continue };
            if own.p50 < OUTLIER * middle {
                let slower = 100.0 * (1.0 - own.p50 / middle);
                let with = if kernel.is_empty() { String::new() } else { format!(" with {kernel}") };
                found.push((*id, format!("{}{with}: {slower:.0} % slower than its siblings", measure.name())));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TestLimits = TestLimits {
        max_drift_percent: None,
        min_tops: None,
        on_throttle: Severity::Warn,
        on_corrected: Severity::Warn,
    };

    fn record(rates: impl IntoIterator<Item = f64>) -> RunRecord {
        let mut record = RunRecord::default();
        for (at, per_s) in rates.into_iter().enumerate() {
            record.rate(Measure::Passes, "k", at as f64, per_s);
        }
        record
    }

    fn slowing(percent: f64) -> RunRecord {
        record((0..40).map(|i| if i < 20 { 1e12 } else { 1e12 * (1.0 - percent / 100.0) }))
    }

    #[test]
    fn drift_is_a_warning_and_beyond_a_limit_a_failure() {
        assert_eq!(of_device(&slowing(5.0), &LIMITS), []);
        assert!(matches!(&of_device(&slowing(12.0), &LIMITS)[..], [(Severity::Warn, text)] if text.contains("12.0 %")));
        let strict = TestLimits { max_drift_percent: Some(3.0), ..LIMITS };
        assert!(matches!(&of_device(&slowing(5.0), &strict)[..], [(Severity::Fail, text)] if text.contains("with k")));
        assert_eq!(of_device(&slowing(2.0), &strict), []);
        let lenient = TestLimits { max_drift_percent: Some(30.0), ..LIMITS };
        assert_eq!(of_device(&slowing(12.0), &lenient), [], "the operator's limit counts");
        assert_eq!(of_device(&slowing(-12.0), &strict), [], "faster is no trouble");
    }

    #[test]
    fn too_few_operations_a_second_fail() {
        let limits = |tops| TestLimits { min_tops: Some(tops), ..LIMITS };
        assert_eq!(of_device(&record([2e12; 3]), &limits(2.0)), []);
        assert!(matches!(of_device(&record([2e12; 3]), &limits(2.1))[..], [(Severity::Fail, _)]));
        assert!(matches!(of_device(&RunRecord::default(), &limits(0.1))[..], [(Severity::Fail, _)]));
    }

    #[test]
    fn one_slow_card_among_equals_is_named() {
        let (a, b, c) = (DeviceId([1; 16]), DeviceId([2; 16]), DeviceId([3; 16]));
        let (fast, slow) = (record([10.0; 5]), record([8.0; 5]));
        let found = outliers(&[(a, &fast), (b, &slow), (c, &fast)]);
        assert!(matches!(&found[..], [(id, text)] if *id == b && text.contains("20 % slower")), "{found:?}");
        assert_eq!(outliers(&[(a, &fast), (b, &record([9.0; 5]))]), []);
        assert_eq!(outliers(&[(b, &slow)]), []);
        assert_eq!(outliers(&[(a, &fast), (b, &record([1.0; 3]))]), [], "few samples are chance");
        assert_eq!(outliers(&[(a, &fast), (b, &slow)]).len(), 1);
    }
}
