//! A miner in a folder of its own.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use assay_protocol::identity::Identity;
use assay_work::{DeviceId, PublicKey};
use tempfile::TempDir;

use crate::daemon::{Daemon, LOG, run};
use crate::validator::{Policy, TestValidator};

/// A running miner. Dropped, it is gone, and its folder with it.
#[derive(Debug)]
pub struct TestMiner {
    pub key: PublicKey,
    pub daemon: Daemon,
    arguments: Vec<String>,
    environment: Vec<(String, OsString)>,
    /// Kept for as long as the program needs it.
    folder: TempDir,
}

/// How a miner is started in another way than others.
#[derive(Debug, Default)]
struct Special<'a> {
    /// Flags that tests have in common and this one does without.
    without: &'a [&'a str],
    /// Another miner's key, which it has too.
    key_file: Option<&'a Path>,
    /// The target that it dials in place of the address.
    target: Option<&'a str>,
}

impl TestMiner {
    /// Starts one with `devices` processor devices; `flags` override the common ones of tests.
    #[must_use]
    pub fn start(validator: SocketAddr, devices: u32, flags: &[&str]) -> Self {
        Self::start_in(validator, devices, flags, Vec::new())
    }

    /// Starts one, connected to a validator that is started before.
    pub async fn with_validator(policy: &Policy, devices: u32, flags: &[&str]) -> (TestValidator, Self) {
        let validator = TestValidator::start(policy).await;
        let miner = Self::start(validator.address, devices, flags);
        validator.wait_for_miner(miner.key, true).await;
        (validator, miner)
    }

    /// The same, with variables of the environment.
    #[must_use]
    pub fn start_in(validator: SocketAddr, devices: u32, flags: &[&str], environment: Vec<(String, OsString)>) -> Self {
        Self::launch(validator, devices, flags, &Special::default(), |_| environment)
    }

    /// The same, without some of the flags that tests have in common.
    #[must_use]
    pub fn start_without(validator: SocketAddr, devices: u32, flags: &[&str], without: &[&str]) -> Self {
        let special = Special { without, ..Special::default() };
        Self::launch(validator, devices, flags, &special, |_| Vec::new())
    }

    /// Starts one with a copy of another one's key file.
    #[must_use]
    pub fn start_as(validator: SocketAddr, key_file: &Path, flags: &[&str]) -> Self {
        let special = Special { key_file: Some(key_file), ..Special::default() };
        Self::launch(validator, 1, flags, &special, |_| Vec::new())
    }

    /// Starts one with one device that dials a target as an operator writes it.
    #[must_use]
    pub fn start_at(target: &str, flags: &[&str], environment: Vec<(String, OsString)>) -> Self {
        let special = Special { target: Some(target), ..Special::default() };
        Self::launch(SocketAddr::from(([127, 0, 0, 1], 0)), 1, flags, &special, |_| environment)
    }

    /// Starts one with one device that knows its validator's key: a refusal for good ends it.
    #[must_use]
    pub fn start_pinned(validator: &TestValidator, flags: &[&str]) -> Self {
        Self::start_at(&format!("{}#{}", validator.address, validator.key), flags, Vec::new())
    }

    /// The same, with variables of the environment that are made for the ids of its devices.
    #[must_use]
    pub fn start_for(
        validator: SocketAddr,
        devices: u32,
        flags: &[&str],
        environment: impl FnOnce(&[DeviceId]) -> Vec<(String, OsString)>,
    ) -> Self {
        let environment = |key_file: &Path| environment(&device_ids(key_file, devices));
        Self::launch(validator, devices, flags, &Special::default(), environment)
    }

    fn launch(
        validator: SocketAddr,
        devices: u32,
        flags: &[&str],
        special: &Special<'_>,
        environment: impl FnOnce(&Path) -> Vec<(String, OsString)>,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let key_file = folder.path().join("miner.key");
        if let Some(other) = special.key_file {
            std::fs::copy(other, &key_file).expect("the other key file is there");
        }
        let key = Identity::load_or_create(&key_file).expect("a key").public_key();
        let target = special.target.map_or_else(|| validator.to_string(), str::to_owned);
        let mut arguments = vec!["run".to_owned(), format!("--validator={target}")];
        arguments.push(format!("--key-file={}", key_file.display()));
        arguments.push(format!("--cpu-devices={devices}"));
        let common = "--backend=cpu --cpu-memory=8MiB --cpu-threads=1 --reconnect-max-ms=200";
        let log = format!("--log={LOG}");
        let is_said = |name: &str| {
            flags.iter().any(|flag| flag.split('=').next() == Some(name)) || special.without.contains(&name)
        };
        let common = common.split(' ').chain([log.as_str()]);
        let common = common.filter(|flag| !flag.split('=').next().is_some_and(is_said));
        arguments.extend(common.map(str::to_owned));
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let environment = environment(&key_file);
        let daemon = Daemon::start_in("assay-miner", &arguments, &environment);
        Self { key, daemon, arguments, environment, folder }
    }

    /// Kills the program and starts it again as the same miner.
    pub fn restart(&mut self) {
        self.daemon.kill();
        self.daemon = Daemon::start_in("assay-miner", &self.arguments, &self.environment);
    }

    /// The same, with another number of devices.
    pub fn restart_with(&mut self, devices: u32) {
        let is_count = |argument: &&mut String| argument.starts_with("--cpu-devices=");
        let count = self.arguments.iter_mut().find(is_count).expect("every miner has this flag");
        *count = format!("--cpu-devices={devices}");
        self.restart();
    }

    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The ids that the processor devices of a miner with this key have.
///
/// # Panics
/// When the miner does not list them.
#[must_use]
pub fn device_ids(key_file: &Path, devices: u32) -> Vec<DeviceId> {
    let own = [format!("--key-file={}", key_file.display()), format!("--cpu-devices={devices}")];
    let common = ["devices", "--json", "--backend=cpu", "--cpu-memory=8MiB", "--cpu-threads=1", "--telemetry=off"];
    let output = run("assay-miner", common.map(str::to_owned).iter().chain(&own));
    let listing: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the miner lists its devices");
    let rows = listing["devices"].as_array().expect("a list of devices");
    let id = |row: &serde_json::Value| row["device_id"].as_str().and_then(|id| id.parse().ok());
    rows.iter().map(|row| id(row).expect("a device has an id")).collect()
}
