//! Spans of a challenge. Trace and span ids follow from the challenge's id, so that those of both daemons hang together
//! without a word between them.

use std::time::{Instant, SystemTime};

use assay_work::ChallengeId;
use assay_work::text::printable;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

/// The context of the derivation of span ids.
const ID_CONTEXT: &str = "assay 2026 span of a challenge";
/// The scope that all spans are of.
const SCOPE: &str = "assay";
/// Attributes of a span: more are left out.
const MAX_ATTRIBUTES: usize = 24;
/// Bytes of a text in a span: more is cut.
const MAX_TEXT_BYTES: usize = 256;

/// Which part of a challenge a span is of.
#[derive(Debug, PartialEq, Eq)]
pub struct SpanPhase {
    /// The daemon whose part it is.
    side: &'static str,
    name: &'static str,
    /// The part that it belongs to.
    parent: Option<&'static Self>,
}

/// The parts of a challenge that have spans.
pub mod places {
    use super::SpanPhase;

    const VALIDATOR: &str = "validator";
    const MINER: &str = "miner";

    /// From the offer until the verdict is given out.
    pub static CHALLENGE: SpanPhase = SpanPhase { side: VALIDATOR, name: "challenge", parent: None };
    /// From the offer to the commitment.
    pub static WORK: SpanPhase = SpanPhase { side: VALIDATOR, name: "work", parent: Some(&CHALLENGE) };
    /// The probe waits for the other members of the round.
    pub static HELD: SpanPhase = SpanPhase { side: VALIDATOR, name: "held", parent: Some(&CHALLENGE) };
    /// From the probe to its answer.
    pub static PROBE: SpanPhase = SpanPhase { side: VALIDATOR, name: "probe", parent: Some(&CHALLENGE) };
    /// From the linked probe to its answer.
    pub static LINKED_PROBE: SpanPhase = SpanPhase { side: VALIDATOR, name: "linked probe", parent: Some(&CHALLENGE) };
    /// From the sweep to its answer.
    pub static SWEEP: SpanPhase = SpanPhase { side: VALIDATOR, name: "sweep", parent: Some(&CHALLENGE) };
    /// From the request for openings to the last that was checked.
    pub static OPENINGS: SpanPhase = SpanPhase { side: VALIDATOR, name: "openings", parent: Some(&CHALLENGE) };
    /// From the first check of an opening to the end of the last.
    pub static CHECK: SpanPhase = SpanPhase { side: VALIDATOR, name: "check", parent: Some(&OPENINGS) };
    /// The work computed again.
    pub static REPLAY: SpanPhase = SpanPhase { side: VALIDATOR, name: "replay", parent: Some(&CHALLENGE) };
    /// The verdict held against the fleet, and written.
    pub static RECORD: SpanPhase = SpanPhase { side: VALIDATOR, name: "record", parent: Some(&CHALLENGE) };
    /// The miner's memory filled, and committed to.
    pub static FILL: SpanPhase = SpanPhase { side: MINER, name: "fill", parent: Some(&WORK) };
    /// The miner's walks.
    pub static WALK: SpanPhase = SpanPhase { side: MINER, name: "probe", parent: Some(&PROBE) };
    /// The miner's walks of a linked probe.
    pub static LINKED_WALK: SpanPhase = SpanPhase { side: MINER, name: "linked probe", parent: Some(&LINKED_PROBE) };
    /// The miner's sums of a sweep.
    pub static SUM: SpanPhase = SpanPhase { side: MINER, name: "sweep", parent: Some(&SWEEP) };
    /// The miner's openings.
    pub static OPEN: SpanPhase = SpanPhase { side: MINER, name: "open", parent: Some(&OPENINGS) };
}

impl SpanPhase {
    fn span_id(&self, challenge: ChallengeId, device: Option<u32>) -> SpanId {
        let mut hasher = blake3::Hasher::new_derive_key(ID_CONTEXT);
        hasher.update(&challenge.0).update(self.side.as_bytes()).update(b"/").update(self.name.as_bytes());
        if let Some(device) = device {
            hasher.update(b"/").update(&device.to_le_bytes());
        }
        let mut id = [0; 8];
        hasher.finalize_xof().fill(&mut id);
        SpanId::from_bytes(id)
    }
}

/// A part of a challenge that is over.
#[derive(Debug, Clone)]
pub struct ChallengeSpan {
    challenge: ChallengeId,
    place: &'static SpanPhase,
    device: Option<u32>,
    began: SystemTime,
    ended: SystemTime,
    attributes: Vec<KeyValue>,
    status: Status,
}

impl ChallengeSpan {
    /// A span from `began` to `ended`, both in the past.
    pub fn new(challenge: ChallengeId, place: &'static SpanPhase, began: Instant, ended: Instant) -> Self {
        let (now, at) = (Instant::now(), SystemTime::now());
        let clock = |instant: Instant| at.checked_sub(now.saturating_duration_since(instant)).unwrap_or(at);
        let (began, ended) = (clock(began), clock(ended));
        Self { challenge, place, device: None, began, ended, attributes: Vec::new(), status: Status::Unset }
    }

    /// The part of one device, by its index.
    pub fn of_device(mut self, index: u32) -> Self {
        self.device = Some(index);
        self.with("assay.device", i64::from(index))
    }

    /// With an attribute. A text is cut, and one too many is left out.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        if self.attributes.len() < MAX_ATTRIBUTES {
            self.attributes.push(KeyValue::new(name, bounded(value.into())));
        }
        self
    }

    /// Marks the span as successful.
    pub fn ok(mut self) -> Self {
        self.status = Status::Ok;
        self
    }

    /// It failed, for this reason.
    pub fn failed(mut self, why: &str) -> Self {
        self.status = Status::Error { description: printable(why, MAX_TEXT_BYTES).into() };
        self
    }

    /// The trace that it belongs to.
    pub(crate) fn trace(&self) -> TraceId {
        TraceId::from_bytes(self.challenge.0)
    }

    fn parent(&self) -> Option<&'static SpanPhase> {
        if self.device.is_some() { Some(self.place) } else { self.place.parent }
    }
}

impl From<ChallengeSpan> for SpanData {
    fn from(span: ChallengeSpan) -> Self {
        let (trace, id) = (span.trace(), span.place.span_id(span.challenge, span.device));
        let parent = span.parent();
        let ChallengeSpan { challenge, place, began, ended, attributes, status, .. } = span;
        Self {
            span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::default()),
            parent_span_id: parent.map_or(SpanId::INVALID, |parent| parent.span_id(challenge, None)),
            parent_span_is_remote: parent.is_some_and(|parent| parent.side != place.side),
            span_kind: SpanKind::Internal,
            name: place.name.into(),
            start_time: began,
            end_time: ended,
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status,
            instrumentation_scope: InstrumentationScope::builder(SCOPE).build(),
        }
    }
}

/// A text may be of a peer.
fn bounded(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(printable(text.as_str(), MAX_TEXT_BYTES).into()),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use super::places::{CHALLENGE, CHECK, FILL, LINKED_PROBE, LINKED_WALK, OPEN, OPENINGS, PROBE, RECORD, WALK, WORK};
    use super::*;

    const CHALLENGE_ID: ChallengeId = ChallengeId([7; 16]);

    fn data(place: &'static SpanPhase, device: Option<u32>) -> SpanData {
        let now = Instant::now();
        let span = ChallengeSpan::new(CHALLENGE_ID, place, now, now);
        device.map_or(span.clone(), |device| span.of_device(device)).into()
    }

    #[test]
    fn spans_of_both_daemons_hang_together() {
        let root = data(&CHALLENGE, None);
        assert_eq!(root.span_context.trace_id().to_bytes(), CHALLENGE_ID.0);
        assert_eq!((root.parent_span_id, root.parent_span_is_remote), (SpanId::INVALID, false));
        for (child, parent, is_remote) in [
            (&WORK, &CHALLENGE, false),
            (&RECORD, &CHALLENGE, false),
            (&CHECK, &OPENINGS, false),
            (&FILL, &WORK, true),
            (&WALK, &PROBE, true),
            (&LINKED_WALK, &LINKED_PROBE, true),
            (&OPEN, &OPENINGS, true),
        ] {
            let (child, parent) = (data(child, None), data(parent, None));
            assert_eq!(child.parent_span_id, parent.span_context.span_id());
            assert_eq!(child.parent_span_is_remote, is_remote);
        }
        let of_device = data(&FILL, Some(3));
        assert_eq!(of_device.parent_span_id, data(&FILL, None).span_context.span_id());
        assert!(!of_device.parent_span_is_remote);
    }

    #[test]
    fn no_two_parts_have_one_id() {
        let ids: std::collections::BTreeSet<_> = [data(&PROBE, None), data(&WALK, None), data(&WALK, Some(0))]
            .into_iter()
            .chain([data(&WALK, Some(1)), data(&OPEN, Some(1))])
            .chain([data(&LINKED_PROBE, None), data(&LINKED_WALK, None), data(&LINKED_WALK, Some(0))])
            .map(|data| data.span_context.span_id().to_bytes())
            .collect();
        assert_eq!(ids.len(), 8);
    }

    #[test]
    fn what_a_span_carries_is_bounded() {
        let now = Instant::now();
        let long = "é".repeat(1000);
        let mut span = ChallengeSpan::new(CHALLENGE_ID, &WORK, now, now).failed(&long);
        for _ in 0..100 {
            span = span.with("text", long.clone());
        }
        let data = SpanData::from(span);
        assert_eq!(data.attributes.len(), MAX_ATTRIBUTES);
        assert!(data.attributes.iter().all(|kept| kept.value.as_str().len() <= MAX_TEXT_BYTES));
        let Status::Error { description } = data.status else { panic!("it failed") };
        assert!(description.len() <= MAX_TEXT_BYTES && description.starts_with('é'));
    }
}
