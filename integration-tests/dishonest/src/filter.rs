//! The filter between a dishonest miner's session and its stream, in both directions.

use assay_kits::naive;
use std::sync::Mutex;

use assay_protocol::identity::Identity;
use assay_protocol::message::{MinerMessage, OpenItem, OpeningsPart, ValidatorMessage};
use assay_work::probe::LINE_BYTES;
use assay_work::segment::{SegmentOpenings, chunk_of};
use assay_work::tree::CHUNK_BYTES;

use crate::lie::{SharedLies, lock};
use crate::linked::Forger;

/// Applies the lies to the messages of one session.
pub(super) struct Filter {
    lies: SharedLies,
    signer: Identity,
    forger: Mutex<Forger>,
    /// The items that the validator last asked to be opened.
    items: Mutex<Vec<OpenItem>>,
}

impl Filter {
    pub fn new(lies: SharedLies, signer: Identity) -> Self {
        Self { lies, signer, forger: Mutex::default(), items: Mutex::new(Vec::new()) }
    }

    pub fn incoming(&self, message: ValidatorMessage) -> ValidatorMessage {
        if let ValidatorMessage::Open { items, .. } = &message {
            lock(&self.items).clone_from(items);
        }
        lock(&self.forger).incoming(&message);
        match &mut *lock(&self.lies.incoming) {
            Some(rewrite) => rewrite(message),
            None => message,
        }
    }

    pub fn outgoing(&self, mut message: MinerMessage) -> Vec<MinerMessage> {
        if let MinerMessage::OpeningsChunk(chunk) = &mut message
            && let OpeningsPart::Segment(segment) = &mut chunk.part
        {
            self.put_in_false_state(chunk.item, segment);
        }
        let lie = *lock(&self.lies.linked);
        let messages = match lie {
            Some(lie) => lock(&self.forger).outgoing(lie, &self.lies, &self.signer, message),
            None => vec![message],
        };
        match &mut *lock(&self.lies.outgoing) {
            Some(rewrite) => messages.into_iter().flat_map(rewrite).collect(),
            None => messages,
        }
    }

    /// Whether the miner closes its half of the stream behind this message.
    pub fn is_last(&self, message: &MinerMessage) -> bool {
        let MinerMessage::OpeningsChunk(chunk) = message else { return false };
        let items = lock(&self.items).len();
        *lock(&self.lies.half_closes) && chunk.part == OpeningsPart::End && chunk.item as usize + 1 == items
    }

    /// Opens the state that was answered, where that was a lie: it leads to the digest answered.
    fn put_in_false_state(&self, item: u32, segment: &mut SegmentOpenings) {
        if *lock(&self.lies.opens_true_states) {
            return;
        }
        let device_id = lock(&self.items).get(item as usize).map(|item| item.device_id);
        let out = device_id.and_then(|id| self.lies.board.out(id, segment.round));
        if let Some(out) = out {
            let state_byte = u64::from(segment.walk) * LINE_BYTES as u64;
            segment.state = naive::open(&out, chunk_of(state_byte), CHUNK_BYTES);
        }
    }
}
