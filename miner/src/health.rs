//! Judges a miner's facts by its operator's expectations, without I/O.

use assay_program::render::units::counted;
use assay_program::span::Span;
use assay_work::size::Size;
use assay_work::text::quoted;
use serde::{Deserialize, Serialize};

use crate::status::{MinerStatus, VerdictStatus};

/// A running miner writes its status every ten seconds: one that is so old is of a miner that hangs.
pub const MAX_STATUS_AGE_S: u64 = 40;

#[derive(Debug, Clone, Copy, Default)]
pub struct HealthRequirements {
    /// The least count of devices.
    pub devices: Option<usize>,
    /// So much free memory at least, over all devices.
    pub min_memory: Option<Size>,
    /// Whether a miner must run.
    pub running: bool,
    /// A session with a validator.
    pub connected: bool,
    /// The last verdict must be a pass, and no older than this.
    pub verdict_within: Option<Span>,
}

/// A device that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundDevice {
    pub name: String,
    pub device_id: String,
    /// Memory that a challenge can take.
    pub free_bytes: u64,
    /// Why it can take no work.
    pub fault: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub struct HealthFacts {
    /// The process of the running miner.
    pub miner: Option<u32>,
    /// The status that the running miner wrote last, or the one before it.
    pub status: Option<MinerStatus>,
    /// When a miner wrote its status last, or could not, in seconds since 1970.
    pub touched: Option<u64>,
    /// The devices; `None` before they are opened.
    pub devices: Option<Vec<FoundDevice>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthReport {
    /// Whether all is as expected.
    pub healthy: bool,
    /// Whether the facts are of now.
    #[serde(rename = "known")]
    pub is_known: bool,
    /// The expectations that do not hold.
    pub problems: Vec<String>,
    pub found: Vec<String>,
}

impl HealthFacts {
    /// The devices of a running miner; `None` before they are open.
    pub fn devices_of(status: &MinerStatus) -> Option<Vec<FoundDevice>> {
        let device = |device: &crate::status::DeviceStatus| FoundDevice {
            name: device.name.clone(),
            device_id: device.device_id.clone(),
            free_bytes: device.free_bytes,
            fault: device.fault.clone(),
        };
        Some(status.devices.iter().map(device).collect::<Vec<_>>()).filter(|devices| !devices.is_empty())
    }

    /// Judges the facts by the expectations, at this moment in seconds since 1970.
    pub fn judge(&self, expected: &HealthRequirements, now: u64) -> HealthReport {
        let mut judgement = HealthFindings::default();
        self.judge_miner(expected, now, &mut judgement);
        self.judge_devices(expected, &mut judgement);
        self.judge_connection(expected, &mut judgement);
        self.judge_verdict(expected, now, &mut judgement);
        let HealthFindings { is_unknown, are_closed, problems, found } = judgement;
        // Beside devices that are not open yet, any other problem is certain.
        let is_known = !is_unknown && (!are_closed || problems.len() > 1);
        HealthReport { healthy: problems.is_empty(), is_known, problems, found }
    }

    fn judge_miner(&self, expected: &HealthRequirements, now: u64, judgement: &mut HealthFindings) {
        let Some(process) = self.miner else {
            let none = "no miner runs";
            return if expected.running { judgement.problem(none) } else { judgement.found(none) };
        };
        let Some(status) = &self.status else {
            // It starts, or its disk takes no file.
            judgement.is_unknown = true;
            return judgement.problem(format!("the miner, process {process}, has written no status yet"));
        };
        let age_s = now.saturating_sub(status.written);
        if age_s <= MAX_STATUS_AGE_S {
            return;
        }
        let age = seconds(age_s);
        if self.touched.is_some_and(|touched| now.saturating_sub(touched) <= MAX_STATUS_AGE_S) {
            judgement.is_unknown = true;
            judgement.problem(format!(
                "the miner, process {process}, cannot write its status, which is {age} old: the disk may be full"
            ));
        } else {
            judgement.problem(format!(
                "the miner, process {process}, hangs, or its disk takes no writes: its status is {age} old"
            ));
        }
    }

    fn judge_devices(&self, expected: &HealthRequirements, judgement: &mut HealthFindings) {
        let Some(devices) = &self.devices else {
            judgement.are_closed = true;
            return judgement.problem("the devices are not open yet");
        };
        let usable: Vec<_> = devices.iter().filter(|device| device.fault.is_none()).collect();
        for FoundDevice { name, device_id, fault, .. } in devices {
            if let Some(fault) = fault {
                judgement.problem(format!("device {device_id} ({}): {}", quoted(name), quoted(fault)));
            }
        }
        let free = Size { bytes: usable.iter().map(|device| device.free_bytes).sum() };
        judgement.found(format!("{}, {} MiB free", counted(usable.len() as u64, "device"), free.bytes >> 20));
        if let Some(count) = expected.devices.filter(|count| usable.len() < *count) {
            judgement.problem(format!("{} of {}", usable.len(), counted(count as u64, "device")));
        }
        if let Some(least) = expected.min_memory.filter(|least| free < *least) {
            judgement.problem(format!("{} MiB of {least} of memory are free", free.bytes >> 20));
        }
    }

    fn judge_connection(&self, expected: &HealthRequirements, judgement: &mut HealthFindings) {
        let connection = self.status.as_ref().filter(|_| self.miner.is_some()).map(|status| &status.connection);
        let is_connected = connection.is_some_and(|connection| connection.connected_since.is_some());
        if is_connected {
            judgement.found("connected");
        } else if expected.connected {
            let why = connection.and_then(|connection| connection.last_error.as_ref());
            judgement.problem(why.map_or_else(
                || "no session with a validator".to_owned(),
                |error| format!("no session with a validator: {}", quoted(&error.why)),
            ));
        }
    }

    fn judge_verdict(&self, expected: &HealthRequirements, now: u64, judgement: &mut HealthFindings) {
        let Some(verdict) = self.status.as_ref().and_then(|status| status.last_verdict.as_ref()) else {
            if let Some(limit) = expected.verdict_within {
                judgement.problem(format!("no verdict is known, within {limit} or ever"));
            }
            return;
        };
        let age_s = now.saturating_sub(verdict.at);
        let told = format!("last verdict {}, {} ago", shown(verdict), seconds(age_s));
        let limit = expected.verdict_within;
        let is_old = limit.is_some_and(|limit| age_s > limit.seconds);
        // An inconclusive verdict is not evidence against this host, but does not satisfy a limit on the last pass
        // either.
        let is_bad = verdict.outcome == "fail" || limit.is_some() && verdict.outcome != "pass";
        match limit.filter(|_| is_old) {
            Some(limit) => judgement.problem(format!("{told}: older than {limit}")),
            None if is_bad => judgement.problem(told),
            None => judgement.found(told),
        }
    }
}

impl HealthReport {
    /// The outcome in one line.
    pub fn line(&self) -> String {
        let (problems, found) = (self.problems.join("; "), self.found.join(", "));
        let state = if self.is_known { "FAIL" } else { "UNKNOWN" };
        match (self.healthy, found.is_empty()) {
            (true, _) => format!("OK: {found}"),
            (false, true) => format!("{state}: {problems}"),
            (false, false) => format!("{state}: {problems} ({found})"),
        }
    }
}

#[derive(Default)]
struct HealthFindings {
    /// The facts are missing, or of another time.
    is_unknown: bool,
    /// The devices are not open yet.
    are_closed: bool,
    problems: Vec<String>,
    found: Vec<String>,
}

impl HealthFindings {
    fn problem(&mut self, what: impl Into<String>) {
        self.problems.push(what.into());
    }

    fn found(&mut self, what: impl Into<String>) {
        self.found.push(what.into());
    }
}

fn shown(verdict: &VerdictStatus) -> String {
    let reasons: Vec<_> = verdict.reasons.iter().map(|reason| quoted(&reason.code).to_string()).collect();
    if reasons.is_empty() { verdict.outcome.clone() } else { format!("{} ({})", verdict.outcome, reasons.join(", ")) }
}

fn seconds(age_s: u64) -> String {
    match age_s {
        0..120 => format!("{age_s} s"),
        120..7200 => format!("{} min", age_s / 60),
        7200..172_800 => format!("{} h", age_s / 3600),
        _ => format!("{} days", age_s / 86_400),
    }
}

#[cfg(test)]
mod tests;
