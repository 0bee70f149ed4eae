//! Sensors during a burn-in: put down each second, and judged at its end.

use assay_protocol::claims::Telemetry;
use assay_telemetry::Wear;

use crate::finding::{Severity, Test, TestFinding};
use crate::plan::TestLimits;
use crate::state::Run;

/// XIDs that name broken hardware: memory (48, 63, 64, 92, 94, 95, 140, 157), the bus and the board (38, 54, 62, 79, 110,
/// 119, 120), links (74). The others can be a program's.
const HARDWARE_XIDS: [u32; 16] = [38, 48, 54, 62, 63, 64, 74, 79, 92, 94, 95, 110, 119, 120, 140, 157];

/// Records the newest readings.
pub fn put_down(run: &Run) {
    let at_s = run.at_s();
    for (id, state) in &run.devices {
        let (reading, wear) = (run.sensors.newest(*id), run.sensors.wear(*id));
        let mut record = state.record.lock();
        if let Some(reading) = reading {
            if let Some(celsius) = reading.temperature_c {
                record.temperature.push(at_s, celsius.into());
            }
            if let Some(milliwatts) = reading.power_mw {
                record.power.push(at_s, f64::from(milliwatts) / 1000.0);
            }
        }
        if let Some(wear) = wear {
            match &mut record.wear {
                Some((_, last)) => *last = wear,
                none => *none = Some((wear.clone(), wear)),
            }
        }
    }
}

/// Judges the sensors of each device.
pub fn conclude(run: &Run) {
    for (id, state) in &run.devices {
        let telemetry = run.sensors.so_far(*id);
        let wear = state.record.lock().wear.clone();
        let mut findings = Vec::new();
        match &telemetry {
            None => {
                let why = run.sensors.trouble().unwrap_or_else(|| "not available for this device".into());
                state.record.lock().not_done.insert(Test::Sensors, why);
            }
            Some(telemetry) => {
                state.record.lock().count(Test::Sensors, telemetry.samples.into());
                findings.extend(of_telemetry(telemetry, &run.plan.limits));
            }
        }
        if let Some((first, last)) = &wear {
            findings.extend(of_wear(first, last));
        }
        findings
            .into_iter()
            .for_each(|(severity, text)| run.find(*id, TestFinding::new(severity, Test::Sensors, text)));
    }
}

fn of_telemetry(telemetry: &Telemetry, limits: &TestLimits) -> Vec<(Severity, String)> {
    let mut findings = Vec::new();
    let slowed: Vec<_> = telemetry.throttle_reasons.iter().filter(|r| r.is_trouble()).map(|r| r.name()).collect();
    if !slowed.is_empty() {
        let text = format!("clocks were reduced ({}): check its cooling and its power supply", slowed.join(", "));
        findings.push((limits.on_throttle, text));
    }
    if let Some(errors) = telemetry.ecc_uncorrected.filter(|errors| *errors > 0) {
        findings.push((Severity::Fail, format!("{errors} memory error(s) that could not be corrected")));
    }
    if let Some(errors) = telemetry.ecc_corrected.filter(|errors| *errors > 0) {
        findings.push((limits.on_corrected, format!("{errors} memory error(s) that the device corrected")));
    }
    for xid in &telemetry.xids {
        let severity = if HARDWARE_XIDS.contains(xid) { Severity::Fail } else { Severity::Warn };
        findings.push((severity, format!("the driver reported XID {xid}: see the kernel's log")));
    }
    findings
}

fn of_wear(first: &Wear, last: &Wear) -> Vec<(Severity, String)> {
    let mut findings = Vec::new();
    let rose = |first: Option<u32>, last: Option<u32>| Some((first?, last?)).filter(|(first, last)| last > first);
    if let Some((before, after)) = rose(first.retired_pages, last.retired_pages) {
        findings.push((Severity::Fail, format!("retired pages of memory rose from {before} to {after}")));
    }
    if let Some((before, after)) = rose(first.remapped_uncorrected, last.remapped_uncorrected) {
        let text = format!("rows of memory replaced for errors that were not corrected rose from {before} to {after}");
        findings.push((Severity::Fail, text));
    }
    if let Some((before, after)) = rose(first.remapped_corrected, last.remapped_corrected) {
        let text = format!("rows of memory replaced for errors that were corrected rose from {before} to {after}");
        findings.push((Severity::Warn, text));
    }
    if last.remap_failed == Some(true) {
        findings.push((Severity::Fail, "a row of memory could not be replaced: have the device exchanged".into()));
    }
    if last.repair_pending == Some(true) {
        let text = "memory waits for a reset to be repaired: reset the GPU, then test again";
        findings.push((Severity::Fail, text.to_owned()));
    }
    if let Some((before, after)) = rose(first.pcie_replays, last.pcie_replays) {
        let text = format!("PCIe packets sent again rose from {before} to {after}: check the slot and its riser");
        findings.push((Severity::Warn, text));
    }
    if let Some((most, width)) = rose(last.pcie_width, last.pcie_max_width).map(|(width, most)| (most, width)) {
        let text = format!("PCIe runs on {width} of {most} lanes: check the slot, its riser and the board's settings");
        findings.push((Severity::Warn, text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_protocol::claims::ThrottleReason;

    const LIMITS: TestLimits = TestLimits {
        max_drift_percent: None,
        min_tops: None,
        on_throttle: Severity::Fail,
        on_corrected: Severity::Warn,
    };

    #[test]
    fn a_quiet_device_has_no_findings() {
        let quiet = Telemetry {
            ecc_corrected: Some(0),
            ecc_uncorrected: Some(0),
            throttle_reasons: [ThrottleReason::SwPowerCap, ThrottleReason::GpuIdle].into(),
            ..Telemetry::default()
        };
        assert_eq!(of_telemetry(&quiet, &LIMITS), []);
        let wear = Wear {
            pcie_width: Some(16),
            pcie_max_width: Some(16),
            pcie_replays: Some(3),
            retired_pages: Some(2),
            remapped_corrected: Some(4),
            remap_failed: Some(false),
            repair_pending: Some(false),
            ..Wear::default()
        };
        assert_eq!(of_wear(&wear, &wear), []);
        assert_eq!(of_wear(&Wear::default(), &Wear::default()), []);
    }

    #[test]
    fn each_trouble_has_its_gravity() {
        let hot = Telemetry {
            ecc_corrected: Some(4),
            ecc_uncorrected: Some(1),
            throttle_reasons: [ThrottleReason::HwThermal].into(),
            xids: [13, 79].into(),
            ..Telemetry::default()
        };
        let found: Vec<_> = of_telemetry(&hot, &LIMITS).into_iter().map(|(severity, _)| severity).collect();
        assert_eq!(found, [Severity::Fail, Severity::Fail, Severity::Warn, Severity::Warn, Severity::Fail]);
        let lenient = TestLimits { on_throttle: Severity::Warn, on_corrected: Severity::Fail, ..LIMITS };
        let found: Vec<_> = of_telemetry(&hot, &lenient).into_iter().map(|(severity, _)| severity).collect();
        assert_eq!(found[..3], [Severity::Warn, Severity::Fail, Severity::Fail]);
    }

    #[test]
    fn counters_that_rise_and_a_narrow_bus_are_found() {
        let first = Wear {
            pcie_replays: Some(0),
            retired_pages: Some(1),
            remapped_corrected: Some(0),
            remapped_uncorrected: Some(0),
            ..Wear::default()
        };
        let last = Wear {
            pcie_width: Some(8),
            pcie_max_width: Some(16),
            pcie_replays: Some(9),
            retired_pages: Some(2),
            remapped_uncorrected: Some(1),
            remapped_corrected: Some(1),
            remap_failed: Some(true),
            repair_pending: Some(true),
            ..Wear::default()
        };
        let found = of_wear(&first, &last);
        let gravity: Vec<_> = found.iter().map(|(severity, _)| *severity).collect();
        let (fail, warn) = (Severity::Fail, Severity::Warn);
        assert_eq!(gravity, [fail, fail, warn, fail, fail, warn, warn]);
        assert!(found[6].1.contains("8 of 16 lanes"), "{found:?}");
    }
}
