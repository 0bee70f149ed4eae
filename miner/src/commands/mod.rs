//! The commands.

pub mod bench;
pub mod check;
pub mod config;
pub mod devices;
pub mod diag;
pub mod key;
pub mod receipt;
pub mod run;
pub mod status;
pub mod work;
mod work_slot;

use assay_backends::worker_command;
use assay_program::exit::Exit;
use assay_program::lock::StateLock;
use assay_program::logging::LoggedValue;
use assay_program::settings::{Environment, Flags, KeyArgs, Settings};
use assay_program::{paths, private_memory};
use clap::Args;

use crate::cli::{Cli, Command, ConfigCommand, KeyCommand};
use crate::config::{ENV_PREFIX, MinerConfig, RawConfig, SYSTEM_FILE, absent};
use crate::joining::ENV_TOKEN;

/// The program and its version, for reports.
const PROGRAM: &str = concat!("assay-miner ", env!("CARGO_PKG_VERSION"));

/// Runs the command of a command line.
///
/// # Errors
/// Why the command failed; [`assay_program::exit::report`] prints it.
pub fn execute(cli: Cli) -> anyhow::Result<Exit> {
    // A worker has no key. Tools that look into a benchmark may do so: it reads the key's public half alone.
    if !matches!(cli.command, Command::Worker(_) | Command::Bench(_)) {
        private_memory::keep()?;
    }
    match cli.command {
        Command::Run(args) => {
            let flags = args.settings.clone();
            run::execute(&*configure_daemon(&args.settings)?, Box::new(move || resolve(&flags)))
        }
        Command::Devices(args) => devices::execute(&*configure(&args.settings)?, &args),
        Command::Status(args) => status::execute(&*configure(&args.settings)?, &args),
        Command::Key(KeyArgs { command: Some(KeyCommand::Rotate(args)), .. }) => {
            let config = configure(&args.settings)?;
            Ok(key::TEXTS.rotate(&config.key_file, args.overlap.into(), args.json)?)
        }
        Command::Receipt(args) => receipt::execute(&*configure(&args.settings)?),
        Command::Check(args) => check::execute(&*configure(&args.settings)?, &args),
        Command::Key(args) => Ok(key::TEXTS.show(&configure(&args.settings)?.key_file, args.json)?),
        Command::Work(args) => work::execute(&*configure(&args.settings)?, &args),
        Command::Bench(args) => bench::execute(&*configure(&args.settings)?, &args),
        Command::Diag(args) => diag::execute(&*configure(&args.settings)?, &args),
        Command::Config(ConfigCommand::Check(args)) => config::check(&resolve(&args.settings)?),
        Command::Config(ConfigCommand::Show(args)) => config::show(&resolve(&args.settings)?, args.json),
        Command::Worker(args) => Ok(worker_command::execute(&args)?),
    }
}

fn resolve<F: Args>(flags: &Flags<F>) -> anyhow::Result<Settings<RawConfig>> {
    let environment = Environment::of_process(ENV_PREFIX)?.without(ENV_TOKEN).with_absence(absent);
    Ok(Settings::resolve(flags, &environment.with_system_file(paths::system_file(SYSTEM_FILE)))?)
}

/// Measuring and testing want the devices for themselves.
fn warn_of_a_running_miner(config: &MinerConfig) {
    if let Some(holder) = StateLock::holder(&config.key_file) {
        tracing::warn!(
            "a miner runs with this key, process {}: it holds memory of the devices and may be challenged meanwhile; stop \
             it first",
            holder.pid
        );
    }
}

/// Checks the configuration of a command and starts logging, to standard error.
fn configure<F: Args>(flags: &Flags<F>) -> anyhow::Result<LoggedValue<MinerConfig>> {
    let config = MinerConfig::check(&resolve(flags)?)?;
    Ok(config.log.on_standard_error().start()?.keep_with(config))
}

/// Checks the configuration of the daemon and starts logging, to its file where there is one.
fn configure_daemon<F: Args>(flags: &Flags<F>) -> anyhow::Result<LoggedValue<MinerConfig>> {
    let config = MinerConfig::check(&resolve(flags)?)?;
    Ok(config.log.start()?.keep_with(config))
}
