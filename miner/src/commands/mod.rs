//! What each command does.

pub mod bench;
pub mod config;
pub mod devices;
pub mod run;
pub mod work;

use assay_shared::program::exit::Exit;
use assay_shared::program::settings::{Environment, Flags, Settings};
use assay_shared::program::worker;
use clap::Args;

use crate::cli::{Cli, Command, ConfigCommand};
use crate::config::{ENV_PREFIX, MinerConfig, RawConfig};

/// Does what the command line says.
///
/// # Errors
/// Whatever kept the command from doing it; [`assay_shared::program::exit::report`] prints it.
pub fn execute(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Run(args) => run::execute(&configure(&args.settings)?),
        Command::Devices(args) => devices::execute(&configure(&args.settings)?, &args),
        Command::Work(args) => work::execute(&configure(&args.settings)?, &args),
        Command::Bench(args) => bench::execute(&configure(&args.settings)?, &args),
        Command::Config(ConfigCommand::Show(args)) => config::show(&resolve(&args.settings)?, &args),
        Command::Worker(args) => Ok(worker::execute(&args)?),
    }
}

fn resolve<F: Args>(flags: &Flags<F>) -> anyhow::Result<Settings<RawConfig>> {
    Ok(Settings::resolve(flags, &Environment::of_process(ENV_PREFIX)?)?)
}

/// The configuration; logging is on from here.
fn configure<F: Args>(flags: &Flags<F>) -> anyhow::Result<MinerConfig> {
    let config = MinerConfig::check(&resolve(flags)?)?;
    config.log.start();
    Ok(config)
}
