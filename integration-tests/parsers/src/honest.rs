//! An honest miner of a small challenge: the openings that the targets change, and the case that they begin with.

use assay_kits::naive;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_judge::action::Action;
use assay_judge::case::entry::CaseEntry;
use assay_judge::case::file::{CaseReader, MARK, encode};
use assay_judge::entropy::SeededEntropy;
use assay_judge::facts::FleetFacts;
use assay_judge::issue::IssuedChallenge;
use assay_judge::run::{ChallengeRun, RunContext};
use assay_judge::verify::check::TrustedValues;
use assay_judge::verify::excuse::ValidatorDelays;
use assay_policy::Policy;
use assay_protocol::identity::Identity;
use assay_protocol::message::{
    DeviceClaim, DeviceDigests, DeviceRoots, Inventory, MATRIX_SIZES, MinerMessage, Offer, OpenItem, OpenTarget,
    OpeningsChunk, OpeningsPart, SignedChecksum, ValidatorMessage,
};
use assay_protocol::verdict::Mode;
use assay_work::commitment::commitment_message;
use assay_work::keys::pass_key;
use assay_work::probe::{SweepSample, probe_message, sweep_key, sweep_round_key_after};
use assay_work::{
    Answer, Challenge, ChallengeId, DeviceId, Digest, Evidence, Link, MemoryProbe, Nonce, PassSample, Precision, Probe,
    ProbeSeed, PublicKey, Root, Segment, Sweep, UncheckedProbe, UncheckedSweep,
};

/// The matrix size of every challenge here: the smallest.
const N: u32 = 256;
/// Slots of each device.
const SLOTS: [u32; 2] = [3, 4];
/// Seconds since 1970 of everything here.
pub const NOW_S: u64 = 1_900_000_000;
/// The time of each answer by the validator's clock.
pub const TOOK: Duration = Duration::from_millis(1);

/// The key of the miner.
pub fn miner() -> Identity {
    Identity::from_seed(&[9; 32])
}

/// A host with two devices of this kind of work.
pub fn inventory(precision: Precision) -> Inventory {
    let device = |(id, slots): (u8, u32)| DeviceClaim {
        id: DeviceId([id; 16]),
        name: "a device".into(),
        backend: "cpu".into(),
        detail: String::new(),
        total_bytes: u64::from(slots * N * N),
        free_bytes: u64::from(slots * N * N),
        slots: DeviceClaim::max_slots(u64::from(slots * N * N)),
        precisions: vec![precision],
        claimed_hardware: None,
    };
    let devices = (1..).zip(SLOTS).map(device).collect();
    Inventory { sequence: 1, devices, max_link: Link::All, sweeps: true }
}

/// The challenge of this kind for [`inventory`].
pub fn offer(precision: Precision) -> Offer {
    Offer {
        version: assay_work::challenge::WORK_VERSION,
        challenge_id: ChallengeId([1; 16]),
        nonce: Nonce([2; 32]),
        precision: precision.code(),
        n: MATRIX_SIZES[0],
        iterations: 1,
        total: SLOTS.iter().sum(),
        inventory_sequence: 1,
        deadline: Duration::from_secs(60),
        min_slots: 3,
    }
}

fn challenge(precision: Precision) -> Challenge {
    let planned = offer(precision).plan(&inventory(precision), PublicKey([4; 32]), miner().public_key());
    planned.expect("the offer fits the inventory")
}

/// Roots and slots of every device of a challenge.
struct Work {
    challenge: Challenge,
    roots: Vec<Vec<Root>>,
    slots: Vec<Vec<Vec<u8>>>,
}

impl Work {
    fn new(precision: Precision) -> Self {
        let challenge = challenge(precision);
        let shares = challenge.shares().iter().map(|share| naive::share(&challenge, share));
        let (roots, slots) = shares.unzip();
        Self { challenge, roots, slots }
    }

    fn evidence(&self) -> Evidence {
        Evidence::assemble(&self.challenge, self.roots.clone())
    }

    fn answer(&self, asked: MemoryProbe) -> Answer {
        let challenge = &self.challenge;
        let of_device = |at: usize| {
            let (share, slots) = (&challenge.shares()[at], &self.slots[at]);
            match asked {
                MemoryProbe::Walks(probe) => {
                    let key = naive::key_of_probe(challenge, &probe, share.device_id, slots);
                    naive::probe(slots, N, &key, &probe).1
                }
                MemoryProbe::Sweep(sweep) => {
                    let key = sweep_key(&sweep, challenge.work_key(), share.device_id, self.last_root(at));
                    naive::sweep(slots, N, &key, &sweep).1
                }
            }
        };
        let digests = match asked {
            MemoryProbe::Walks(probe) if probe.link() == Link::All => {
                let keys = naive::linked_keys(challenge, &probe, &self.slots);
                naive::linked_probe(&self.slots, N, &keys, &probe).1
            }
            _ => (0..SLOTS.len()).map(of_device).collect(),
        };
        Answer::assemble(challenge, asked, digests)
    }

    fn last_root(&self, device: usize) -> &Root {
        self.roots[device].last().expect("a root of each iteration")
    }

    /// The chunks that open an item.
    fn open(&self, asked: &[MemoryProbe], index: u32, item: &OpenItem) -> Vec<OpeningsChunk> {
        let challenge = &self.challenge;
        let is_device = |share: &assay_work::Share| share.device_id == item.device_id;
        let at = challenge.shares().iter().position(is_device).expect("items are of the challenge's devices");
        let walks = |link| asked.iter().filter_map(MemoryProbe::walks).find(|probe| probe.link() == link);
        let slots = &self.slots[at];
        let (digests, parts): (Vec<Digest>, Vec<OpeningsPart>) = match &item.what {
            OpenTarget::Segments(drawn) => {
                let probe = walks(Link::Own).expect("segments are of a probe");
                let key = naive::key_of_probe(challenge, probe, item.device_id, slots);
                let opened = naive::open_probe(slots, N, &key, probe, item.device_id, drawn);
                (opened.slot_digests, opened.segments.into_iter().map(OpeningsPart::Segment).collect())
            }
            OpenTarget::LinkedSegments(drawn) => {
                let probe = walks(Link::All).expect("linked segments are of a linked probe");
                let opened = naive::open_linked_probe(challenge, &self.slots, probe, at, drawn);
                // The digests of all devices come with the first item and serve the others.
                let digests = self.slots.iter().flat_map(|slots| naive::digests(slots));
                let digests = if at == 0 { digests.collect() } else { Vec::new() };
                (digests, opened.segments.into_iter().map(OpeningsPart::Segment).collect())
            }
            OpenTarget::Sums(drawn) => {
                let sweep = asked.iter().find_map(MemoryProbe::sweep).expect("sums are of a sweep");
                let key = sweep_key(sweep, challenge.work_key(), item.device_id, self.last_root(at));
                let (_, answered) = naive::sweep(slots, N, &key, sweep);
                let open = |sample: &SweepSample| {
                    let round = sweep_round_key_after(&key, sample.round, &answered);
                    naive::open_sum(slots, N, &naive::sweep_round(slots, N, &round), sample)
                };
                (naive::digests(slots), drawn.iter().map(open).map(OpeningsPart::Sum).collect())
            }
            OpenTarget::Samples { iteration, samples } => {
                let key = pass_key(challenge.work_key(), item.device_id, *iteration, &Root::BEFORE_FIRST);
                let open = |sample| naive::open_sample(challenge.precision(), slots, &key, N, sample);
                (naive::digests(slots), samples.iter().map(open).map(OpeningsPart::Sample).collect())
            }
        };
        let digests = Some(digests).filter(|digests| !digests.is_empty()).map(OpeningsPart::SlotDigests);
        let parts = digests.into_iter().chain(parts).chain([OpeningsPart::End]);
        parts.map(|part| OpeningsChunk { challenge_id: challenge.id(), item: index, part }).collect()
    }
}

/// The values that bind a miner's openings, the items requested, and the chunks that an honest miner sends.
pub struct Opened {
    pub binding: TrustedValues,
    pub items: Vec<OpenItem>,
    pub chunks: Vec<OpeningsChunk>,
}

impl Opened {
    /// One item of each target for each device of a challenge of this kind.
    pub fn new(precision: Precision) -> Self {
        let work = Work::new(precision);
        let walks = |link: Link| {
            let seed = ProbeSeed([6; 32]);
            let unchecked = UncheckedProbe { seed, walks: 64, steps: 2, rounds: 2, link: link.code() };
            Probe::try_from(unchecked).expect("the probe keeps the rules")
        };
        let (own, linked) = (walks(Link::Own), walks(Link::All));
        let sweep = UncheckedSweep { seed: ProbeSeed([7; 32]), rounds: 2 };
        let sweep = Sweep::try_from(sweep).expect("the sweep keeps the rules");
        let asked = [own.into(), linked.into(), sweep.into()];
        let answers = asked.map(|asked| Arc::new(work.answer(asked)));
        let [answer, of_linked, of_sweep] = answers;
        let binding = TrustedValues {
            challenge: Arc::new(work.challenge.clone()),
            evidence: Arc::new(work.evidence()),
            probe: own,
            answer,
            linked: Some((linked, of_linked)),
            sweep: Some((sweep, of_sweep)),
        };
        let product = PassSample::Product { slot: 2, row: 1, column: 2, inner: 3 };
        let targets = [
            OpenTarget::Segments(vec![Segment { round: 1, walk: 5 }]),
            OpenTarget::LinkedSegments(vec![Segment { round: 0, walk: 63 }]),
            OpenTarget::Sums(vec![SweepSample { round: 1, slot: 2, row: 255 }]),
            OpenTarget::Samples { iteration: 0, samples: vec![product, PassSample::Leaf { slot: 1, row: 7 }] },
        ];
        let of_devices = |what: &OpenTarget| {
            let devices = work.challenge.shares().iter().map(|share| share.device_id);
            devices.map(|device_id| OpenItem { device_id, what: what.clone() }).collect::<Vec<_>>()
        };
        let items: Vec<_> = targets.iter().flat_map(of_devices).collect();
        let chunks = (0..).zip(&items).flat_map(|(index, item)| work.open(&asked, index, item)).collect();
        Self { binding, items, chunks }
    }
}

/// A challenge of INT8, sent at `now`, whose verdict follows from few openings.
pub fn start(now: Instant) -> (ChallengeRun, Vec<Action>) {
    let mut policy = Policy { samples: 1, segments: 1, ..Policy::default() };
    (policy.probe.steps, policy.probe.target) = (2, Duration::from_micros(8));
    let context = RunContext {
        policy: Arc::new(policy),
        mode: Mode::Audit,
        inventory: inventory(Precision::Int8),
        history: Arc::default(),
        round_trip: None,
        unix_seconds: NOW_S,
        hold: None,
    };
    let (offer, challenge) = (offer(Precision::Int8), Arc::new(challenge(Precision::Int8)));
    ChallengeRun::start(context, IssuedChallenge { offer, challenge, not_challenged: Vec::new() }, now)
}

/// The draws of the validator.
pub fn entropy() -> SeededEntropy {
    SeededEntropy::new(1)
}

/// The stored case of the challenge of [`start`] that an honest miner passes, not compressed.
pub fn case() -> Vec<u8> {
    let work = Work::new(Precision::Int8);
    let mut driven = Driven { work, asked: Vec::new(), messages: VecDeque::new(), entries: Vec::new() };
    let (now, mut entropy) = (Instant::now(), entropy());
    let (mut run, actions) = start(now);
    driven.carry_out(&mut run, actions, now);
    while let Some(message) = driven.messages.pop_front() {
        let actions = run.message(message, now + TOOK, &mut entropy);
        driven.carry_out(&mut run, actions, now);
    }
    let id = run.id();
    let entries = driven.entries.into_iter().flat_map(|entry| encode(entry, id));
    MARK.into_iter().chain(entries).collect()
}

/// The entries of [`case`].
pub fn entries() -> Vec<CaseEntry> {
    let case = case();
    let mut reader = CaseReader::new(case.as_slice()).expect("a case begins with its mark");
    std::iter::from_fn(|| reader.next_entry().expect("its entries are read")).collect()
}

/// The miner's messages among them.
pub fn messages() -> impl Iterator<Item = MinerMessage> {
    entries().into_iter().filter_map(|entry| match entry {
        CaseEntry::Message(_, message) => Some(message),
        CaseEntry::Openings(_, chunk) => Some(MinerMessage::OpeningsChunk(Arc::unwrap_or_clone(chunk))),
        _ => None,
    })
}

/// An honest miner, and the journal of its run.
struct Driven {
    work: Work,
    asked: Vec<MemoryProbe>,
    messages: VecDeque<MinerMessage>,
    entries: Vec<CaseEntry>,
}

impl Driven {
    fn carry_out(&mut self, run: &mut ChallengeRun, actions: Vec<Action>, now: Instant) {
        for action in actions {
            match action {
                Action::Record(entries) => self.entries.extend(entries),
                Action::Send(message, sent) => {
                    sent.set(now);
                    self.answer(message);
                }
                Action::Check(job) => {
                    let actions = run.checked(job.run());
                    self.carry_out(run, actions, now);
                }
                Action::Judged(verdict) => {
                    let facts = toml::to_string(&FleetFacts::default()).expect("facts become TOML");
                    let json = serde_json::to_vec(&verdict).expect("a verdict becomes JSON");
                    let held_up = CaseEntry::HeldUp(ValidatorDelays::default());
                    self.entries.extend([held_up, CaseEntry::Fleet(facts), CaseEntry::Verdict(json)]);
                }
                _ => {}
            }
        }
    }

    fn answer(&mut self, message: ValidatorMessage) {
        let work = &self.work;
        let (challenge_id, claimed) = (work.challenge.id(), Duration::from_millis(1));
        let signed = |checksum, message: &[u8]| {
            let signature = miner().sign(message);
            SignedChecksum { challenge_id, checksum, signature, claimed }
        };
        let evidence = work.evidence();
        let asked = match message {
            ValidatorMessage::Challenge(_) => {
                let message = commitment_message(work.challenge.work_key(), &evidence.checksum);
                self.messages.push_back(MinerMessage::Commitment(signed(evidence.checksum, &message)));
                let roots = |evidence| DeviceRoots { challenge_id, evidence, claimed, claimed_telemetry: None };
                self.messages.extend(evidence.devices.into_iter().map(roots).map(MinerMessage::DeviceRoots));
                return;
            }
            ValidatorMessage::Open { items, .. } => {
                let chunks = (0..).zip(&items).flat_map(|(index, item)| work.open(&self.asked, index, item));
                self.messages.extend(chunks.map(MinerMessage::OpeningsChunk));
                return;
            }
            ValidatorMessage::Probe { probe, .. } => MemoryProbe::from(probe),
            ValidatorMessage::Sweep { sweep, .. } => MemoryProbe::from(sweep),
            _ => return,
        };
        let answer = work.answer(asked);
        let message = probe_message(work.challenge.work_key(), &evidence.checksum, asked, &answer.checksum);
        self.messages.push_back(MinerMessage::ProbeAnswer(signed(answer.checksum, &message)));
        let digests = |answer| DeviceDigests { challenge_id, answer, claimed };
        self.messages.extend(answer.devices.into_iter().map(digests).map(MinerMessage::DeviceDigests));
        self.asked.push(asked);
    }
}
