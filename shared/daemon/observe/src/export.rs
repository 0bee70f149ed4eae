//! The task that gives spans to the collector, in batches.

use std::time::{Duration, Instant};

use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::{mpsc, oneshot};

use crate::metrics::TraceCounts;
use crate::settings::TraceEndpoint;
use crate::span::ChallengeSpan;

/// How long the collector may take for a batch, attempts that are made again included.
pub const EXPORT_LIMIT: Duration = Duration::from_secs(5);
/// Spans that are sent at once.
const MAX_BATCH: usize = 512;
/// For how long a batch is waited for to fill.
const LINGER: Duration = Duration::from_secs(1);
/// The shortest interval between warnings of a collector that takes nothing.
const WARNING_INTERVAL: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub enum ExportMessage {
    /// A part of a challenge is over.
    Span(Box<ChallengeSpan>),
    /// Send the queued spans, then answer.
    Flush(oneshot::Sender<()>),
}

pub struct SpanExport {
    exporter: SpanExporter,
    endpoint: TraceEndpoint,
    counts: TraceCounts,
    /// The time of the last warning, and the count of spans lost since.
    told: Option<Instant>,
    lost: u64,
}

impl SpanExport {
    /// Gives spans to this collector.
    pub const fn new(exporter: SpanExporter, endpoint: TraceEndpoint, counts: TraceCounts) -> Self {
        Self { exporter, endpoint, counts, told: None, lost: 0 }
    }

    /// Runs until every sender of spans is gone.
    pub async fn run(mut self, mut queue: mpsc::Receiver<ExportMessage>) {
        while let Some(first) = queue.recv().await {
            let (spans, flushed) = gather(first, &mut queue).await;
            if !spans.is_empty() {
                self.send(spans).await;
            }
            if let Some(flushed) = flushed {
                // Who asked may not wait any more.
                let _ = flushed.send(());
            }
        }
    }

    async fn send(&mut self, spans: Vec<SpanData>) {
        let count = spans.len() as u64;
        let sent = tokio::time::timeout(EXPORT_LIMIT, self.exporter.export(spans)).await;
        match sent {
            Ok(Ok(())) => self.counts.exported.inc_by(count),
            Ok(Err(error)) => self.note_lost(count, &error.to_string()),
            Err(_) => self.note_lost(count, &format!("it does not answer within {EXPORT_LIMIT:?}")),
        }
    }

    fn note_lost(&mut self, spans: u64, why: &str) {
        self.counts.lost.inc_by(spans);
        self.lost += spans;
        if self.told.is_none_or(|told| told.elapsed() >= WARNING_INTERVAL) {
            let (endpoint, lost) = (&self.endpoint, std::mem::take(&mut self.lost));
            tracing::warn!(%endpoint, lost, "the collector of traces (otlp_endpoint) takes none: {why}");
            self.told = Some(Instant::now());
        }
    }
}

/// A batch that begins with this message: it ends when it is full, after a moment, or when a caller waits for it.
async fn gather(
    first: ExportMessage,
    queue: &mut mpsc::Receiver<ExportMessage>,
) -> (Vec<SpanData>, Option<oneshot::Sender<()>>) {
    let until = tokio::time::Instant::now() + LINGER;
    let (mut spans, mut next) = (Vec::new(), Some(first));
    loop {
        match next {
            Some(ExportMessage::Span(span)) => spans.push(SpanData::from(*span)),
            Some(ExportMessage::Flush(flushed)) => return (spans, Some(flushed)),
            None => return (spans, None),
        }
        if spans.len() >= MAX_BATCH {
            return (spans, None);
        }
        // Late or never is the end of the batch either way.
        next = tokio::time::timeout_at(until, queue.recv()).await.ok().flatten();
    }
}
