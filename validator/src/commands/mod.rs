//! The commands.

pub mod address;
pub mod administer;
pub mod cancel;
pub mod challenge;
pub mod check_openings;
pub mod config;
pub mod key;
pub mod miners;
pub mod policy;
pub mod receipt;
pub mod records;
pub mod rejudge;
pub mod replay_worker;
pub mod serve;
pub mod status;
pub mod verify;
pub mod watch;

use assay_devices::worker_command;
use assay_program::exit::Exit;
use assay_program::logging::Logged;
use assay_program::private_memory;
use assay_program::settings::Flags;
use assay_protocol::verdict::Outcome;
use clap::Args;

use crate::cli::access::{TokenCommand, WebhookCommand};
use crate::cli::key::{KeyArgs, KeyCommand};
use crate::cli::records::DecideArgs;
use crate::cli::server::ValidatorFlags;
use crate::cli::settings::{ConfigCommand, PolicyCommand};
use crate::cli::{Cli, Command};
use crate::client::place::Place;
use crate::config::{ValidatorConfig, resolve};
use crate::operations::Decision;

/// Runs the command of a command line.
///
/// # Errors
/// The failure of the command; [`assay_program::exit::report`] prints it.
pub fn execute(cli: Cli) -> anyhow::Result<Exit> {
    // A worker has no key.
    if !matches!(cli.command, Command::Worker(_)) {
        private_memory::keep()?;
    }
    match cli.command {
        Command::Serve(args) => serve::execute(&args.settings),
        Command::Challenge(args) => challenge::execute(&*configure(&args.at.settings)?, &args),
        Command::Cancel(args) => cancel::execute(&*place(&args.at)?, &args),
        Command::Status(args) => status::execute(&*place(&args.at)?, &args),
        Command::Address(args) => address::execute(&*configure(&args.at.settings)?, &args),
        Command::Reload(args) => administer::reload(&*place(&args.at)?, &args),
        Command::Forget(args) => administer::forget(&*place(&args.at)?, &args),
        Command::Key(KeyArgs { command: Some(KeyCommand::Rotate(args)), .. }) => {
            let config = configure(&args.settings)?;
            Ok(key::TEXTS.rotate(&config.key_file, args.overlap.into(), args.json)?)
        }
        Command::Key(args) => Ok(key::TEXTS.show(&configure(&args.settings)?.key_file, args.json)?),
        Command::Receipt(args) => receipt::execute(args),
        Command::Enroll(args) => records::enroll::execute(&*place(&args.common.at)?, &args),
        Command::Approve(args) => decide(&args, Decision::Approve),
        Command::Suspend(args) => decide(&args, Decision::Suspend),
        Command::Resume(args) => decide(&args, Decision::Resume),
        Command::Revoke(args) => decide(&args, Decision::Revoke),
        Command::Quarantine(args) => decide(&args, Decision::Quarantine),
        Command::Release(args) => decide(&args, Decision::Release),
        Command::Label(args) => records::decide::label(&*place(&args.common.at)?, &args),
        Command::Round(args) => records::round::execute(&*place(&args.common.at)?, &args),
        Command::Devices(args) => records::lists::devices(&*place(&args.common.at)?, &args),
        Command::Verdicts(args) => records::lists::verdicts(&*place(&args.common.at)?, &args),
        Command::Show(args) => records::show::execute(&*place(&args.common.at)?, &args),
        Command::History(args) => records::history::execute(&*place(&args.common.at)?, &args),
        Command::Export(args) => records::copies::export(&*place(&args.common.at)?, &args),
        Command::Backup(args) => records::copies::backup(&*place(&args.common.at)?, &args),
        Command::Token(command) => match command {
            TokenCommand::Create(args) => records::access::create_token(&*place(&args.common.at)?, &args),
            TokenCommand::List(args) => records::access::tokens(&*place(&args.common.at)?, &args),
            TokenCommand::Revoke(args) => records::access::revoke_token(&*place(&args.common.at)?, &args),
        },
        Command::Webhook(command) => match command {
            WebhookCommand::Add(args) => records::access::add_webhook(&*place(&args.common.at)?, &args),
            WebhookCommand::List(args) => records::access::webhooks(&*place(&args.common.at)?, &args),
            WebhookCommand::Remove(args) => records::access::remove_webhook(&*place(&args.common.at)?, &args),
            WebhookCommand::Test(args) => records::access::test_webhook(&*place(&args.common.at)?, &args),
        },
        Command::Page(args) => records::access::page(&*place(&args.common.at)?, &args),
        Command::Watch(args) => watch::execute(&*place(&args.at)?, &args),
        Command::Miners(args) => miners::execute(&*place(&args.at)?, &args),
        Command::Rejudge(args) => rejudge::execute(&*configure(&args.settings)?, &args),
        Command::Verify(args) => verify::execute(&*configure(&args.settings)?, &args),
        Command::CheckOpenings(args) => check_openings::execute(&args),
        Command::Policy(PolicyCommand::Check(args)) => policy::check(&args),
        Command::Config(ConfigCommand::Check(args)) => config::check(&resolve(&args.settings)?),
        Command::Config(ConfigCommand::Show(args)) => config::show(&resolve(&args.settings)?, &args),
        Command::ReplayWorker(args) => replay_worker::execute(&args),
        Command::Worker(args) => Ok(worker_command::execute(&args)?),
    }
}

fn decide(args: &DecideArgs, decision: Decision) -> anyhow::Result<Exit> {
    records::decide::execute(&*place(&args.common.at)?, args, decision)
}

/// The exit code for a verdict: by its outcome, and whether it lacks memory.
const fn exit_of(outcome: Outcome, lacks_memory: bool) -> Exit {
    match outcome {
        Outcome::Pass if lacks_memory => Exit::NoMemory,
        Outcome::Pass => Exit::Done,
        Outcome::Fail => Exit::Fail,
        Outcome::Inconclusive => Exit::Inconclusive,
    }
}

/// Checks the configuration of a command and starts logging, to standard error.
fn configure<F: Args>(flags: &Flags<F>) -> anyhow::Result<Logged<ValidatorConfig>> {
    let config = ValidatorConfig::check(&resolve(flags)?)?;
    Ok(config.log.on_standard_error().start()?.keep_with(config))
}

/// Selects the validator of a command, and starts logging.
fn place(at: &ValidatorFlags) -> anyhow::Result<Logged<Place>> {
    let config = ValidatorConfig::check(&resolve(&at.settings)?)?;
    let place = Place::of(&config.control_socket, &at.server)?;
    Ok(config.log.on_standard_error().start()?.keep_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_has_the_code_of_its_outcome() {
        let outcomes = [Outcome::Pass, Outcome::Fail, Outcome::Inconclusive];
        let codes = |lacks_memory| outcomes.map(|outcome| exit_of(outcome, lacks_memory) as u8);
        assert_eq!((codes(false), codes(true)), ([0, 1, 2], [3, 1, 2]));
    }
}
