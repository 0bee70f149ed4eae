//! The miner's configuration: as written ([`RawConfig`]), and as it is once checked ([`MinerConfig`]).

use std::path::PathBuf;
use std::time::Duration;

use assay_backends::settings::{DeviceConfig, RawDevices, absent_key};
use assay_observe::settings::{RawTraces, TraceEndpoint};
use assay_program::logging::{LogConfig, RawDaemonLog, RawLogging};
use assay_program::paths;
use assay_program::settings::{Settings, SettingsError};
use clap::{Args, ValueEnum};

use crate::limits::Limits;
use crate::metrics_endpoint::MetricsAddress;
use crate::target::{self, RawConnection, ValidatorTarget};

/// The prefix of the miner's environment variables.
pub const ENV_PREFIX: &str = "ASSAY_MINER_";

/// The configuration file in `/etc/assay`, which is read where no other is named.
pub const SYSTEM_FILE: &str = "miner.toml";

/// The delay after the first failed attempt to connect; it doubles with each further one.
const FIRST_RECONNECT: Duration = Duration::from_millis(500);
/// The longest delay between two attempts to connect: a validator that is back waits for as long.
const MAX_RECONNECT_MS: u64 = 3_600_000;
/// The longest time to drain: a supervisor kills long before.
const MAX_DRAIN_S: u64 = 3600;
/// The longest turn at the devices where several validators take them, unless the operator says otherwise.
const MAX_TURN_S: u64 = 1800;
/// The longest time of a challenge: a week.
const MAX_CHALLENGE_S: u64 = 7 * 86_400;
/// The longest time that memory is kept for the next challenge: a day.
const MAX_IDLE_S: u64 = 86_400;

/// Settings of the memory between challenges, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Memory")]
pub struct RawMemory {
    /// Seconds to keep device memory allocated after a challenge, for the next one; 0 releases it at once
    #[arg(long, value_name = "S", default_value_t = 30)]
    pub idle_release_s: u64,
}

/// Limits of the operator's own, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub struct RawLimits {
    /// Share of each device's free memory that is offered to the validator, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    pub max_memory_percent: u32,
    /// Seconds that a challenge may take on this miner; a longer one is stopped and ends as miner_declined, or, once it is
    /// committed to, as abandoned. 0 means no limit, or 1800 where several validators take turns
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub max_challenge_s: u64,
}

/// Files of the miner, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Files")]
pub struct RawFiles {
    /// Secret key file, created on first use
    #[arg(long, value_name = "FILE", default_value_os_t = paths::state_file("miner.key"))]
    pub key_file: PathBuf,
}

/// Whether sensors are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TelemetryChoice {
    /// If NVML is installed.
    Auto,
    /// Never; NVML is not loaded.
    Off,
}

/// Settings of what is told about the hardware, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Telemetry")]
pub struct RawTelemetry {
    /// Read hardware data and sensors through NVML. Reported to the validator as a claim; does not affect verdicts
    #[arg(long, value_enum, default_value = "auto")]
    pub telemetry: TelemetryChoice,
}

/// Settings of the page of metrics, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Metrics")]
pub struct RawMetrics {
    /// Address to serve metrics at for Prometheus, over HTTP without a password: a port of 127.0.0.1, such as 9464, or
    /// host:port to let other machines scrape. Off unless given
    #[arg(long, value_name = "PORT|ADDRESS")]
    pub metrics_listen: Option<String>,
}

/// All settings, as written.
#[derive(Debug, Clone, Args)]
pub struct RawConfig {
    /// The connection.
    #[command(flatten)]
    pub connection: RawConnection,
    /// The memory.
    #[command(flatten)]
    pub memory: RawMemory,
    /// Limits.
    #[command(flatten)]
    pub limits: RawLimits,
    /// Files.
    #[command(flatten)]
    pub files: RawFiles,
    /// The devices.
    #[command(flatten)]
    pub devices: RawDevices,
    /// What is told about the hardware.
    #[command(flatten)]
    pub telemetry: RawTelemetry,
    /// The page of metrics.
    #[command(flatten)]
    pub metrics: RawMetrics,
    /// Traces.
    #[command(flatten)]
    pub traces: RawTraces,
    /// The log.
    #[command(flatten)]
    pub logging: RawDaemonLog,
}

/// The settings that matter without a connection: the key, the devices, their sensors and the log.
#[derive(Debug, Clone, Args)]
pub struct LocalFlags {
    /// Files.
    #[command(flatten)]
    pub files: RawFiles,
    /// The devices.
    #[command(flatten)]
    pub devices: RawDevices,
    /// What is told about the hardware.
    #[command(flatten)]
    pub telemetry: RawTelemetry,
    /// The log.
    #[command(flatten)]
    pub logging: RawLogging,
}

/// The settings that matter for what concerns the key alone.
#[derive(Debug, Clone, Args)]
pub struct KeyFlags {
    /// Files.
    #[command(flatten)]
    pub files: RawFiles,
    /// The log.
    #[command(flatten)]
    pub logging: RawLogging,
}

/// All settings, checked: nothing downstream checks again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinerConfig {
    /// The validators to serve, one at least, each once.
    pub validators: Vec<ValidatorTarget>,
    /// The file with the miner's secret key.
    pub key_file: PathBuf,
    /// The file with a join token; `-` is standard input.
    pub join_token_file: Option<PathBuf>,
    /// The shortest and the longest pause before connecting again, above zero.
    pub reconnect: (Duration, Duration),
    /// How long a challenge may go on while draining.
    pub drain_timeout: Duration,
    /// For how long memory is kept between challenges.
    pub idle_release: Duration,
    pub limits: Limits,
    pub devices: DeviceConfig,
    pub telemetry: TelemetryChoice,
    /// Where metrics are served; `None`: nowhere.
    pub metrics: Option<MetricsAddress>,
    /// Where spans of challenges go; `None`: nowhere.
    pub traces: Option<TraceEndpoint>,
    pub log: LogConfig,
}

impl MinerConfig {
    /// Checks the raw settings.
    ///
    /// # Errors
    /// [`SettingsError::Value`] for the first value out of bounds, with the bound and its reason.
    pub fn check(settings: &Settings<RawConfig>) -> Result<Self, SettingsError> {
        let raw = &settings.raw.connection;
        let metrics = &settings.raw.metrics.metrics_listen;
        let drain_reason = "a supervisor kills the miner earlier";
        let drain_s = settings.in_range("drain_timeout_s", raw.drain_timeout_s, 0..=MAX_DRAIN_S, drain_reason)?;
        let idle_reason = "a day is longer than any interval between challenges";
        let idle_s =
            settings.in_range("idle_release_s", settings.raw.memory.idle_release_s, 0..=MAX_IDLE_S, idle_reason)?;
        Ok(Self {
            validators: target::check(settings, raw)?,
            key_file: settings.raw.files.key_file.clone(),
            join_token_file: raw.join_token_file.clone(),
            reconnect: reconnect(settings)?,
            drain_timeout: Duration::from_secs(drain_s),
            idle_release: Duration::from_secs(idle_s),
            limits: limits(settings)?,
            devices: DeviceConfig::check(settings, &settings.raw.devices)?,
            telemetry: settings.raw.telemetry.telemetry,
            metrics: metrics.as_ref().map(|text| settings.parsed("metrics_listen", text)).transpose()?,
            traces: assay_observe::settings::check(settings, &settings.raw.traces)?,
            log: LogConfig::check(settings, &settings.raw.logging)?,
        })
    }
}

/// Why a key is not a setting, or an argument none of its command: an earlier release had it, or another build has it.
pub fn absent(key: &str) -> Option<String> {
    let instead = match key {
        "decline_hours" | "decline_hours_zone" => "a timer that stops and starts the miner does it: docs/operate.md",
        "validator_key" => "the address has the key: `validator = \"assay://host:port#KEY\"`",
        "reconnect_min_ms" => "the delay begins at 500 ms, or at `reconnect_max_ms` where that is less",
        _ => return absent_key(key),
    };
    Some(format!("it is gone, {instead}"))
}

fn limits(settings: &Settings<RawConfig>) -> Result<Limits, SettingsError> {
    let raw = &settings.raw.limits;
    let reason = "a share of the free memory; to offer none, stop the miner";
    let max_memory_percent = settings.in_range("max_memory_percent", raw.max_memory_percent, 1..=100, reason)?;
    let reason = "no challenge lasts a week";
    let max_s = settings.in_range("max_challenge_s", raw.max_challenge_s, 0..=MAX_CHALLENGE_S, reason)?;
    let several = settings.raw.connection.validator.len() > 1;
    let max_s = if max_s == 0 && several { MAX_TURN_S } else { max_s };
    let max_challenge = (max_s > 0).then(|| Duration::from_secs(max_s));
    Ok(Limits { max_memory_percent, max_challenge })
}

fn reconnect(settings: &Settings<RawConfig>) -> Result<(Duration, Duration), SettingsError> {
    let raw = &settings.raw.connection;
    let reason = "a shorter delay floods a validator that is down, a longer one leaves it waiting when it is back";
    let max_ms = settings.in_range("reconnect_max_ms", raw.reconnect_max_ms, 10..=MAX_RECONNECT_MS, reason)?;
    let max = Duration::from_millis(max_ms);
    Ok((FIRST_RECONNECT.min(max), max))
}

#[cfg(test)]
mod tests;
