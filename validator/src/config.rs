//! The validator's configuration: as written ([`RawConfig`]), and checked ([`ValidatorConfig`]).

use std::path::PathBuf;
use std::time::Duration;

use assay_backends::settings::{DeviceConfig, RawDevices, absent_key};
use assay_client::cli::server::RawClientFiles;
use assay_client::place::{ENV_SERVER, ENV_TOKEN};
use assay_keeper::allow::{Enrolment, Lists};
use assay_keeper::evidence::settings::{EvidenceConfig, RawEvidence};
use assay_listen::bounds::{
    ConnectionBounds, DEFAULT_ADDRESS_CONNECTS_PER_S, DEFAULT_CHALLENGES, DEFAULT_CONNECTS_PER_S, MAX_CONNECTS_PER_S,
    MAX_MINERS,
};
use assay_listen::tls::{RawTls, TlsConfig};
use assay_log::WitnessAddress;
use assay_observe::settings::{RawTraces, TraceEndpoint};
use assay_policy::Policy;
use assay_policy::fields::{Field, POLICY_FIELDS};
use assay_program::address::Address;
use assay_program::logging::{LogConfig, RawDaemonLog, RawLogging};
use assay_program::paths;
use assay_program::settings::{Environment, Flags, Settings, SettingsError, Switch};
use assay_records::Location;
use assay_web::settings::{HttpSettings, RawHttp};
use clap::Args;

use crate::policy::RawPolicy;
use crate::records_setting;

/// Name of the file with the key that signs receipts.
const RECEIPT_KEY_FILE: &str = "receipt.key";
/// Prefix of the validator's environment variables.
pub const ENV_PREFIX: &str = "ASSAY_VALIDATOR_";

/// The configuration file in `/etc/assay`, which is read by default.
pub const SYSTEM_FILE: &str = "validator.toml";

/// The default file of the records, beside the key file.
const RECORDS_FILE: &str = "validator.db";

/// The folder of logs of verdicts, beside the key file.
const LOG_FOLDER: &str = "verdict-log";

/// The most witnesses of the log of verdicts.
const MAX_WITNESSES: usize = 16;

/// The longest time to drain, in seconds: a supervisor kills long before.
const MAX_DRAIN_S: u64 = 3600;

/// Where the validator listens and whom it serves, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connections")]
pub struct RawService {
    /// Address to listen on for miners: host:port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7400")]
    pub listen: String,
    /// Public keys of the miners allowed to connect, comma-separated; empty: any miner
    #[arg(long, value_name = "KEYS", action = clap::ArgAction::Append, value_delimiter = ',')]
    pub allowed_miners: Vec<String>,
    /// How miners are let in that are not in allowed_miners: open lets in any, where that list is empty; approve makes each
    /// wait for `assay-validator approve`; token takes those that have a join token of `assay-validator enroll`
    #[arg(long, value_enum, value_name = "HOW", default_value = "open")]
    pub enrolment: Enrolment,
    /// Public keys of miners that may not connect, comma-separated: they are disconnected at once, and a key that follows one
    /// is not admitted by it
    #[arg(long, value_name = "KEYS", action = clap::ArgAction::Append, value_delimiter = ',')]
    pub revoked_miners: Vec<String>,
    /// Maximum number of connected miners, each with a key that it has proved
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    pub max_miners: u32,
    /// Maximum number of connected miners from one address (IPv6: one /64 network) [default: max_miners with
    /// allowed_miners; otherwise an eighth, at least 16; attested ones: twice]
    #[arg(long, value_name = "COUNT")]
    pub max_address_miners: Option<u32>,
    /// New connections per second from one address (IPv6: one /64 network), after a burst of ten times as many; 0: no
    /// limit, for a proxy or tunnel that all miners come through
    #[arg(long, value_name = "COUNT", default_value_t = DEFAULT_ADDRESS_CONNECTS_PER_S)]
    pub max_address_connects_per_s: u32,
    /// New connections per second from all addresses that no miner was connected from, after a burst of ten times as
    /// many; 0: no limit
    #[arg(long, value_name = "COUNT", default_value_t = DEFAULT_CONNECTS_PER_S)]
    pub max_connects_per_s: u32,
    /// Maximum number of challenges at once, over all miners; others wait for their turn
    #[arg(long, value_name = "COUNT", default_value_t = DEFAULT_CHALLENGES)]
    pub max_challenges: u32,
    /// Also take plaintext from other machines, which otherwise have to speak TLS. Anyone on the path can read, drop or
    /// delay messages, and pass a session on; commitments stay signed
    #[arg(long, default_value_t = Switch(false))]
    pub insecure_allow_remote_plaintext: Switch,
    /// Interval between pings of a miner, in milliseconds; after three missed pings it is disconnected
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    pub ping_interval_ms: u64,
    /// Seconds that running challenges may continue after SIGTERM or SIGINT
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub drain_timeout_s: u64,
}

/// Where records are kept, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Records")]
pub struct RawRecords {
    /// Where all records are kept: a file, or the URL of a PostgreSQL database, postgres://user@host/database, which
    /// several validators and replay workers can share [default: validator.db beside key_file]
    #[arg(long, value_name = "FILE|URL")]
    pub records: Option<String>,
}

/// Who cosigns the log of verdicts, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Log of verdicts")]
pub struct RawVerdictLog {
    /// Witnesses that cosign the log of verdicts, comma-separated: URL#VKEY, as `assay-validator log witness` prints it
    #[arg(long, value_name = "WITNESSES", action = clap::ArgAction::Append, value_delimiter = ',')]
    pub log_witnesses: Vec<String>,
}

/// Where replays run, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Replays")]
pub struct RawReplays {
    /// Replay on the devices of this machine; false: it opens none, and replay workers that share the records replay
    #[arg(long, default_value_t = Switch(true))]
    pub replay_locally: Switch,
}

/// Where the policy of the fleet is, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Fleet")]
pub struct RawFleet {
    /// File with the policy of the fleet: groups, their schedule, what is asked of them, and what follows; what is expected
    /// of miners; and figures of models
    #[arg(long, value_name = "FILE")]
    pub fleet_policy: Option<PathBuf>,
}

/// All settings, as written.
#[derive(Debug, Clone, Args)]
pub struct RawConfig {
    /// Connections.
    #[command(flatten)]
    pub service: RawService,
    /// What miners are shown.
    #[command(flatten)]
    pub tls: RawTls,
    /// The HTTP API.
    #[command(flatten)]
    pub http: RawHttp,
    /// Files.
    #[command(flatten)]
    pub files: RawClientFiles,
    /// Records.
    #[command(flatten)]
    pub records: RawRecords,
    /// The log of verdicts.
    #[command(flatten)]
    pub verdict_log: RawVerdictLog,
    /// Replays.
    #[command(flatten)]
    pub replays: RawReplays,
    /// What is asked of miners, and how it is checked.
    #[command(flatten)]
    pub policy: RawPolicy,
    /// The fleet.
    #[command(flatten)]
    pub fleet: RawFleet,
    /// What is kept of challenges.
    #[command(flatten)]
    pub evidence: RawEvidence,
    /// The devices.
    #[command(flatten)]
    pub devices: RawDevices,
    /// Traces.
    #[command(flatten)]
    pub traces: RawTraces,
    /// The log.
    #[command(flatten)]
    pub logging: RawDaemonLog,
}

/// The settings of a command that computes on this machine's devices.
#[derive(Debug, Clone, Args)]
pub struct LocalFlags {
    /// The devices.
    #[command(flatten)]
    pub devices: RawDevices,
    /// The log.
    #[command(flatten)]
    pub logging: RawLogging,
}

/// The settings of a replay worker.
#[derive(Debug, Clone, Args)]
pub struct WorkerFlags {
    /// Records.
    #[command(flatten)]
    pub records: RawRecords,
    /// The devices.
    #[command(flatten)]
    pub devices: RawDevices,
    /// The log.
    #[command(flatten)]
    pub logging: RawDaemonLog,
}

/// The settings of a command that reads what is stored.
#[derive(Debug, Clone, Args)]
pub struct StoredFlags {
    /// Files.
    #[command(flatten)]
    pub files: RawClientFiles,
    /// Records.
    #[command(flatten)]
    pub records: RawRecords,
    /// Evidence.
    #[command(flatten)]
    pub evidence: RawEvidence,
    /// The log.
    #[command(flatten)]
    pub logging: RawLogging,
}

/// Checked settings: no later code checks them again.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidatorConfig {
    /// Address for miners.
    pub listen: Address,
    pub tls: TlsConfig,
    pub http: HttpSettings,
    /// Socket for commands.
    pub control_socket: PathBuf,
    /// File with the validator's secret key.
    pub key_file: PathBuf,
    pub records: Location,
    /// Witnesses of the log of verdicts.
    pub log_witnesses: Vec<WitnessAddress>,
    /// Admission of miners.
    pub miners: Lists,
    /// Bounds on connections and concurrent challenges.
    pub bounds: ConnectionBounds,
    /// Interval of pings.
    pub ping_interval: Duration,
    /// The longest time for challenges to continue while draining.
    pub drain_timeout: Duration,
    pub policy: Policy,
    /// File with the policy of the fleet.
    pub fleet_policy: Option<PathBuf>,
    /// Settings of the evidence store.
    pub evidence: EvidenceConfig,
    /// Whether this machine's devices replay.
    pub replays_locally: bool,
    pub devices: DeviceConfig,
    /// Export of spans; `None`: off.
    pub traces: Option<TraceEndpoint>,
    pub log: LogConfig,
}

/// Resolves the settings from the flags, the file and the environment.
///
/// # Errors
/// [`SettingsError`] for a file that cannot be read or parsed, an unknown key, or a value that does not parse.
pub fn resolve<F: Args>(flags: &Flags<F>) -> Result<Settings<RawConfig>, SettingsError> {
    let environment = Environment::of_process(ENV_PREFIX)?.without(ENV_SERVER).without(ENV_TOKEN);
    let environment = environment.with_absence(absent);
    Settings::resolve(flags, &environment.with_system_file(paths::system_file(SYSTEM_FILE)))
}

/// Why a key is no setting, or an argument of a command none: an earlier release had it, or another build.
pub fn absent(key: &str) -> Option<String> {
    let instead = match key {
        "verdict_log" => "`assay-validator verdicts --json --follow` does it",
        "on_event" => "`assay-validator webhook add` does it",
        "challenge --repeat" => "a loop of the shell does it, and `assay-validator verdicts --json` has the figures",
        "export --format" => "JSON Lines are the one form, which pandas, DuckDB and jq read",
        "expectations" => "its [[miner]] sections are part of the file that `fleet_policy` names",
        "model_profiles" => "its [[model]] sections are part of the file that `fleet_policy` names",
        "evidence_passes_percent" => {
            "`passes_percent` of a group's section `evidence` does it, in the file that \
             `fleet_policy` names"
        }
        "max_handshakes" => "an eighth of `max_miners` may be without a session, 128 at least and 4096 at most",
        "reflection" => "clients read proto/assay/v1 of the release, as `grpcurl -proto` does",
        "round --by" => "groups of the policy do it, which select labels or models: docs/fleet.md",
        _ => match field_without_setting(key) {
            Some(field) => {
                let name = field.name;
                return Some(format!(
                    "it is gone, `{POLICY_FIELDS} = [\"{name}=VALUE\"]` does it, times with their unit"
                ));
            }
            None => return absent_key(key),
        },
    };
    Some(format!("it is gone, {instead}"))
}

/// The field of the policy that an earlier release had as a setting of this name, with the unit of a time.
fn field_without_setting(key: &str) -> Option<&'static Field> {
    let name = ["_ms", "_s"].into_iter().find_map(|unit| key.strip_suffix(unit));
    [Some(key), name].into_iter().flatten().find_map(|name| Field::without_setting(name).ok())
}

impl ValidatorConfig {
    /// File with the key that signs receipts, beside the session key.
    pub fn receipt_key_file(&self) -> PathBuf {
        self.key_file.with_file_name(RECEIPT_KEY_FILE)
    }

    /// Folder of the logs of verdicts, beside the session key: one for each key.
    pub fn log_folder(&self) -> PathBuf {
        self.key_file.with_file_name(LOG_FOLDER)
    }

    /// Checks the raw settings.
    ///
    /// # Errors
    /// [`SettingsError::Value`] for the first value out of bounds, with the bound and its reason.
    pub fn check(settings: &Settings<RawConfig>) -> Result<Self, SettingsError> {
        let RawConfig {
            service,
            tls,
            http,
            files,
            records,
            verdict_log,
            replays,
            policy,
            fleet,
            evidence,
            devices,
            traces,
            logging,
        } = &settings.raw;
        let ping = "faster pings load the link, slower ones notice a lost miner late";
        let ping_ms = settings.in_range("ping_interval_ms", service.ping_interval_ms, 100..=600_000, ping)?;
        let drain = "a supervisor kills the validator earlier";
        let drain_s = settings.in_range("drain_timeout_s", service.drain_timeout_s, 0..=MAX_DRAIN_S, drain)?;
        let key = |setting| move |text: &String| settings.parsed(setting, text);
        let miners = Lists {
            allowed: service.allowed_miners.iter().map(key("allowed_miners")).collect::<Result<_, _>>()?,
            revoked: service.revoked_miners.iter().map(key("revoked_miners")).collect::<Result<_, _>>()?,
            enrolment: service.enrolment,
            ..Lists::default()
        };
        let tls = TlsConfig::check(settings, tls, service.insecure_allow_remote_plaintext.0)?;
        let listen: Address = settings.parsed("listen", &service.listen)?;
        let http = HttpSettings::check(settings, http, tls.plaintext)?;
        if http.listen.as_ref().is_some_and(|address| address.overlaps(&listen)) {
            return Err(settings.wrong("http_listen", "listen has this port: give another one, or leave it empty"));
        }
        Ok(Self {
            listen,
            http,
            tls,
            control_socket: files.control_socket.clone(),
            key_file: files.key_file.clone(),
            records: match &records.records {
                Some(written) => records_setting::check(settings, written)?,
                None => Location::File(files.key_file.with_file_name(RECORDS_FILE)),
            },
            log_witnesses: witnesses(settings, verdict_log)?,
            miners,
            bounds: bounds(settings)?,
            ping_interval: Duration::from_millis(ping_ms),
            drain_timeout: Duration::from_secs(drain_s),
            policy: policy.check(settings)?,
            fleet_policy: fleet.fleet_policy.clone(),
            evidence: EvidenceConfig::check(settings, evidence, &files.key_file)?,
            replays_locally: replays.replay_locally.0,
            devices: DeviceConfig::check(settings, devices)?,
            traces: assay_observe::settings::check(settings, traces)?,
            log: LogConfig::check(settings, logging)?,
        })
    }
}

fn witnesses(settings: &Settings<RawConfig>, raw: &RawVerdictLog) -> Result<Vec<WitnessAddress>, SettingsError> {
    let several = "a checkpoint waits for each, and readers take 64 signatures";
    settings.in_range("log_witnesses", raw.log_witnesses.len(), 0..=MAX_WITNESSES, several)?;
    raw.log_witnesses.iter().map(|text| settings.parsed("log_witnesses", text)).collect()
}

fn bounds(settings: &Settings<RawConfig>) -> Result<ConnectionBounds, SettingsError> {
    let raw = &settings.raw.service;
    let each = "each connection costs memory and file descriptors";
    let cost = "each costs a core up to a millisecond for TLS";
    let max_miners = settings.in_range("max_miners", raw.max_miners, 1..=MAX_MINERS, each)?;
    let of_address = |count| settings.in_range("max_address_miners", count, 1..=MAX_MINERS, each);
    let per_s = |name, count| {
        let count = settings.in_range(name, count, 0..=MAX_CONNECTS_PER_S, cost)?;
        Ok(Some(count).filter(|count| *count > 0))
    };
    let one = "a challenge cannot start otherwise";
    Ok(ConnectionBounds {
        max_miners,
        max_address_miners: raw.max_address_miners.map(of_address).transpose()?,
        address_connects_per_s: per_s("max_address_connects_per_s", raw.max_address_connects_per_s)?,
        connects_per_s: per_s("max_connects_per_s", raw.max_connects_per_s)?,
        max_challenges: settings.in_range("max_challenges", raw.max_challenges, 1..=MAX_MINERS, one)?,
    })
}

#[cfg(test)]
mod tests;
