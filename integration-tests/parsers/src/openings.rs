//! Openings, as a validator checks them against its challenge while they arrive.

use std::sync::{Arc, LazyLock};

use assay_judge::verify::check::Collector;
use assay_protocol::message::{MinerMessage, OpeningsChunk};
use assay_protocol::wire::stored::{miner_bytes, miner_message};
use assay_work::Precision;

use crate::edits;
use crate::honest::Opened;

/// Honest openings of each kind of work.
static OPENED: [LazyLock<Opened>; Precision::ALL.len()] = [
    LazyLock::new(|| Opened::new(Precision::ALL[0])),
    LazyLock::new(|| Opened::new(Precision::ALL[1])),
    LazyLock::new(|| Opened::new(Precision::ALL[2])),
    LazyLock::new(|| Opened::new(Precision::ALL[3])),
    LazyLock::new(|| Opened::new(Precision::ALL[4])),
    LazyLock::new(|| Opened::new(Precision::ALL[5])),
];

/// The honest openings that the first byte of an input selects, and the rest.
fn opened(data: &[u8]) -> Option<(&'static Opened, &[u8])> {
    let (kind, rest) = data.split_first()?;
    Some((OPENED.get(usize::from(*kind))?, rest))
}

/// Chunks of a miner: only those of the honest one are accepted to the end.
fn check(opened: &Opened, chunks: &[OpeningsChunk]) {
    let mut collector = Collector::new(opened.binding.clone(), opened.items.clone());
    let mut due = collector.chunks_due();
    for chunk in chunks {
        let Ok(job) = collector.take(Arc::new(chunk.clone())) else { return };
        if job.is_some_and(|job| job.run().is_err()) {
            return;
        }
        assert!(collector.chunks_due() <= due, "more chunks are due than before");
        due = collector.chunks_due();
    }
    if collector.is_complete() {
        assert!(is_honest(opened, chunks), "openings were accepted that are not the honest miner's");
    }
}

/// Whether the chunks hold what the honest ones do; digests may come in several, and parents may be left out.
fn is_honest(opened: &Opened, chunks: &[OpeningsChunk]) -> bool {
    use assay_protocol::message::OpeningsPart::{Sample, SlotDigests};
    let mut merged: Vec<OpeningsChunk> = Vec::new();
    for chunk in chunks {
        match (merged.last_mut().map(|last| &mut last.part), &chunk.part) {
            (Some(SlotDigests(list)), SlotDigests(more)) => list.extend(more),
            _ => merged.push(chunk.clone()),
        }
    }
    merged.len() == opened.chunks.len()
        && merged.into_iter().zip(&opened.chunks).all(|(mut chunk, honest)| {
            if let (Sample(sample), Sample(honest)) = (&mut chunk.part, &honest.part) {
                sample.parents = sample.parents.or(honest.parents);
            }
            (chunk.item, chunk.part) == (honest.item, honest.part.clone())
        })
}

/// A miner's messages after a byte that names the kind of work, each behind two bytes of its length.
pub fn stream(data: &[u8]) {
    let Some((opened, mut rest)) = opened(data) else { return };
    let mut chunks = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let Some((bytes, after)) = after.split_at_checked(u16::from_le_bytes(*length).into()) else { break };
        let Ok(MinerMessage::OpeningsChunk(chunk)) = miner_message(bytes) else { break };
        (chunks, rest) = ([chunks, vec![chunk]].concat(), after);
    }
    check(opened, &chunks);
}

/// The honest miner's messages, after edits of their bytes and of their order.
pub fn edited(data: &[u8]) {
    let Some((opened, rest)) = opened(data) else { return };
    let bytes = |chunk: &OpeningsChunk| miner_bytes(MinerMessage::OpeningsChunk(chunk.clone()));
    let mut messages: Vec<_> = opened.chunks.iter().map(bytes).collect();
    edits::apply(&mut messages, rest);
    let chunk = |bytes: &Vec<u8>| match miner_message(bytes) {
        Ok(MinerMessage::OpeningsChunk(chunk)) => Some(chunk),
        _ => None,
    };
    let chunks: Vec<_> = messages.iter().map_while(chunk).collect();
    check(opened, &chunks);
}
