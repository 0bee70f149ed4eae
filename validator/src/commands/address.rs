//! `assay-validator address`: what a miner needs, as one string.

use std::io::Write;

use assay_program::exit::{Exit, Failure, print};
use assay_program::utc;
use assay_protocol::wire::v1::{GetStatusRequest, GetStatusResponse};
use assay_transport::own_key;
use serde_json::json;

use super::control;
use crate::cli::running::StatusArgs;
use crate::config::ValidatorConfig;

/// What miners are told.
struct Told {
    target: String,
    /// When the certificate of an authority ends, in seconds since 1970.
    expires: Option<u64>,
}

/// Prints the address and the key: those of the running validator, else those that the configuration gives. The key is
/// made on first use.
///
/// # Errors
/// The key file, the certificate, or standard output.
pub fn execute(config: &ValidatorConfig, args: &StatusArgs) -> anyhow::Result<Exit> {
    let told = match running(config) {
        Some(told) => told,
        None => configured(config)?,
    };
    if args.json {
        let value = json!({ "address": told.target, "tls_certificate_expires_unix_seconds": told.expires });
        print(&serde_json::to_string_pretty(&value)?)?;
        return Ok(Exit::Done);
    }
    print(&told.target)?;
    // Standard output has the address alone, for scripts. Nobody is left to tell when standard error is closed.
    let mut stderr = std::io::stderr();
    if config.tls.advertise.is_none() && (config.listen.is_unspecified() || config.listen.is_loopback()) {
        let _ = writeln!(stderr, "Set `advertise` to the address that miners reach this validator by.");
    }
    if let Some(expires) = told.expires {
        let _ = writeln!(stderr, "The certificate in tls_cert expires on {}.", utc::text(expires));
    }
    Ok(Exit::Done)
}

/// What a running validator says; `None` where none answers.
fn running(config: &ValidatorConfig) -> Option<Told> {
    let asked = control::block_on(async {
        let client = control::connect(&config.control_socket).await?;
        Ok(client.ask(|mut rpc| async move { rpc.get_status(GetStatusRequest {}).await }).await?)
    });
    let GetStatusResponse { target, tls_certificate_expires_unix_seconds: expires, .. } = asked.ok()?;
    Some(Told { target, expires: Some(expires).filter(|expires| *expires > 0) })
}

fn configured(config: &ValidatorConfig) -> Result<Told, Failure> {
    let key = own_key::identity(&config.key_file)?.public_key();
    let issued = config.tls.issued().map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    Ok(Told {
        target: config.tls.target(&config.listen, key).to_string(),
        expires: issued.map(|issued| issued.not_after_unix_seconds),
    })
}
