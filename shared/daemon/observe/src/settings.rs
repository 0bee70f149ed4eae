//! Where spans go, as an operator writes it.

use assay_program::settings::{Settings, SettingsError};
/// The address of a collector: http or https, a host, and a port where it is not the scheme's.
pub use assay_transport::http::Url as TraceEndpoint;
use clap::Args;

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
    let endpoint = |text: &String| read(text).map_err(|why| settings.wrong("otlp_endpoint", why));
    raw.otlp_endpoint.as_ref().map(endpoint).transpose()
}

fn read(text: &str) -> Result<TraceEndpoint, String> {
    let endpoint = TraceEndpoint::without_path(text).map_err(|error| error.to_string())?;
    if endpoint.key.is_some() { Err("a key behind # is not supported".to_owned()) } else { Ok(endpoint) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_scheme_a_host_and_a_port() {
        let parsed = |text: &str| read(text).map(|endpoint| endpoint.to_string());
        assert_eq!(parsed("http://localhost:4317/").as_deref(), Ok("http://localhost:4317"));
        let keyed = format!("https://host:4317#{}", "a5".repeat(32));
        for text in ["localhost:4317", "grpc://host:4317", "http://host:4317/v1/traces", "http://user@host:1", &keyed] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
