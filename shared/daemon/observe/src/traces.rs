//! Traces of challenges, on their way to a collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assay_work::ChallengeId;
use opentelemetry::KeyValue;
use opentelemetry::trace::TraceId;
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use prometheus::{IntCounter, IntCounterVec};
use tokio::sync::{mpsc, oneshot};
use tracing::field::{DisplayValue, display};

use crate::export::{EXPORT_LIMIT, ExportMessage, SpanExport};
use crate::metrics::TraceCounts;
use crate::settings::TraceEndpoint;
use crate::span::ChallengeSpan;

/// Spans that wait for the collector: those of a busy validator for some seconds.
const MAX_SPANS: usize = 4096;

/// Whether this process has traces. The log names them then, and there is one log.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The trace of a challenge, as a field of a log line: where there are traces. It is the challenge's id.
pub fn trace_id(challenge: ChallengeId) -> Option<DisplayValue<ChallengeId>> {
    IS_ON.load(Ordering::Relaxed).then(|| display(challenge))
}

/// Why there are no traces.
#[derive(Debug, thiserror::Error)]
#[error("otlp_endpoint: {0}")]
pub struct TracesError(String);

/// Where spans are handed in. Clones hand them in at the same place.
#[derive(Debug, Clone, Default)]
pub struct Traces(Option<Arc<TraceQueue>>);

#[derive(Debug)]
struct TraceQueue {
    messages: mpsc::Sender<ExportMessage>,
    lost: IntCounter,
}

impl Traces {
    /// No traces.
    pub const fn off() -> Self {
        Self(None)
    }

    /// Traces of a service to a collector, which is dialled when there is something for it; their spans are counted in a
    /// family by `outcome`. Called in a runtime.
    ///
    /// # Errors
    /// [`TracesError`]: the collector could never be dialled.
    pub fn start(
        endpoint: &TraceEndpoint,
        service: &'static str,
        version: &'static str,
        instance: String,
        spans: &IntCounterVec,
    ) -> Result<Self, TracesError> {
        let mut exporter =
            SpanExporter::builder().with_tonic().with_endpoint(endpoint.to_string()).with_timeout(EXPORT_LIMIT);
        if endpoint.is_tls {
            exporter = exporter.with_tls_config(ClientTlsConfig::new().with_enabled_roots());
        }
        let mut exporter = exporter.build().map_err(|error| TracesError(error.to_string()))?;
        let about = [KeyValue::new("service.version", version), KeyValue::new("service.instance.id", instance)];
        exporter.set_resource(&Resource::builder().with_service_name(service).with_attributes(about).build());
        let (messages, queue) = mpsc::channel(MAX_SPANS);
        let counts = TraceCounts::of(spans);
        let lost = counts.lost.clone();
        tokio::spawn(SpanExport::new(exporter, endpoint.clone(), counts).run(queue));
        IS_ON.store(true, Ordering::Relaxed);
        Ok(Self(Some(Arc::new(TraceQueue { messages, lost }))))
    }

    /// Hands a span in, where there are traces: only then it is made.
    pub fn add(&self, span: impl FnOnce() -> ChallengeSpan) {
        let Some(queue) = &self.0 else { return };
        let span = span();
        // The id of zeros, which a peer may choose, is not the id of a trace.
        if span.trace() == TraceId::INVALID || queue.messages.try_send(ExportMessage::Span(Box::new(span))).is_err() {
            queue.lost.inc();
        }
    }

    /// Waits until the collector has the spans that were handed in, but no longer than `limit`.
    pub async fn finish(&self, limit: Duration) {
        let Some(queue) = &self.0 else { return };
        let (done, is_done) = oneshot::channel();
        let flush = async {
            if queue.messages.send(ExportMessage::Flush(done)).await.is_ok() {
                // Dropped, nothing more is sent either.
                let _ = is_done.await;
            }
        };
        // Spans left in the queue are lost with the process.
        let _ = tokio::time::timeout(limit, flush).await;
    }
}
