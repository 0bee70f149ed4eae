//! Metrics of requests over HTTP: by route, never by path.

use std::time::Instant;

use http::StatusCode;

use super::Families;

/// The route of a request that is not served.
const NO_ROUTE: &str = "none";

impl Families {
    /// A request was answered: on a route as it is written in the code, or on none.
    pub fn request(&self, route: Option<&str>, status: StatusCode, began: Instant) {
        let labels = [route.unwrap_or(NO_ROUTE), class(status)];
        self.http_request_seconds.with_label_values(&labels).observe(began.elapsed().as_secs_f64());
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_observe::page::text;
    use assay_observe::prometheus::Registry;

    #[test]
    fn what_a_client_invents_makes_no_series() {
        let registry = Registry::new();
        let families = Families::register(&registry).unwrap();
        for number in 400..500 {
            families.request(None, StatusCode::from_u16(number).unwrap(), Instant::now());
        }
        let text = text(&registry).unwrap();
        assert_eq!(text.matches("_http_request_seconds_count{").count(), 1, "{text}");
        assert!(text.contains(r#"_http_request_seconds_count{route="none",status="4xx"} 100"#), "{text}");
    }
}
