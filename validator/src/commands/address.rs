//! `assay-validator address`: what a miner needs, as one string.

use std::io::Write;

use assay_api::Status;
use assay_program::exit::{Exit, Failure, print};
use assay_program::utc;
use assay_transport::own_key;
use assay_transport::target::Target;
use serde_json::json;

use super::records::ask;
use crate::cli::running::StatusArgs;
use crate::client::place::Place;
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
    let place = Place::of(&config.control_socket, &args.at.server)?;
    let told = match running(&place) {
        Ok(told) => told,
        // One that is asked for by name has to answer.
        Err(error) if !place.is_socket() => return Err(error),
        Err(_) => configured(config)?,
    };
    if args.json {
        let value = json!({ "address": told.target, "tls_certificate_expires_unix_seconds": told.expires });
        print(&serde_json::to_string_pretty(&value)?)?;
        return Ok(Exit::Done);
    }
    print(&told.target)?;
    // Standard output has the address alone, for scripts. Nobody is left to tell when standard error is closed.
    let mut stderr = std::io::stderr();
    if place.is_socket()
        && config.tls.advertise.is_none()
        && (config.listen.is_unspecified() || config.listen.is_loopback())
    {
        let _ = writeln!(stderr, "Set `advertise` to the address that miners reach this validator by.");
    }
    if let Some(expires) = told.expires {
        let _ = writeln!(stderr, "The certificate in tls_cert expires on {}.", utc::text(expires));
    }
    Ok(Exit::Done)
}

/// What a running validator says.
fn running(place: &Place) -> anyhow::Result<Told> {
    let status: Status = ask(place, async |client| client.get("/status").await)?;
    let target = status.target.parse::<Target>().map_err(|error| Failure::new(Exit::Io, error.to_string()))?;
    Ok(Told { target: target.to_string(), expires: status.tls_certificate_expires_unix_seconds })
}

fn configured(config: &ValidatorConfig) -> Result<Told, Failure> {
    let key = own_key::identity(&config.key_file)?.public_key();
    let issued = config.tls.issued().map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    Ok(Told {
        target: config.tls.target(&config.listen, key).to_string(),
        expires: issued.map(|issued| issued.not_after_unix_seconds),
    })
}
