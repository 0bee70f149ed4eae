//! Settings of the HTTP API: its address and its callers.

use assay_listen::connection::PlaintextRule;
use assay_program::address::Address;
use assay_program::settings::{Origin, Settings, SettingsError, Switch};
use clap::Args;

/// Where the HTTP API is served, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "HTTP API")]
pub struct RawHttp {
    /// Address to serve the HTTP API and the pages on: host:port; empty: none. Other machines have to speak TLS, as miners
    /// do. Where another program has the default address, the validator goes on without
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7480")]
    pub http_listen: String,
    /// Host names that the HTTP API and the pages are reached by, beside addresses, localhost and the names in tls_cert;
    /// comma-separated
    #[arg(long, value_name = "NAMES", action = clap::ArgAction::Append, value_delimiter = ',')]
    pub http_hosts: Vec<String>,
    /// Let every user of this machine read the HTTP API and the pages without a token; for http_listen on a loopback
    /// address only
    #[arg(long, default_value_t = Switch(false))]
    pub http_anonymous_read: Switch,
}

/// Checked settings of the HTTP API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// Address; `None`: on the control socket only.
    pub listen: Option<Address>,
    /// Whether the address is the default, whose absence is tolerated when it is taken.
    pub is_default: bool,
    /// Host names under which it is reached.
    pub hosts: Vec<String>,
    /// Whether callers of this machine may read without a token.
    pub anonymous_read: bool,
    /// The rule on plaintext, as for miners.
    pub plaintext: PlaintextRule,
}

impl HttpSettings {
    /// Checks the raw settings.
    ///
    /// # Errors
    /// [`SettingsError::Value`].
    pub fn check<R: Args>(
        settings: &Settings<R>,
        raw: &RawHttp,
        plaintext: PlaintextRule,
    ) -> Result<Self, SettingsError> {
        let RawHttp { http_listen, http_hosts, http_anonymous_read } = raw;
        let listen: Option<Address> = match http_listen.trim() {
            "" => None,
            text => Some(settings.parsed("http_listen", text)?),
        };
        let is_name = |name: &String| {
            let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            (1..=253).contains(&name.len()) && name.bytes().all(is_sign)
        };
        if let Some(name) = http_hosts.iter().find(|name| !is_name(name)) {
            return Err(settings.wrong("http_hosts", format!("{name:?} is no host name")));
        }
        if http_anonymous_read.0 && !listen.as_ref().is_some_and(Address::is_loopback) {
            return Err(settings.wrong("http_anonymous_read", "http_listen must be a loopback address for it"));
        }
        if http_anonymous_read.0 && plaintext.from_proxy {
            let why = "tls_proxy is set: behind a proxy everybody comes from this machine";
            return Err(settings.wrong("http_anonymous_read", why));
        }
        Ok(Self {
            listen,
            is_default: settings.setting("http_listen").origin == Origin::Default,
            hosts: http_hosts.clone(),
            anonymous_read: http_anonymous_read.0,
            plaintext,
        })
    }
}
