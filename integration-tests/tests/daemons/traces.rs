//! Traces of a challenge: a collector gets spans of both daemons, and a collector that is away disturbs nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use assay_integration_tests::authority::Authority;
use assay_integration_tests::daemon::PATIENCE;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::scrape::Scrape;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::Mode;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

/// A collector: keeps every span with the service that it is of.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<(String, Span)>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
            let service = attributes.into_iter().find(|attribute| attribute.key == "service.name");
            let service = service.map(|service| text(service.value.and_then(|value| value.value))).unwrap_or_default();
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().extend(spans.map(|span| (service.clone(), span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn text(value: Option<Attribute>) -> String {
    match value {
        Some(Attribute::StringValue(text)) => text,
        Some(Attribute::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

impl Collector {
    /// Serves on a port that the system chooses, with TLS where there is an identity.
    async fn serve(&self, identity: Option<Identity>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = Server::builder();
        if let Some(identity) = identity {
            server = server.tls_config(ServerTlsConfig::new().identity(identity)).unwrap();
        }
        let served = server.add_service(TraceServiceServer::new(self.clone()));
        tokio::spawn(served.serve_with_incoming(TcpListenerStream::new(listener)));
        address
    }

    /// Waits until there are spans of these names and services, and gives all that came.
    async fn wait_for(&self, wanted: &[(&str, &str)]) -> Vec<(String, Span)> {
        let until = Instant::now() + PATIENCE;
        loop {
            let spans = self.0.lock().unwrap().clone();
            let has =
                |(service, name): &(&str, &str)| spans.iter().any(|(of, span)| of == service && span.name == *name);
            if wanted.iter().all(has) {
                return spans;
            }
            let came: Vec<_> = spans.iter().map(|(service, span)| (service, &span.name)).collect();
            assert!(Instant::now() < until, "not all spans come: {came:?}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

/// Both daemons, which give their traces to a collector.
async fn pair(endpoint: &str, environment: Vec<(String, OsString)>) -> (TestValidator, TestMiner) {
    let flag = format!("--otlp-endpoint={endpoint}");
    let policy = Policy { flags: vec![flag.clone()], environment: environment.clone(), ..Policy::default() };
    let validator = TestValidator::start(&policy).await;
    let miner = TestMiner::start_in(validator.address, 2, &[&flag, "--metrics-listen=0"], environment);
    validator.wait_for_miner(miner.key, true).await;
    (validator, miner)
}

const VALIDATOR: &str = "assay-validator";
const MINER: &str = "assay-miner";
/// A span, by its daemon and its name.
type Name = (&'static str, &'static str);
/// Every span of an audit, with the one that it belongs to.
const SPANS: [(Name, Option<Name>); 9] = [
    ((VALIDATOR, "challenge"), None),
    ((VALIDATOR, "work"), Some((VALIDATOR, "challenge"))),
    ((VALIDATOR, "probe"), Some((VALIDATOR, "challenge"))),
    ((VALIDATOR, "openings"), Some((VALIDATOR, "challenge"))),
    ((VALIDATOR, "check"), Some((VALIDATOR, "openings"))),
    ((VALIDATOR, "record"), Some((VALIDATOR, "challenge"))),
    ((MINER, "fill"), Some((VALIDATOR, "work"))),
    ((MINER, "probe"), Some((VALIDATOR, "probe"))),
    ((MINER, "open"), Some((VALIDATOR, "openings"))),
];

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_has_a_challenge_of_both_daemons() {
    let collector = Collector::default();
    let address = collector.serve(None).await;
    let (mut validator, mut miner) = pair(&format!("http://{address}"), Vec::new()).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    // The trace is in both logs under the same name, and it is the challenge.
    let lines = [validator.daemon.wait_for("challenge started"), miner.daemon.wait_for("working")];
    let trace = lines[0]["trace_id"].as_str().unwrap_or_else(|| panic!("{}", lines[0])).to_owned();
    assert!(lines.iter().all(|line| line["trace_id"] == trace && line["challenge"] == trace), "{lines:?}");
    assert_eq!(validator.daemon.wait_for("tops")["trace_id"], trace);
    assert_eq!(miner.daemon.wait_for("verdict: pass")["trace_id"], trace);

    let spans = collector.wait_for(&SPANS.map(|(span, _)| span)).await;
    assert!(spans.iter().all(|(_, span)| hex::encode(&span.trace_id) == trace), "one trace: {spans:#?}");
    // Those of devices have an attribute that says which.
    let device = |span: &Span| span.attributes.iter().find(|attribute| attribute.key == "assay.device").cloned();
    let whole: BTreeMap<_, _> = spans
        .iter()
        .filter(|(_, span)| device(span).is_none())
        .map(|(service, span)| ((service.as_str(), span.name.as_str()), span))
        .collect();
    assert_eq!(whole.len(), SPANS.len(), "{:?}", whole.keys());
    for (name, parent) in SPANS {
        let expected = parent.map_or_else(Vec::new, |parent| whole[&parent].span_id.clone());
        assert_eq!(whole[&name].parent_span_id, expected, "{name:?}");
        assert!(whole[&name].start_time_unix_nano <= whole[&name].end_time_unix_nano, "{name:?}");
    }
    let root = whole[&(VALIDATOR, "challenge")];
    assert_eq!(root.status.as_ref().unwrap().code(), StatusCode::Ok);
    let attribute = |name: &str| {
        let found = root.attributes.iter().find(|attribute| attribute.key == name);
        text(found.and_then(|attribute| attribute.value.clone()).and_then(|value| value.value))
    };
    assert_eq!((attribute("assay.outcome"), attribute("assay.mode")), ("pass".into(), "audit".into()));
    assert_eq!((attribute("assay.miner"), attribute("assay.devices")), (miner.key.to_string(), "2".into()));
    // One of each device in the work and the probe, below the miner's own.
    for part in ["fill", "probe"] {
        let own = &whole[&(MINER, part)].span_id;
        let of_devices = spans.iter().filter(|(_, span)| span.name == part && device(span).is_some());
        let parents: Vec<_> = of_devices.map(|(_, span)| &span.parent_span_id).collect();
        assert_eq!(parents, [own, own], "{part}");
    }
    let ids: std::collections::BTreeSet<_> = spans.iter().map(|(_, span)| &span.span_id).collect();
    assert_eq!(ids.len(), spans.len(), "no id comes twice");
}

/// Spans left in the queue go to the collector when the daemons end.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_spans_are_sent_at_the_end_and_authorities_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let file = authority.file(folder.path());
    let certificate = authority.issue(folder.path(), &["localhost"], 2099);
    let read = |path| std::fs::read(path).unwrap();
    let identity = || Identity::from_pem(read(&certificate.certificate), read(&certificate.key));
    let collector = Collector::default();
    let address = collector.serve(Some(identity())).await;
    let endpoint = format!("https://localhost:{}", address.port());
    let trusted = vec![("SSL_CERT_FILE".to_owned(), file.into_os_string())];
    let (mut validator, mut miner) = pair(&endpoint, trusted).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    miner.daemon.terminate();
    assert!(miner.daemon.wait().success());
    validator.daemon.terminate();
    assert!(validator.daemon.wait().success());
    let spans = collector.0.lock().unwrap().len();
    // Four of devices beside those of the list.
    assert_eq!(spans, SPANS.len() + 4);
    // A server without a certificate of the authority gets nothing.
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Authority::new().file(elsewhere.path());
    let (validator, miner) = pair(&endpoint, vec![("SSL_CERT_FILE".to_owned(), other.into_os_string())]).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    let lost = |page: &Scrape| page.value("assay_validator_trace_spans_total{outcome=\"lost\"}") > 0.0;
    drop(Scrape::until(|| Scrape::of_validator(&validator.socket), lost));
    assert_eq!(collector.0.lock().unwrap().len(), spans);
}

/// A collector that refuses, and one that takes the connection and never answers: challenges pass, the daemons end, and
/// lost spans are counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_or_hangs_disturbs_nothing() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let hangs = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for (address, is_away) in [(gone, true), (hangs.local_addr().unwrap(), false)] {
        let (mut validator, mut miner) = pair(&format!("http://{address}"), Vec::new()).await;
        let metrics = miner.daemon.wait_for("metrics are served")["address"].as_str().unwrap().parse().unwrap();
        for _ in 0..3 {
            validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
        }
        if is_away {
            let lost = |page: &Scrape| page.value("assay_validator_trace_spans_total{outcome=\"lost\"}") >= 6.0;
            let page = Scrape::until(|| Scrape::of_validator(&validator.socket), lost);
            assert_eq!(page.value("assay_validator_trace_spans_total{outcome=\"exported\"}"), 0.0);
            let lost = |page: &Scrape| page.value("assay_miner_trace_spans_total{outcome=\"lost\"}") >= 3.0;
            drop(Scrape::until(|| Scrape::of_miner(metrics), lost));
            validator.daemon.wait_for("the collector of traces (otlp_endpoint) takes none");
        }
        miner.daemon.terminate();
        assert!(miner.daemon.wait().success());
        validator.daemon.terminate();
        assert!(validator.daemon.wait().success());
    }
}

#[test]
fn an_endpoint_that_is_none_is_a_mistake_in_the_settings() {
    for program in ["assay-validator", "assay-miner"] {
        let output =
            assay_integration_tests::daemon::run(program, ["config", "check", "--otlp-endpoint=localhost:4317"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("otlp_endpoint"), "{program}: {said}");
    }
}
