//! What each command does.

pub mod challenge;
pub mod check_openings;
pub mod config;
pub mod control;
pub mod miners;
pub mod serve;
pub mod verify;

use assay_shared::program::exit::Exit;
use assay_shared::program::settings::{Environment, Flags, Settings};
use assay_shared::program::worker;
use clap::Args;

use crate::cli::{Cli, Command, ConfigCommand};
use crate::config::{ENV_PREFIX, RawConfig, ValidatorConfig};

/// Does what the command line says.
///
/// # Errors
/// Whatever kept the command from doing it; [`assay_shared::program::exit::report`] prints it.
pub fn execute(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Serve(args) => serve::execute(&configure(&args.settings)?),
        Command::Challenge(args) => challenge::execute(&configure(&args.settings)?, &args),
        Command::Miners(args) => miners::execute(&configure(&args.settings)?, &args),
        Command::Verify(args) => verify::execute(&configure(&args.settings)?, &args),
        Command::CheckOpenings(args) => check_openings::execute(&args),
        Command::Config(ConfigCommand::Show(args)) => config::show(&resolve(&args.settings)?, &args),
        Command::Worker(args) => Ok(worker::execute(&args)?),
    }
}

fn resolve<F: Args>(flags: &Flags<F>) -> anyhow::Result<Settings<RawConfig>> {
    Ok(Settings::resolve(flags, &Environment::of_process(ENV_PREFIX)?)?)
}

/// The configuration; logging is on from here.
fn configure<F: Args>(flags: &Flags<F>) -> anyhow::Result<ValidatorConfig> {
    let config = ValidatorConfig::check(&resolve(flags)?)?;
    config.log.start();
    Ok(config)
}
