//! `assay-validator address`: the dial string of a miner.

use std::io::Write;

use assay_api::ServerStatus;
use assay_client::cli::records::CommonArgs;
use assay_client::place::ApiLocation;
use assay_listen::tls::nodename;
use assay_program::address::Address;
use assay_program::exit::{Exit, Failure, print};
use assay_program::settings::Origin;
use assay_program::utc;
use assay_transport::own_key;
use assay_transport::target::Target;
use serde_json::json;

use super::records::ask;
use crate::config::{ValidatorConfig, resolve};
use crate::preflight::own_identity;

/// The miner's target, with the end of its certificate.
struct AddressReport {
    target: Target,
    /// End of an authority's certificate, in seconds since 1970.
    expires: Option<u64>,
}

/// Prints the address and the key: those of the running validator, else of the configuration. The key is made on first
/// use.
///
/// # Errors
/// Another key was asked for than that of the running validator; the key file, the certificate, or standard output.
pub fn execute(config: &ValidatorConfig, args: &CommonArgs) -> anyhow::Result<Exit> {
    let place = ApiLocation::of(&config.control_socket, &args.at.server)?;
    let told = match running(&place) {
        Ok(told) => {
            if place.is_socket()
                && let Some(difference) = difference(config, args, &told.target)?
            {
                let _ = writeln!(std::io::stderr(), "{difference}");
            }
            told
        }
        // One that is asked for by name has to answer.
        Err(error) if !place.is_socket() => return Err(error),
        Err(_) => configured(config)?,
    };
    if args.json {
        let value = json!({ "address": told.target.to_string(), "tls_certificate_expires_unix_seconds": told.expires });
        print(&serde_json::to_string_pretty(&value)?)?;
        return Ok(Exit::Done);
    }
    print(&told.target.to_string())?;
    // Standard output has the address alone, for scripts. A closed standard error is ignored.
    let mut stderr = std::io::stderr();
    let is_chosen = config.tls.advertise.as_ref() == Some(&told.target.address);
    if place.is_socket() && !is_chosen && is_of_this_machine(&told.target.address, &nodename()) {
        let _ = writeln!(stderr, "Where miners do not reach this validator by that address, set `advertise`.");
    }
    if let Some(expires) = told.expires {
        let _ = writeln!(stderr, "The certificate in tls_cert expires on {}.", utc::text(expires));
    }
    Ok(Exit::Done)
}

/// How the key of a running validator differs from that of `key_file`, where that can be read.
///
/// # Errors
/// They differ, and the file was asked for by its flag: another key's address would be an answer to another question.
fn difference(config: &ValidatorConfig, args: &CommonArgs, told: &Target) -> anyhow::Result<Option<String>> {
    let is_typed = matches!(resolve(&args.at.settings)?.setting("key_file").origin, Origin::Flag(_));
    let (file, Some(running)) = (&config.key_file, told.key) else { return Ok(None) };
    let own = match file.try_exists() {
        // One that cannot be read, such as another user's, says nothing.
        Ok(true) => match own_key::identity(file) {
            Ok(own) if own.public_key() != running => format!("has {}", own.public_key()),
            _ => return Ok(None),
        },
        Ok(false) if is_typed => "does not exist".to_owned(),
        _ => return Ok(None),
    };
    let difference =
        format!("The validator that runs here has the key {running}, and key_file {} {own}", file.display());
    if is_typed {
        let remedy =
            "leave --key-file out for the address of that validator; `assay-validator key` makes and shows keys";
        return Err(Failure::new(Exit::Config, format!("{difference}: {remedy}")).into());
    }
    Ok(Some(format!("{difference}.")))
}

/// Whether other machines may know no such address.
fn is_of_this_machine(address: &Address, nodename: &str) -> bool {
    address.is_loopback() || address.host == nodename
}

/// Asks a running validator.
fn running(place: &ApiLocation) -> anyhow::Result<AddressReport> {
    let status: ServerStatus = ask(place, async |client| client.get("/status").await)?;
    let target = status.target.parse::<Target>().map_err(|error| Failure::new(Exit::Io, error.to_string()))?;
    Ok(AddressReport { target, expires: status.tls_certificate_expires_unix_seconds })
}

fn configured(config: &ValidatorConfig) -> Result<AddressReport, Failure> {
    let key = own_identity(config)?.public_key();
    let issued = config.tls.issued().map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    Ok(AddressReport {
        target: config.tls.target(&config.listen, key),
        expires: issued.map(|issued| *issued.valid_unix_seconds.end()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_an_operator_gave_needs_no_hint() {
        let is_hinted = |address: &str| is_of_this_machine(&address.parse().unwrap(), "gpu-7");
        assert!(["127.0.0.1:7400", "[::1]:7400", "localhost:1", "gpu-7:7400"].into_iter().all(is_hinted));
        assert!(!["validator.example:7400", "10.0.0.7:7400"].into_iter().any(is_hinted));
    }
}
