//! The validators that a miner dials, and how each is authenticated.

use std::path::PathBuf;

use assay_program::settings::{Settings, SettingsError, Switch};
use assay_transport::target::Target;
use assay_work::PublicKey;
use clap::Args;

/// The most validators: each waits until the challenges of all others are over.
const MAX_VALIDATORS: usize = 16;

/// Settings of the connection, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct RawConnection {
    /// Validators to serve: assay://host:port#key, as `assay-validator address` prints it there, or host:port. On this
    /// machine host:port is plaintext, elsewhere TLS; assay:// is always TLS, http:// always plaintext. Several, separated
    /// by commas or given several times, have a session each and take turns at the devices
    #[arg(
        long,
        value_name = "ADDRESS",
        action = clap::ArgAction::Append,
        value_delimiter = ',',
        default_value = "127.0.0.1:7400"
    )]
    pub validator: Vec<String>,
    /// Certificates of authorities (PEM) to trust for a validator that has a certificate of one, by its host's name
    #[arg(long, value_name = "FILE")]
    pub validator_ca: Option<PathBuf>,
    /// Trust whatever key a validator on another machine has when it is first used, and keep it in the file
    /// known_validators beside the key file; another key is refused from then on
    #[arg(long, default_value_t = Switch(false))]
    pub trust_on_first_use: Switch,
    /// A proxy in front of the validator ends TLS; its certificate is checked with validator_ca. The proxy can read and
    /// change every session; the validator has to set tls_proxy too
    #[arg(long, default_value_t = Switch(false))]
    pub tls_proxy: Switch,
    /// File with the join token of a validator that takes new miners by one; - for standard input. The environment
    /// variable ASSAY_MINER_JOIN_TOKEN has it else. It goes to the first validator, and over TLS or to this machine alone
    #[arg(long, value_name = "FILE")]
    pub join_token_file: Option<PathBuf>,
    /// Send plaintext to other machines. Anyone on the path can read, drop or delay messages, and pass a session on;
    /// commitments stay signed
    #[arg(long, default_value_t = Switch(false))]
    pub insecure_allow_remote_plaintext: Switch,
    /// Longest delay before reconnecting, in milliseconds; the first is 500 ms, and each failed attempt doubles it
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    pub reconnect_max_ms: u64,
    /// Seconds that a running challenge may continue after SIGTERM or SIGINT
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub drain_timeout_s: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidatorTarget {
    /// Where it is, as it is shown.
    pub target: Target,
    /// How the connection to it is protected.
    pub security: Security,
}

/// The protection of a connection, and the means by which the right validator is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Security {
    /// Plaintext: on this machine, unless the operator allowed otherwise.
    Plaintext,
    /// TLS with a validator that has this key, or one that follows it.
    Key(PublicKey),
    /// TLS with a validator whose key is kept on first use.
    FirstUse,
    /// TLS with a host that has a certificate of an authority.
    Authorities {
        /// The file of the authorities' certificates.
        file: PathBuf,
        /// The session proves this key too, where there is one.
        key: Option<PublicKey>,
        /// Whether a proxy ends TLS.
        is_proxied: bool,
    },
}

/// Checks the raw settings: the validators to serve, one at least, each once.
pub fn check<R: Args>(settings: &Settings<R>, raw: &RawConnection) -> Result<Vec<ValidatorTarget>, SettingsError> {
    let mut found: Vec<ValidatorTarget> = Vec::new();
    for text in &raw.validator {
        let validator = validator(settings, raw, text)?;
        let address = &validator.target.address;
        if found.iter().any(|other| other.target.address == *address) {
            return Err(
                settings.wrong("validator", format!("{address} is named twice: one session of a key is served"))
            );
        }
        found.push(validator);
    }
    match found.len() {
        0 => Err(settings.wrong("validator", "no validator to serve")),
        1..=MAX_VALIDATORS => Ok(found),
        _ => Err(settings.wrong("validator", format!("at most {MAX_VALIDATORS}: each waits for its turn"))),
    }
}

fn validator<R: Args>(
    settings: &Settings<R>,
    raw: &RawConnection,
    text: &str,
) -> Result<ValidatorTarget, SettingsError> {
    let target: Target = settings.parsed("validator", text)?;
    if target.address.port == 0 {
        return Err(settings.wrong("validator", "port 0 is not valid"));
    }
    let security = security(settings, raw, &target)?;
    Ok(ValidatorTarget { target, security })
}

fn security<R: Args>(settings: &Settings<R>, raw: &RawConnection, target: &Target) -> Result<Security, SettingsError> {
    let allows_plaintext = raw.insecure_allow_remote_plaintext.0;
    let is_proxied = raw.tls_proxy.0;
    if !target.is_tls(allows_plaintext) {
        if !target.address.is_loopback() && !allows_plaintext {
            let reason = "http:// is plaintext, and the validator is on another machine: give the address that \
                 `assay-validator address` prints there (assay://HOST:PORT#KEY), or --insecure-allow-remote-plaintext";
            return Err(settings.wrong("validator", reason));
        }
        if is_proxied {
            return Err(settings.wrong("tls_proxy", "the connection is plaintext: write assay:// before the address"));
        }
        return Ok(Security::Plaintext);
    }
    match (&raw.validator_ca, target.key) {
        (Some(file), key) => Ok(Security::Authorities { file: file.clone(), key, is_proxied }),
        (None, _) if is_proxied => {
            let reason = "the proxy's certificate is checked by its authority: give --validator-ca FILE";
            Err(settings.wrong("tls_proxy", reason))
        }
        (None, Some(key)) => Ok(Security::Key(key)),
        (None, None) if raw.trust_on_first_use.0 => Ok(Security::FirstUse),
        (None, None) => {
            let reason = "nothing says which validator is the right one: give the address with its key, as \
                 `assay-validator address` prints it there (assay://HOST:PORT#KEY), or --validator-ca FILE where it has \
                 the certificate of an authority, or --trust-on-first-use";
            Err(settings.wrong("validator", reason))
        }
    }
}
