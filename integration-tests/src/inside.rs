//! A validator inside the test's own process, for as long as the program does not serve.
#![allow(missing_docs)]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use assay_shared::compute::cpu::{CpuConfig, detect};
use assay_shared::compute::device::Device;
use assay_shared::compute::host::Host;
use assay_shared::identity::Identity;
use assay_shared::program::settings::{Environment, Settings};
use assay_shared::program::shutdown::{Shutdown, Trigger};
use assay_validator::cli::{Cli, Command};
use assay_validator::config::{RawConfig, ValidatorConfig};
use assay_validator::registry::Registry;
use assay_validator::server::{serve_control, serve_miners};
use assay_validator::session::Door;
use assay_validator::validator::{Validator, VerdictLog};
use assay_validator::verify::replay::Replayer;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub struct Inside {
    pub address: SocketAddr,
    pub trigger: Trigger,
}

pub async fn start(flags: &[String], socket: &Path) -> Inside {
    use clap::Parser;
    let line = ["assay-validator".to_owned(), "serve".to_owned()];
    let Command::Serve(args) = Cli::try_parse_from(line.iter().chain(flags)).unwrap().command else { panic!() };
    let settings = Settings::<RawConfig>::resolve(&args.settings, &Environment::default()).unwrap();
    let config = ValidatorConfig::check(&settings).unwrap();
    let (trigger, shutdown) = Shutdown::by_hand();
    let devices = CpuConfig {
        devices: config.devices.cpu_devices as usize,
        memory_bytes: config.devices.cpu_memory.iter().map(|m| m.bytes).collect(),
        threads: vec![1],
        ..CpuConfig::default()
    };
    let devices = detect(&devices, b"").unwrap().into_iter().map(|d| Box::new(d) as Box<dyn Device>).collect();
    let listener = TcpListener::bind(config.listen.to_string()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let validator = Arc::new(Validator {
        door: Arc::new(Door {
            identity: Identity::load_or_create(&config.key_file).unwrap(),
            allowed: config.allowed_miners.iter().copied().collect(),
            ping_interval: config.ping_interval,
        }),
        policy: Arc::new(config.policy),
        registry: Registry::default(),
        replayer: Some(Arc::new(Replayer::new(Host::new(devices)).unwrap())),
        checks: Semaphore::new(2),
        sessions: Arc::new(Semaphore::new(16)),
        replays: Arc::new(AtomicUsize::new(0)),
        verdicts: VerdictLog::default(),
        shutdown,
        next_session: AtomicU64::new(0),
    });
    let (one, other, socket) = (validator.clone(), validator, socket.to_owned());
    tokio::spawn(async move { serve_miners(one, listener, false, 32).await.unwrap() });
    tokio::spawn(async move { serve_control(other, &socket).await.unwrap() });
    Inside { address, trigger }
}
