//! A linked probe that is forged: the engine's answers and openings are replaced by those of a lie. The lines opened
//! are the true ones, along the walk that the validator derives from the forged digests.

use assay_kits::naive;
use std::collections::BTreeMap;

use assay_protocol::identity::Identity;
use assay_protocol::message::{MinerMessage, OpenItem, OpenTarget, OpeningsPart, SignedChecksum, ValidatorMessage};
use assay_work::digest::slot_digest;
use assay_work::probe::{
    Answer, LINE_BYTES, Link, LinkedSlots, Probe, link_digest, linked_probe_key, linked_round_key, position,
    probe_message, start_state, state_bytes, step,
};
use assay_work::segment::{Segment, SegmentOpenings, chunk_of};
use assay_work::tree::CHUNK_BYTES;
use assay_work::{Challenge, Checksum, DeviceId, Digest, ProbeKey, Root, RoundKey};

use crate::lie::{LinkLie, SharedLies};

/// The forgeries of one session.
#[derive(Default)]
pub(super) struct Forger {
    probe: Option<Probe>,
    committed: Option<Checksum>,
    last_roots: BTreeMap<DeviceId, Root>,
    /// The answer to the linked probe, held back until its digests have come.
    held: Option<SignedChecksum>,
    digests: Vec<MinerMessage>,
    forged: Option<Forged>,
    items: Vec<OpenItem>,
    /// The segment of the current item that is opened next.
    next: (u32, usize),
}

/// The answer in place of the truth.
struct Forged {
    answer: Answer,
    keys: Vec<ProbeKey>,
    /// `out[r]` of every device.
    outs: Vec<Vec<Vec<u8>>>,
    /// The slots of all devices then, in order: their memory may be released while openings are still on their way.
    slots: Vec<Vec<u8>>,
}

impl Forger {
    pub fn incoming(&mut self, message: &ValidatorMessage) {
        match message {
            ValidatorMessage::Challenge(_) => *self = Self::default(),
            ValidatorMessage::Probe { probe, .. } if probe.link() == Link::All => self.probe = Some(*probe),
            ValidatorMessage::Open { items, .. } => self.items.clone_from(items),
            _ => {}
        }
    }

    /// The messages in place of an outgoing one.
    pub fn outgoing(
        &mut self,
        lie: LinkLie,
        lies: &SharedLies,
        signer: &Identity,
        message: MinerMessage,
    ) -> Vec<MinerMessage> {
        let shares = lies.board.challenge().map_or(0, |challenge| challenge.shares().len());
        match message {
            MinerMessage::Commitment(signed) => {
                self.committed = Some(signed.checksum);
                vec![MinerMessage::Commitment(signed)]
            }
            MinerMessage::DeviceRoots(roots) => {
                self.last_roots.extend(roots.evidence.roots.last().map(|root| (roots.evidence.device_id, *root)));
                vec![MinerMessage::DeviceRoots(roots)]
            }
            MinerMessage::ProbeAnswer(signed) if self.probe.is_some() => {
                self.held = Some(signed);
                Vec::new()
            }
            MinerMessage::DeviceDigests(digests) if self.held.is_some() => {
                self.digests.push(MinerMessage::DeviceDigests(digests));
                if self.digests.len() < shares { Vec::new() } else { self.answer(lie, lies, signer) }
            }
            MinerMessage::OpeningsChunk(mut chunk) => {
                if let OpeningsPart::Segment(segment) = &mut chunk.part {
                    self.forge_segment(lies, chunk.item, segment);
                }
                vec![MinerMessage::OpeningsChunk(chunk)]
            }
            other => vec![other],
        }
    }

    fn answer(&mut self, lie: LinkLie, lies: &SharedLies, signer: &Identity) -> Vec<MinerMessage> {
        let (Some(signed), Some(probe), Some(committed)) = (self.held.take(), self.probe, self.committed) else {
            return Vec::new();
        };
        let mut digests = std::mem::take(&mut self.digests);
        if lie == LinkLie::WithheldDigests {
            digests.pop();
            return std::iter::once(MinerMessage::ProbeAnswer(signed)).chain(digests).collect();
        }
        let challenge = lies.board.challenge().expect("a challenge runs");
        let forged = self.forge(lie, &challenge, &lies.board.slots(&challenge), &probe);
        let checksum = forged.answer.checksum;
        let signature = signer.sign(&probe_message(challenge.work_key(), &committed, probe, &checksum));
        for (message, device) in digests.iter_mut().zip(&forged.answer.devices) {
            if let MinerMessage::DeviceDigests(digests) = message {
                digests.answer = device.clone();
            }
        }
        self.forged = Some(forged);
        let answer = MinerMessage::ProbeAnswer(SignedChecksum { checksum, signature, ..signed });
        std::iter::once(answer).chain(digests).collect()
    }

    fn forge(&self, lie: LinkLie, challenge: &Challenge, slots: &[Vec<Vec<u8>>], probe: &Probe) -> Forged {
        let roots: Vec<_> = challenge.shares().iter().map(|share| self.last_roots[&share.device_id]).collect();
        let key = |id| linked_probe_key(probe, challenge.work_key(), id, &roots);
        let keys: Vec<_> = challenge.shares().iter().map(|share| key(share.device_id)).collect();
        let (mut outs, mut digests) = (vec![Vec::new(); keys.len()], vec![Vec::new(); keys.len()]);
        let mut before = Digest::BEFORE_FIRST;
        for round in 0..probe.rounds() {
            for (device, key) in keys.iter().enumerate() {
                let key = match lie {
                    LinkLie::RoundsAtOnce => linked_round_key(key, round, &Digest::BEFORE_FIRST),
                    _ => linked_round_key(key, round, &before),
                };
                let walk = |j| false_walk(lie, challenge, slots, device, &key, j, probe.steps());
                let out: Vec<u8> = (0..probe.walks()).flat_map(walk).collect();
                digests[device].push(slot_digest(&out));
                outs[device].push(out);
            }
            before = link_digest(digests.iter().map(|of_device| &of_device[round as usize]));
        }
        Forged { answer: Answer::assemble(challenge, probe, digests), keys, outs, slots: slots.concat() }
    }

    /// Opens, in place of the engine's openings, the state that was answered and the lines that the validator will
    /// walk.
    fn forge_segment(&mut self, lies: &SharedLies, item: u32, segment: &mut SegmentOpenings) {
        let (Some(forged), Some(probe), Some(challenge)) = (&self.forged, self.probe, lies.board.challenge()) else {
            return;
        };
        let Some(OpenItem { device_id, what: OpenTarget::LinkedSegments(drawn) }) = self.items.get(item as usize)
        else {
            return;
        };
        self.next = if self.next.0 == item { (item, self.next.1 + 1) } else { (item, 0) };
        let Segment { round, walk } = drawn[self.next.1];
        let device = challenge.shares().iter().position(|share| share.device_id == *device_id).expect("a share");
        let key = linked_round_key(&forged.keys[device], round, &forged.answer.link_digest_before(round));
        let all = &forged.slots;
        let mut state = start_state(&key, walk);
        let lines = (0..probe.steps()).map(|_| {
            let (slot, line) = position(&state, all.len() as u32, challenge.n());
            let byte = u64::from(line) * LINE_BYTES as u64;
            step(&mut state, all[slot as usize][byte as usize..].first_chunk().expect("a line"));
            let opened = naive::open(&all[slot as usize], chunk_of(byte), CHUNK_BYTES);
            assay_work::OpenedRange {
                slot,
                first_byte: opened.first_byte,
                bytes: opened.bytes,
                siblings: opened.siblings,
            }
        });
        let lines = lines.collect();
        let out = &forged.outs[device][round as usize];
        let state = naive::open(out, chunk_of(u64::from(walk) * LINE_BYTES as u64), CHUNK_BYTES);
        *segment = SegmentOpenings { round, walk, state, lines };
    }
}

/// Where a walk ends that lies about lines of other devices.
fn false_walk(
    lie: LinkLie,
    challenge: &Challenge,
    slots: &[Vec<Vec<u8>>],
    device: usize,
    key: &RoundKey,
    walk: u32,
    steps: u32,
) -> [u8; LINE_BYTES] {
    let all = LinkedSlots::new(challenge);
    let mut state = start_state(key, walk);
    for _ in 0..steps {
        let (a, line) = all.position(&state);
        let place = all.place(a);
        let byte = line as usize * LINE_BYTES;
        let mut bytes: [u8; LINE_BYTES] =
            *slots[place.share][place.slot as usize][byte..].first_chunk().expect("a line");
        if place.share != device {
            match lie {
                LinkLie::SkippedLines => bytes = [0; LINE_BYTES],
                LinkLie::StaleCopy => bytes.iter_mut().for_each(|byte| *byte = !*byte),
                LinkLie::RoundsAtOnce | LinkLie::WithheldDigests => {}
            }
        }
        step(&mut state, &bytes);
    }
    state_bytes(&state)
}
