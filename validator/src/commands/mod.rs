//! The commands.

pub mod address;
mod backup;
pub mod challenge_file;
pub mod check_openings;
pub mod config;
pub mod key;
pub mod log;
pub mod policy;
pub mod receipt_keys;
pub mod rejudge;
pub mod replay_worker;
pub mod serve;
pub mod try_host;
pub mod verify;

use assay_api::Decision;
use assay_backends::worker_command;
use assay_client::cli::access::{TokenCommand, WebhookCommand};
use assay_client::cli::receipt::ReceiptCommand;
use assay_client::cli::records::DecideArgs;
use assay_client::cli::server::ValidatorFlags;
use assay_client::commands::{administer, cancel, challenge, miners, receipt, records, status, watch};
use assay_client::place::ApiLocation;
use assay_program::exit::{Exit, Failure};
use assay_program::logging::LoggedValue;
use assay_program::private_memory;
use assay_program::settings::{Flags, KeyArgs};
use clap::Args;

use crate::cli::key::KeyCommand;
use crate::cli::settings::{ConfigCommand, PolicyCommand};
use crate::cli::{Cli, Command};
use crate::config::{ValidatorConfig, resolve};

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
        Command::Challenge(args) if !args.devices.is_empty() => {
            challenge_file::execute(&*configure(&args.at.settings)?, &args)
        }
        Command::Challenge(args) => challenge::execute(&*place(&args.at)?, &args),
        Command::Cancel(args) => cancel::execute(&*place(&args.common.at)?, &args),
        Command::Status(args) => status::execute(&*place(&args.at)?, &args),
        Command::Address(args) => address::execute(&*configure(&args.at.settings)?, &args),
        Command::Reload(args) => administer::reload(&*place(&args.at)?, &args),
        Command::Forget(args) => administer::forget(&*place(&args.common.at)?, &args),
        Command::Key(KeyArgs { command: Some(KeyCommand::Rotate(args)), .. }) => {
            let config = configure(&args.settings)?;
            Ok(key::TEXTS.rotate(&config.key_file, args.overlap.into(), args.json)?)
        }
        Command::Key(args) => Ok(key::TEXTS.show(&configure(&args.settings)?.key_file, args.json)?),
        Command::Receipt(args) => match (args.command, args.id) {
            (Some(ReceiptCommand::Verify(args)), _) => receipt::verify(&args),
            (Some(ReceiptCommand::Compare(args)), _) => receipt::compare(&args),
            (Some(ReceiptCommand::Keys(args)), _) => receipt_keys::print_set(&*configure(&args.settings)?),
            (Some(ReceiptCommand::Rotate(args)), _) => receipt_keys::rotate(&*configure(&args.settings)?, &args),
            (None, Some(id)) => receipt::show(&*place(&args.shown.common.at)?, &id, &args.shown),
            (None, None) => Err(Failure::new(Exit::Usage, "name a receipt or a challenge by its id").into()),
        },
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
        Command::Backup(args) => match args.url() {
            Some(url) => backup::execute(&*configure(&args.common.at.settings)?, url, &args),
            None => records::copies::backup(&*place(&args.common.at)?, &args),
        },
        Command::Token(command) => match command {
            TokenCommand::Create(args) => records::access::create_token(&*place(&args.common.at)?, &args),
            TokenCommand::List(args) => records::access::tokens(&*place(&args.at)?, &args),
            TokenCommand::Revoke(args) => records::access::revoke_token(&*place(&args.common.at)?, &args),
        },
        Command::Webhook(command) => match command {
            WebhookCommand::Add(args) => records::access::add_webhook(&*place(&args.common.at)?, &args),
            WebhookCommand::List(args) => records::access::webhooks(&*place(&args.at)?, &args),
            WebhookCommand::Remove(args) => records::access::remove_webhook(&*place(&args.common.at)?, &args),
            WebhookCommand::Test(args) => records::access::test_webhook(&*place(&args.common.at)?, &args),
        },
        Command::Page(args) => records::access::page(&*place(&args.common.at)?, &args),
        Command::Watch(args) => watch::execute(&*place(&args.at)?, &args),
        Command::Report(args) => receipt::report(&*place(&args.common.at)?, &args),
        Command::Miners(args) => miners::execute(&*place(&args.common.at)?, &args),
        Command::Rejudge(args) => rejudge::execute(&*configure(&args.settings)?, &args),
        Command::Try(args) => try_host::execute(&args),
        Command::Verify(args) => verify::execute(&*configure(&args.settings)?, &args),
        Command::Log(command) => log::execute(command),
        Command::CheckOpenings(args) => check_openings::execute(&args),
        Command::Policy(PolicyCommand::Check(args)) => policy::check(&args),
        Command::Config(ConfigCommand::Check(args)) => config::check(&resolve(&args.settings)?),
        Command::Config(ConfigCommand::Show(args)) => config::show(&resolve(&args.settings)?, args.json),
        Command::ReplayWorker(args) => replay_worker::execute(&args),
        Command::Worker(args) => Ok(worker_command::execute(&args)?),
    }
}

fn decide(args: &DecideArgs, decision: Decision) -> anyhow::Result<Exit> {
    records::decide::execute(&*place(&args.common.at)?, args, decision)
}

/// Checks the configuration of a command and starts logging, to standard error.
fn configure<F: Args>(flags: &Flags<F>) -> anyhow::Result<LoggedValue<ValidatorConfig>> {
    let config = ValidatorConfig::check(&resolve(flags)?)?;
    Ok(config.log.on_standard_error().start()?.keep_with(config))
}

/// Selects the validator of a command, and starts logging.
fn place(at: &ValidatorFlags) -> anyhow::Result<LoggedValue<ApiLocation>> {
    let config = ValidatorConfig::check(&resolve(&at.settings)?)?;
    let place = ApiLocation::of(&config.control_socket, &at.server)?;
    Ok(config.log.on_standard_error().start()?.keep_with(place))
}
