//! `assay-validator replay-worker`.

use anyhow::Context;
use assay_device::machine::limit_freed_memory;
use assay_program::exit::{Exit, Failure};
use assay_program::manager::ServiceManager;
use assay_program::shutdown::Shutdown;
use assay_records::Location;
use assay_work::PublicKey;

use super::serve::open_records;
use crate::cli::daemon::ReplayWorkerArgs;
use crate::config::{ValidatorConfig, resolve};
use assay_judge::entropy::{Entropy, OsEntropy};
use assay_replay::Replayer;
use assay_replay::job::MAX_WORKER_CHARS;
use assay_replay::worker::ReplayWorker;

/// Computes replays for the validators that share the records, until a signal; then finishes the current one.
///
/// # Errors
/// Reasons that keep the worker from starting: records that are not shared or not reachable, no device.
pub fn execute(args: &ReplayWorkerArgs) -> anyhow::Result<Exit> {
    let config = ValidatorConfig::check(&resolve(&args.settings)?)?;
    let config = config.log.start()?.keep_with(config);
    if let Location::File(path) = &config.records {
        let message = format!(
            "records = {}: replays come from validators over PostgreSQL: set records to its URL, \
             postgres://user@host/database",
            path.display()
        );
        return Err(Failure::new(Exit::Config, message).into());
    }
    limit_freed_memory();
    let manager = ServiceManager::of_process();
    manager.status("opening the devices");
    // Device ids are for this run only.
    let seed = PublicKey(OsEntropy.bytes()?);
    let chosen = config.devices.open(&seed).map_err(|error| Failure::because(Exit::Config, "no devices", error))?;
    tracing::info!(backend = chosen.backend, devices = chosen.host.len(), "devices for replay: {}", chosen.why);
    let replayer = Replayer::new(chosen.host)?;
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = args.name.clone().unwrap_or_else(|| machine.clone());
    // Two workers of one name, or on one machine, need distinct names.
    let name: String = format!("{name}-{}", &seed.to_string()[..8]).chars().take(MAX_WORKER_CHARS).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(async {
        let shutdown = Shutdown::on_signals(config.drain_timeout).context("no signal handlers")?;
        let records = open_records(&config.records).await?;
        let worker = ReplayWorker::new(name.clone(), machine, records.clone(), replayer);
        tracing::info!(worker = name, records = %config.records, "taking replays");
        manager.ready(format_args!("taking replays from {}", config.records));
        tokio::select! {
            ended = worker.run(shutdown.clone()) => ended.map_err(|error| Failure::new(Exit::Config, error.to_string()))?,
            never = manager.attend(shutdown.clone(), || worker.in_a_line()) => match never {},
        }
        manager.stopping();
        tracing::info!("{}", worker.in_a_line());
        records.close().await;
        Ok(Exit::Done)
    })
}
