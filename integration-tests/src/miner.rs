//! A miner in a folder of its own.

use std::net::SocketAddr;
use std::path::PathBuf;

use assay_shared::identity::Identity;
use assay_shared::work::PublicKey;
use tempfile::TempDir;

use crate::daemon::{Daemon, LOG};

/// A running miner. Dropped, it is gone, and its folder with it.
#[derive(Debug)]
pub struct TestMiner {
    /// Its public key.
    pub key: PublicKey,
    /// The running program.
    pub daemon: Daemon,
    arguments: Vec<String>,
    /// Kept for as long as the program needs it.
    folder: TempDir,
}

impl TestMiner {
    /// Starts one with so many processor devices; what `flags` say counts more than what tests have in common.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(validator: SocketAddr, devices: u32, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let key_file = folder.path().join("miner.key");
        let key = Identity::load_or_create(&key_file).expect("a key").public_key();
        let mut arguments = vec!["run".to_owned(), format!("--validator={validator}")];
        arguments.push(format!("--key-file={}", key_file.display()));
        arguments.push(format!("--cpu-devices={devices}"));
        let common = "--backend=cpu --cpu-memory=8MiB --cpu-threads=1 --reconnect-min-ms=50 --reconnect-max-ms=200";
        arguments.extend(common.split(' ').map(str::to_owned));
        arguments.push(format!("--log={LOG}"));
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let daemon = Daemon::start("assay-miner", &arguments);
        Self { key, daemon, arguments, folder }
    }

    /// Kills the program and starts it again as the same miner.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn restart(&mut self) {
        self.daemon.kill();
        self.daemon = Daemon::start("assay-miner", &self.arguments);
    }

    /// A file in the miner's folder.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
