//! Arguments of `token`, `webhook` and `page`.

use assay_api::Role;
use assay_api::record::EventKind;
use assay_program::span::Span;
use clap::{Args, Subcommand};

use super::one_of;
use super::records::CommonArgs;

/// What is done with tokens of the HTTP API.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token; it is printed once, and only its hash is kept
    #[command(after_help = "Examples:
  assay-validator token create --role read --name dashboard > dashboard.token
  assay-validator token create --role operate --name laptop --expires 8h")]
    Create(CreateTokenArgs),
    /// List the tokens that were made, newest first
    List(CommonArgs),
    /// Take a token of the API back, or a join token that no miner used
    #[command(after_help = "Examples:
  assay-validator token list
  assay-validator token revoke 9f3c52aa")]
    Revoke(ItemArgs),
}

/// Arguments of `token create`.
#[derive(Debug, Args)]
pub struct CreateTokenArgs {
    /// What it lets its holder do: read shows everything, operate acts on miners and challenges, admin does all
    #[arg(long, value_parser = one_of(Role::ALL, Role::name), default_value = "read")]
    pub role: Role,
    /// What it is called in lists and in the records of what was done
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Seconds, minutes, hours, days or weeks (s, m, h, d, w) for which it can be used
    #[arg(long, value_name = "TIME", default_value = "90d")]
    pub expires: Span,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of what is done with one token or webhook.
#[derive(Debug, Args)]
pub struct ItemArgs {
    /// Its id, or the first digits of it
    #[arg(value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub id: String,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What is done with webhooks.
#[derive(Debug, Subcommand)]
pub enum WebhookCommand {
    /// Send events to a server from now on; the secret that its messages are signed with is printed once
    #[command(after_help = "Examples:
  assay-validator webhook add https://ops.example/assay
  assay-validator webhook add https://ops.example/assay --kind verdict --kind state > webhook.secret")]
    Add(AddWebhookArgs),
    /// List webhooks, with how far each is
    List(CommonArgs),
    /// Send nothing more to a webhook
    Remove(ItemArgs),
    /// Send a test message now, and say what the server answered
    Test(ItemArgs),
}

/// Arguments of `webhook add`.
#[derive(Debug, Args)]
pub struct AddWebhookArgs {
    /// Server that events are posted to: https://, or http:// within a network that you trust
    #[arg(value_name = "URL")]
    pub url: String,
    /// Kind of event to send, such as verdict; several are given several times [default: all]
    #[arg(long, value_name = "KIND")]
    pub kind: Vec<EventKind>,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of `page`.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// What whoever opens it may do: look, challenge miners too, or decide about them too
    #[arg(long, value_parser = one_of(Role::ALL, Role::name), default_value = "admin")]
    pub role: Role,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}
