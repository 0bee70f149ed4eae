//! The validator for a command: on this machine, or remote with a token.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assay_program::exit::{Exit, Failure};
use assay_program::file;
use assay_transport::certificate::{authorities, system_authorities};
use assay_transport::http::Url;
use assay_transport::proxy::Proxies;
use assay_transport::trust::Trust;
use clap::Args;

use super::url;

/// Variable for the URL of a server.
pub const ENV_SERVER: &str = "ASSAY_VALIDATOR_SERVER";
/// Variable for an API token. It is not a setting: secrets have no flags, and `config show` prints none.
pub const ENV_TOKEN: &str = "ASSAY_VALIDATOR_TOKEN";
/// The longest API token sent, in bytes.
const MAX_TOKEN_BYTES: usize = 256;
/// The most bytes read of a token's file: a token, and white space around it.
const MAX_READ_BYTES: u64 = 2 * MAX_TOKEN_BYTES as u64;

/// Location of a validator's API.
#[derive(Debug, Clone)]
pub enum ApiLocation {
    /// Control socket of a validator on this machine.
    Socket(PathBuf),
    /// HTTP API of a validator on any machine.
    Server(Arc<Server>),
}

/// A validator's HTTP API, with the credentials of both sides.
#[derive(Debug)]
pub struct Server {
    /// The URL as typed.
    pub url: Url,
    /// Trust anchors of the connection; `None`: plaintext.
    pub trust: Option<Trust>,
    /// Description of the trusted authorities.
    pub authorities: String,
    /// Proxies of the environment.
    pub proxies: Proxies,
    /// Credential of the caller.
    pub token: Option<BearerToken>,
}

/// An API token. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(String);

/// A validator that is reached over HTTP.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Over HTTP")]
pub struct ServerFlags {
    /// Validator to ask in place of the one behind --control-socket, by the address in its http_listen:
    /// https://HOST:PORT#KEY, or https://HOST:PORT where an authority issued its certificate
    /// [env: ASSAY_VALIDATOR_SERVER]
    #[arg(long, value_name = "URL", value_parser = url::server)]
    pub server: Option<Url>,
    /// File with an API token of `assay-validator token create`; -: standard input [env: ASSAY_VALIDATOR_TOKEN has the
    /// token itself]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with certificates of authorities to trust, PEM [default: those that this machine trusts]
    #[arg(long, value_name = "FILE")]
    pub server_ca: Option<PathBuf>,
    /// Allow http:// to another machine: whoever is on the way reads the token
    #[arg(long)]
    pub server_insecure: bool,
}

impl ServerFlags {
    /// Checks that no flag is given that only a server uses.
    ///
    /// # Errors
    /// [`Failure`] with the flag.
    pub fn unused(&self) -> Result<(), Failure> {
        let given = [
            ("--token-file", self.token_file.is_some()),
            ("--server-ca", self.server_ca.is_some()),
            ("--server-insecure", self.server_insecure),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => {
                Err(Failure::new(Exit::Usage, format!("{flag} is for --server URL, which is not given")))
            }
            None => Ok(()),
        }
    }
}

impl ApiLocation {
    /// Selects the validator: the server of the flags or of the environment, else the control socket.
    ///
    /// # Errors
    /// [`Failure`]: a malformed URL, an unreadable token or certificate, plaintext to another machine.
    pub fn of(control_socket: &Path, flags: &ServerFlags) -> Result<Self, Failure> {
        let url = match (&flags.server, variable(ENV_SERVER)?) {
            (Some(url), _) => url.clone(),
            (None, Some(text)) => {
                url::server(&text).map_err(|error| Failure::new(Exit::Config, format!("{ENV_SERVER}: {error}")))?
            }
            (None, None) => return flags.unused().map(|()| Self::Socket(control_socket.into())),
        };
        if !url.is_tls && !url.address.is_loopback() && !flags.server_insecure {
            let message = format!(
                "{url} is another machine: whoever is on the way would read the token and change answers. Write https://, \
                 or allow it with --server-insecure"
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        let (trust, authorities) = trust(&url, flags.server_ca.as_deref())?;
        let proxies = Proxies::from_environment().map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
        let token = BearerToken::take(flags.token_file.as_deref())?;
        Ok(Self::Server(Arc::new(Server { url, trust, authorities, proxies, token })))
    }

    pub const fn is_socket(&self) -> bool {
        matches!(self, Self::Socket(_))
    }
}

impl fmt::Display for ApiLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Server(server) => server.url.fmt(f),
        }
    }
}

/// The trust anchors of a connection, and their description.
fn trust(url: &Url, ca: Option<&Path>) -> Result<(Option<Trust>, String), Failure> {
    let failed = |error: &dyn fmt::Display| Failure::new(Exit::Config, error.to_string());
    Ok(match (url.key, ca) {
        _ if !url.is_tls => (None, String::new()),
        (Some(key), None) => (Some(Trust::Key(key)), String::new()),
        (Some(_), Some(_)) => {
            let message = "--server-ca: a server with its key behind # needs no authority: leave out one of both";
            return Err(Failure::new(Exit::Usage, message));
        }
        (None, Some(path)) => {
            let roots = authorities(path).map_err(|error| failed(&format!("--server-ca: {error}")))?;
            (Some(Trust::Authorities(Arc::new(roots))), format!("in {}", path.display()))
        }
        (None, None) => {
            let remedy = "give --server-ca, or the validator's key behind #";
            let roots = system_authorities().map_err(|error| failed(&format!("{error}: {remedy}")))?;
            (Some(Trust::Authorities(Arc::new(roots))), "that this machine trusts".to_owned())
        }
    })
}

/// Reads a variable; an empty one counts as unset, since service managers leave them.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(Failure::new(Exit::Config, format!("{name} is not UTF-8"))),
    }
}

impl BearerToken {
    /// Reads the token from a file, where `-` is standard input, else from the environment.
    fn take(file: Option<&Path>) -> Result<Option<Self>, Failure> {
        let (origin, text) = match (file, variable(ENV_TOKEN)?) {
            (Some(path), _) => (path.display().to_string(), file::read_at_most(path, MAX_READ_BYTES)?),
            (None, Some(text)) => (ENV_TOKEN.to_owned(), text),
            (None, None) => return Ok(None),
        };
        let token = Self(text.trim().to_owned());
        // A malformed token is never sent.
        if token.is_well_formed() {
            return Ok(Some(token));
        }
        let expected = "expected one API token, as `assay-validator token create` prints it: assay_ROLE_…";
        Err(Failure::new(Exit::Config, format!("{origin}: {expected}")))
    }

    fn is_well_formed(&self) -> bool {
        let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        self.0.starts_with("assay_") && self.0.len() <= MAX_TOKEN_BYTES && self.0.bytes().all(is_sign)
    }

    /// The token itself, for sending.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";

    #[test]
    fn a_token_is_not_shown_and_has_a_form() {
        let token = |text: &str| BearerToken(text.to_owned());
        assert!(token("assay_read_AbC-_9").is_well_formed());
        for text in
            ["", "Bearer assay_read_x", "assay_read_x\r\nHost: b", "secret", &format!("assay_{}", "x".repeat(256))]
        {
            assert!(!token(text).is_well_formed(), "{text}");
        }
        assert_eq!(format!("{:?}", token("assay_read_secret")), "BearerToken");
    }

    #[test]
    fn plaintext_leaves_this_machine_only_where_that_is_allowed() {
        let of = |url: &str, server_insecure| {
            let flags = ServerFlags { server: Some(url.parse().unwrap()), server_insecure, ..ServerFlags::default() };
            ApiLocation::of(Path::new("unused"), &flags).map_err(|failure| failure.exit)
        };
        assert!(of("http://127.0.0.1:7480", false).is_ok() && of("http://10.0.0.1:7480", true).is_ok());
        assert_eq!(of("http://10.0.0.1:7480", false).unwrap_err(), Exit::Usage);
        let key = format!("https://10.0.0.1:7480#{KEY}");
        assert!(
            matches!(of(&key, false), Ok(ApiLocation::Server(server)) if matches!(server.trust, Some(Trust::Key(_))))
        );
    }
}
