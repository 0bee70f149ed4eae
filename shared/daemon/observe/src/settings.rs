//! Where spans go, as an operator writes it.

use std::fmt;
use std::str::FromStr;

use assay_program::settings::{Settings, SettingsError};
use clap::Args;
use http::Uri;
use http::uri::Scheme;

/// Settings of traces, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Traces")]
pub struct RawTraces {
    /// Collector of OpenTelemetry that gets the spans of each challenge by OTLP over gRPC, such as http://127.0.0.1:4317;
    /// https is checked against the system's authorities. Off unless given
    #[arg(long, value_name = "URL")]
    pub otlp_endpoint: Option<String>,
}

/// Where spans go; `None`: nowhere.
///
/// # Errors
/// [`SettingsError::Value`] for a text that is not the address of a collector.
pub fn check<R: Args>(settings: &Settings<R>, raw: &RawTraces) -> Result<Option<TraceEndpoint>, SettingsError> {
    raw.otlp_endpoint.as_ref().map(|text| settings.parsed("otlp_endpoint", text)).transpose()
}

/// The address of a collector: http or https, a host, and a port where it is not the scheme's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEndpoint(String);

/// A text is not the address of a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TraceEndpointError {
    /// Not a URL with a scheme that is spoken.
    #[error("expected http://host:port or https://host:port")]
    Scheme,
    /// No host.
    #[error("expected http://host:port, with a host")]
    Host,
    /// A path, a query, or a user before the host.
    #[error(
        "expected http://host:port, with nothing after the port and no user before the host: gRPC has its own paths"
    )]
    Extra,
}

impl TraceEndpoint {
    /// Whether the collector is to prove its name by a certificate.
    pub fn is_tls(&self) -> bool {
        self.0.starts_with("https:")
    }

    pub fn url(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TraceEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for TraceEndpoint {
    type Err = TraceEndpointError;

    fn from_str(text: &str) -> Result<Self, TraceEndpointError> {
        let url = text.parse::<Uri>().map_err(|_| TraceEndpointError::Scheme)?;
        if !url.scheme().is_some_and(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS) {
            return Err(TraceEndpointError::Scheme);
        }
        let authority = url.authority().ok_or(TraceEndpointError::Host)?;
        if authority.host().is_empty() {
            return Err(TraceEndpointError::Host);
        }
        if authority.as_str().contains('@') || !matches!(url.path(), "" | "/") || url.query().is_some() {
            return Err(TraceEndpointError::Extra);
        }
        Ok(Self(format!("{}://{authority}", url.scheme_str().unwrap_or_default())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_scheme_a_host_and_a_port() {
        let parsed = |text: &str| text.parse::<TraceEndpoint>().map(|endpoint| endpoint.to_string());
        for text in ["http://127.0.0.1:4317", "https://collector.example", "http://[::1]:4317"] {
            assert_eq!(parsed(text), Ok(text.to_owned()));
        }
        assert_eq!(parsed("http://localhost:4317/"), Ok("http://localhost:4317".to_owned()));
        for text in ["", "localhost:4317", "127.0.0.1:4317", "grpc://host:4317", "unix:///socket"] {
            assert_eq!(parsed(text), Err(TraceEndpointError::Scheme), "{text}");
        }
        for text in ["http://host:4317/v1/traces", "http://host/?a=b", "http://user:word@host:4317"] {
            assert_eq!(parsed(text), Err(TraceEndpointError::Extra), "{text}");
        }
    }
}
