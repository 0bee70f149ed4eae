//! What is counted of requests over HTTP: by route, never by path.

use std::time::Instant;

use assay_observe::metrics::{MetricsError, add};
use assay_observe::prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use http::{Method, StatusCode};

use super::named;

/// Upper bounds of a request's time: a page has 200 ms.
const SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 1.0, 10.0];
/// The route of what is not served.
const NO_ROUTE: &str = "none";

/// What is counted of requests.
pub struct HttpMetrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
}

impl HttpMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, MetricsError> {
        let requests = Opts::new(named("http_requests_total"), "Requests over HTTP.");
        let seconds = HistogramOpts::new(named("http_request_seconds"), "Time until the head of an answer over HTTP.");
        let labels = ["route", "method", "status"];
        Ok(Self {
            requests: add(registry, IntCounterVec::new(requests, &labels))?,
            seconds: add(registry, HistogramVec::new(seconds.buckets(SECONDS.to_vec()), &labels[..1]))?,
        })
    }

    /// A request was answered: on a route as it is written in the code, or on none.
    pub fn note(&self, route: Option<&str>, method: &Method, status: StatusCode, began: Instant) {
        let route = route.unwrap_or(NO_ROUTE);
        self.requests.with_label_values(&[route, method_name(method), class(status)]).inc();
        self.seconds.with_label_values(&[route]).observe(began.elapsed().as_secs_f64());
    }
}

/// A method, of which a client may invent any.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
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
    use assay_observe::metrics::text;

    #[test]
    fn what_a_client_invents_makes_no_series() {
        let registry = Registry::new();
        let http = HttpMetrics::new(&registry).unwrap();
        for number in 0..100 {
            let method = Method::from_bytes(format!("M{number}").as_bytes()).unwrap();
            http.note(None, &method, StatusCode::from_u16(400 + number).unwrap(), Instant::now());
        }
        let text = text(&registry).unwrap();
        let series = text.lines().filter(|line| line.starts_with("assay_validator_http_requests_total{")).count();
        assert_eq!(series, 1, "{text}");
        assert!(text.contains(r#"{method="other",route="none",status="4xx"} 100"#), "{text}");
    }
}
