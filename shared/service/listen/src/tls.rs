//! TLS settings of the operator: an authority's certificate, its expiry, and the dial target of miners.

use std::path::PathBuf;
use std::time::Duration;

use assay_program::address::Address;
use assay_program::clock::unix_seconds;
use assay_program::render::units::counted;
use assay_program::settings::{Settings, SettingsError, Switch};
use assay_program::utc;
use assay_protocol::identity::Identity;
use assay_transport::certificate::{CertificateError, IssuedCertificate, own};
use assay_transport::server::ServerTls;
use assay_transport::target::{Scheme, Target};
use assay_work::PublicKey;
use clap::Args;

use crate::connection::PlaintextRule;

/// Warning time before a certificate expires, in seconds: an authority's renewal is done by then.
const WARNING_S: u64 = 14 * DAY_S;
const DAY_S: u64 = 86_400;
/// Interval of the warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(DAY_S / 2);

/// What miners are shown, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TLS")]
pub struct RawTls {
    /// Address that miners dial, for `assay-validator address`: host:port [default: that of listen]
    #[arg(long, value_name = "ADDRESS")]
    pub advertise: Option<String>,
    /// Certificate chain of an authority (PEM), for miners that have no key of this validator. Miners that have one get
    /// the validator's own certificate. Read again on reload
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of tls_cert (PEM), not readable by every user. Read again on reload
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// A proxy of yours ends TLS and passes plaintext on: take plaintext from every machine, so let only the proxy reach
    /// the port. The proxy can then read and change every session; miners have to set tls_proxy too
    #[arg(long, default_value_t = Switch(false))]
    pub tls_proxy: Switch,
}

/// Checked TLS settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// Address that miners dial, if it differs from the listening one.
    pub advertise: Option<Address>,
    /// Files of an authority's certificate and of its key.
    pub issued: Option<(PathBuf, PathBuf)>,
    /// The rule on plaintext.
    pub plaintext: PlaintextRule,
}

impl TlsConfig {
    /// Checks the raw settings; `from_anywhere`: plaintext is accepted from every machine.
    ///
    /// # Errors
    /// [`SettingsError::Value`].
    pub fn check<R: Args>(settings: &Settings<R>, raw: &RawTls, from_anywhere: bool) -> Result<Self, SettingsError> {
        let RawTls { advertise, tls_cert, tls_key, tls_proxy } = raw;
        let advertise: Option<Address> =
            advertise.as_ref().map(|text| settings.parsed("advertise", text)).transpose()?;
        if advertise.as_ref().is_some_and(|address| address.port == 0) {
            return Err(settings.wrong("advertise", "port 0 is not valid"));
        }
        let issued = match (tls_cert, tls_key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => return Err(settings.wrong("tls_cert", "its private key is missing: set tls_key")),
            (None, Some(_)) => return Err(settings.wrong("tls_key", "its certificate is missing: set tls_cert")),
        };
        Ok(Self { advertise, issued, plaintext: PlaintextRule { from_anywhere, from_proxy: tls_proxy.0 } })
    }

    /// Reads the certificate of an authority, if one is set.
    pub fn issued(&self) -> Result<Option<IssuedCertificate>, CertificateError> {
        self.issued.as_ref().map(|(certificate, key)| IssuedCertificate::load(certificate, key)).transpose()
    }

    /// The validator's certificates.
    pub fn server(&self, identity: &Identity) -> Result<ServerTls, CertificateError> {
        let tls = ServerTls::new(own(identity, identity.successors())?, self.issued()?);
        tls.map_err(|error| CertificateError::Own(error.to_string()))
    }

    /// Dial target of a miner, as one string. `listen` is the listening address.
    pub fn target(&self, listen: &Address, key: PublicKey) -> Target {
        let mut address = self.advertise.clone().unwrap_or_else(|| listen.clone());
        if address.is_unspecified() {
            address.host = nodename();
        }
        Target { address, key: Some(key), scheme: Scheme::Assay }
    }
}

/// Host name of this machine, which others may not resolve.
pub fn nodename() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Warns of the expiry of an authority's certificate, at the start and at intervals.
pub async fn warn_of_expiry(tls: ServerTls) {
    loop {
        if let Some(issued) = tls.issued() {
            warn_if_due(&issued);
        }
        tokio::time::sleep(WARNING_INTERVAL).await;
    }
}

/// Warns when a certificate expires soon, has expired, or is not valid yet.
pub fn warn_if_due(issued: &IssuedCertificate) {
    if let Some(warning) = warning(&issued.valid_unix_seconds, unix_seconds()) {
        tracing::warn!(names = issued.names.join(","), "{warning}");
    }
}

/// The warning of a certificate that expires soon, has expired, or is not valid yet.
pub fn warning(valid: &std::ops::RangeInclusive<u64>, now: u64) -> Option<String> {
    let [begin, end] = [valid.start(), valid.end()].map(|moment| utc::text(*moment));
    let (name, remedy) = ("the certificate in tls_cert", "renew it, then run `assay-validator reload`");
    match valid.end().checked_sub(now) {
        None => Some(format!("{name} expired on {end}, miners refuse it: {remedy}")),
        Some(_) if *valid.start() > now => Some(format!("{name} is valid from {begin}, miners refuse it until then")),
        Some(left) if left < WARNING_S => {
            Some(format!("{name} expires in {}, on {end}: {remedy}", counted(left / DAY_S, "day")))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_ends_soon_is_told_of_with_the_remedy() {
        let now = 1_767_225_599;
        assert_eq!(warning(&(now..=now + WARNING_S), now), None);
        let soon = warning(&(now..=now + WARNING_S - 1), now).unwrap();
        assert!(soon.contains("in 13 days") && soon.contains("assay-validator reload"), "{soon}");
        let over = warning(&(0..=now - 1), now).unwrap();
        assert!(over.contains("expired on 2025-12-31 23:59:58 UTC") && over.contains("renew"), "{over}");
        let later = warning(&(now + 1..=now + WARNING_S), now).unwrap();
        assert!(later.contains("is valid from 2026-01-01 00:00:00 UTC, miners refuse it until then"), "{later}");
    }

    #[test]
    fn what_miners_dial_is_the_advertised_address_or_the_one_listened_on() {
        let address = |text: &str| text.parse::<Address>().unwrap();
        let config = |advertise: Option<&str>| TlsConfig {
            advertise: advertise.map(address),
            issued: None,
            plaintext: PlaintextRule::default(),
        };
        let shown =
            |advertise, listen: &str| config(advertise).target(&address(listen), PublicKey([7; 32])).to_string();
        let key = "07".repeat(32);
        assert_eq!(shown(None, "10.0.0.1:7400"), format!("assay://10.0.0.1:7400#{key}"));
        assert_eq!(shown(Some("validator.example:1"), "[::]:7400"), format!("assay://validator.example:1#{key}"));
        let guessed = shown(None, "[::]:7400");
        assert!(!guessed.contains("[::]") && guessed.ends_with(&format!(":7400#{key}")), "{guessed}");
    }
}
