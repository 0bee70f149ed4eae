//! Hardware data and sensor readings: facts for the inventory, lines in the log.

use std::time::Duration;

use assay_protocol::claims::Telemetry;
use assay_telemetry::nvml::NvmlSource;
use assay_telemetry::{HostClaimsError, Sampler};
use assay_work::{ChallengeId, DeviceId};

use crate::config::TelemetryChoice;

/// How long a start waits for the facts: an idle driver takes seconds to answer. Later facts are reported when they
/// arrive.
pub const FACTS_LIMIT: Duration = Duration::from_secs(5);

/// Starts to read sensors, unless telemetry is off.
pub fn start(choice: TelemetryChoice) -> Option<Sampler> {
    match choice {
        TelemetryChoice::Auto => Some(Sampler::start(NvmlSource::open)),
        TelemetryChoice::Off => None,
    }
}

/// Waits for the facts and logs a summary.
pub fn announce(sampler: &Sampler) {
    match sampler.host_claims_within(FACTS_LIMIT) {
        Ok(facts) => {
            let driver = facts.hardware.iter().find_map(|hardware| hardware.driver_version.as_deref());
            tracing::info!(devices = facts.hardware.len(), driver = driver.unwrap_or("unknown"), "NVML answers");
        }
        // Usual on hosts without NVIDIA GPUs.
        Err(HostClaimsError::NoSource(why)) => tracing::info!("no telemetry: {why}"),
        Err(error @ HostClaimsError::NoAnswer(_)) => tracing::warn!("no telemetry: {error}"),
    }
}

/// Logs the sensor readings of a challenge: a line for each device, and a warning for each problem.
pub fn log(challenge: ChallengeId, devices: &[(DeviceId, Telemetry)], trouble: Option<&str>) {
    for (device, telemetry) in devices {
        tracing::info!(%challenge, %device, "telemetry: {telemetry}");
        for trouble in telemetry.troubles() {
            tracing::warn!(%challenge, %device, "telemetry: {trouble}");
        }
    }
    if let Some(trouble) = trouble {
        tracing::warn!(%challenge, "telemetry: {trouble}");
    }
}
