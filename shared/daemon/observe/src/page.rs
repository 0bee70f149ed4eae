//! The page that Prometheus reads.

use prometheus::{Registry, TextEncoder};

use crate::metrics::MetricsError;

/// The media type of [`text`].
pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Everything in the registry and, on Linux, of the process, as Prometheus reads it.
///
/// # Errors
/// [`MetricsError`]: a collector gave metrics of one name with different types.
pub fn text(registry: &Registry) -> Result<String, MetricsError> {
    let families = registry.gather();
    #[cfg(target_os = "linux")]
    let families = [families, crate::process::gather()?].concat();
    Ok(TextEncoder::new().encode_to_string(&families)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_page_has_the_process() {
        let text = text(&Registry::new()).unwrap();
        for family in crate::process::ProcessFamilies::ALL {
            assert!(text.contains(&format!("\n{} ", family.name)), "{family:?} in {text}");
        }
    }
}
