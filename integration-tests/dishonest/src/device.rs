//! A device over host memory whose lies are switches, and consistently: its digests, chaining values and bytes are
//! those of the false memory, because the miner's own engine opens nothing that contradicts itself.

use assay_kits::naive;
use assay_work::rule::product_rows;
use std::thread;
use std::time::{Duration, Instant};

use assay_device::{Device, DeviceError, DeviceInfo, Handle, LinkedShare, Pass, ProbeRound, StateBytes, SweepRound};
use assay_work::digest::slot_digest;
use assay_work::keys::parents;
use assay_work::leaf::leaf;
use assay_work::probe::{LINE_BYTES, position, start_state, state_bytes, state_from_bytes, step};
use assay_work::rule::SlotRule;
use assay_work::{DeviceId, Digest, PassKey, Precision, RoundKey, tree};

use crate::lie::{ProbeLie, SharedLies, SweepLie, WorkLie, lock};

/// The count of elements of which [`WorkLie::SkipElements`] leaves out one.
const SKIPPED: usize = 20;

/// Host memory, one thread, and lies.
pub struct LyingDevice {
    id: DeviceId,
    memory_bytes: u64,
    /// The kinds of work that it claims to compute.
    precisions: &'static [Precision],
    n: u32,
    slots: Vec<Vec<u8>>,
    states: Vec<u8>,
    /// The pass that [`WorkLie::FirstIterationAgain`] repeats.
    first_pass: Option<Pass>,
    /// The keys of the challenge's passes, in order of iteration.
    passes_seen: Vec<PassKey>,
    /// The key of the first round of the sweep.
    first_sweep: Option<RoundKey>,
    lies: SharedLies,
}

impl LyingDevice {
    /// A device that claims so much memory, and every kind of work.
    #[must_use]
    pub const fn new(id: DeviceId, memory_bytes: u64, lies: SharedLies) -> Self {
        Self {
            id,
            memory_bytes,
            precisions: &Precision::ALL,
            n: 0,
            slots: Vec::new(),
            states: Vec::new(),
            first_pass: None,
            passes_seen: Vec::new(),
            first_sweep: None,
            lies,
        }
    }

    /// The same, claiming these kinds of work alone.
    #[must_use]
    pub const fn claiming(mut self, precisions: &'static [Precision]) -> Self {
        self.precisions = precisions;
        self
    }

    /// The pass that is computed for the one asked, and where its leaves come from.
    fn passes(&mut self, asked: &Pass, lie: Option<WorkLie>) -> Result<(Pass, Pass), DeviceError> {
        let first = *self.first_pass.get_or_insert(*asked);
        let other = || {
            let other = self.lies.board.exchange(self.id, *asked);
            other.ok_or_else(|| DeviceError::Unsupported("this lie takes another device".into()))
        };
        Ok(match lie {
            Some(WorkLie::FirstIterationAgain) => (first, first),
            Some(WorkLie::OtherLeaves) => (*asked, other()?),
            Some(WorkLie::OtherShare) => {
                let other = other()?;
                (other, other)
            }
            _ => (*asked, *asked),
        })
    }

    fn fill_slot(&self, pass: &Pass, leaves: &Pass, u: u32, lie: Option<WorkLie>) -> Vec<u8> {
        let mut slot = vec![0; pass.slot_bytes() as usize];
        let zero = match lie {
            Some(WorkLie::ZeroSlots(zero)) => zero.contains(&u),
            Some(WorkLie::ZeroLeaves) => u < 2,
            _ => false,
        };
        if zero {
            return slot;
        }
        if u < 2 {
            leaf(&leaves.key, leaves.offset + u, 0, &mut slot);
            return slot;
        }
        if let Some(WorkLie::KeystreamIn(iteration)) = lie
            && self.passes_seen.get(iteration) == Some(&pass.key)
        {
            leaf(&pass.key, pass.offset + u, 0, &mut slot);
            return slot;
        }
        let (earlier, previous) = parents(&pass.key, u);
        let factors = (&self.slots[earlier as usize][..], &self.slots[previous as usize][..]);
        let precision = match lie {
            Some(WorkLie::OtherKind(precision)) => precision,
            _ => pass.precision,
        };
        let rule = |precision, u| SlotRule::new(precision, &pass.key, pass.n, u);
        let rows = 0..pass.n;
        match lie {
            Some(WorkLie::HalfOfSquarings) => {
                let half = pass.n as usize / 2;
                let row = |c: u32| &factors.1[c as usize * 2 * half..][..2 * half];
                let y = |c: u32| [&rule(precision, u).y(row(c), c)[..half], &row(c)[half..]].concat();
                let y: Vec<u8> = rows.flat_map(y).collect();
                product_rows(&rule(Precision::Int8, u), (factors.0, &y), 0, &mut slot);
            }
            Some(WorkLie::EarlierNoise) if u >= 5 => {
                let before = rule(precision, u - 3);
                let x: Vec<u8> = rows.flat_map(|r| before.x_of_slot(factors.0, r).into_owned()).collect();
                product_rows(&rule(Precision::Int8, u), (&x, factors.1), 0, &mut slot);
            }
            _ => product_rows(&rule(precision, u), factors, 0, &mut slot),
        }
        if lie == Some(WorkLie::SkipElements) {
            slot.iter_mut().step_by(SKIPPED).for_each(|element| *element = 0);
        }
        if lie == Some(WorkLie::DropIgnoredBits) {
            slot.iter_mut().for_each(|element| *element &= 0x9f);
        }
        if lie == Some(WorkLie::OneElement) && u + 1 == pass.count {
            slot[77] ^= 1;
        }
        slot
    }

    /// `out` of a round as the lie has it.
    fn false_out(&self, round: &ProbeRound, lie: ProbeLie) -> Vec<u8> {
        let first_key = self.lies.board.first_key(self.id).unwrap_or(round.key);
        match lie {
            ProbeLie::OtherMemory => self.out(&inverted(&self.slots), &round.key, round),
            ProbeLie::Spilled(held) => self.out(&spilled(&self.slots, held), &round.key, round),
            ProbeLie::WrongLine => self.out(&self.with_wrong_line(&first_key, round.steps), &round.key, round),
            ProbeLie::InventedDigest if round.key == first_key => self.out(&inverted(&self.slots), &round.key, round),
            ProbeLie::RoundsAtOnce => self.out(&self.slots, &first_key, round),
            ProbeLie::MergedWalks => {
                let mut out = self.out(&self.slots, &round.key, round);
                out.chunks_exact_mut(2 * LINE_BYTES).for_each(|pair| pair.copy_within(..LINE_BYTES, LINE_BYTES));
                out
            }
            ProbeLie::InventedDigest | ProbeLie::Slow(_) => self.out(&self.slots, &round.key, round),
        }
    }

    fn out(&self, slots: &[Vec<u8>], key: &RoundKey, round: &ProbeRound) -> Vec<u8> {
        (0..round.walks).flat_map(|j| naive::walk(slots, self.n, key, j, round.steps)).collect()
    }

    /// The slots, but for one bit of the line that walk 0 of the first round reads in the middle of its way.
    fn with_wrong_line(&self, first_key: &RoundKey, steps: u32) -> Vec<Vec<u8>> {
        let mut slots = self.slots.clone();
        let mut state = start_state(first_key, 0);
        for left in (0..=steps / 2).rev() {
            let (slot, line) = position(&state, slots.len() as u32, self.n);
            let line = &mut slots[slot as usize][line as usize * LINE_BYTES..][..LINE_BYTES];
            let mut bytes = [0; LINE_BYTES];
            bytes.copy_from_slice(line);
            step(&mut state, &bytes);
            if left == 0 {
                line[7] ^= 1;
            }
        }
        slots
    }
}

impl Device for LyingDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            id: self.id,
            name: "a device that may lie".into(),
            backend: assay_device::backend::BackendKind::Cpu,
            detail: "one thread".into(),
            precisions: self.precisions.into(),
            units: Vec::new(),
            total_bytes: self.memory_bytes,
            free_bytes: self.memory_bytes,
        }
    }

    fn slots_that_fit(&self, n: u32) -> u32 {
        u32::try_from(self.memory_bytes / (u64::from(n) * u64::from(n))).unwrap_or(u32::MAX)
    }

    fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        let lie = *lock(&self.lies.work);
        match lie {
            Some(WorkLie::Slow(time)) => sleep(time, handle, || *lock(&self.lies.work) == lie)?,
            Some(WorkLie::NoMemory) => {
                return Err(DeviceError::Busy { needed_bytes: pass.bytes(), free_bytes: pass.bytes() / 2 });
            }
            _ => {}
        }
        let (computed, leaves) = self.passes(pass, lie)?;
        // Iterations come in order the first time; a pass that is computed again has a key that was seen.
        if !self.passes_seen.contains(&pass.key) {
            self.passes_seen.push(pass.key);
        }
        self.n = pass.n;
        self.slots.clear();
        let mut digests = Vec::new();
        for u in 0..pass.count {
            handle.check()?;
            let slot = self.fill_slot(&computed, &leaves, u, lie);
            digests.push(slot_digest(&slot));
            self.slots.push(slot);
            handle.advance(1);
        }
        self.lies.board.note_slots(self.id, &self.slots);
        Ok(digests)
    }

    fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        let lie = *lock(&self.lies.probe);
        if let Some(ProbeLie::Slow(time)) = lie {
            sleep(time, handle, || *lock(&self.lies.probe) == lie)?;
        }
        self.states = self.out(&self.slots, &round.key, round);
        handle.advance(1);
        let Some(lie) = lie else { return Ok(slot_digest(&self.states)) };
        // The engine walks the rounds that it opens over the true states, so that it opens the true lines; the filter
        // puts the false state in their place.
        let out = self.false_out(round, lie);
        let digest = slot_digest(&out);
        self.lies.board.note_out(self.id, round.key, out);
        Ok(digest)
    }

    fn sweep_sums(&mut self, round: &SweepRound, handle: &Handle) -> Result<Vec<u8>, DeviceError> {
        handle.check()?;
        let lie = *lock(&self.lies.sweep);
        let first = *self.first_sweep.get_or_insert(round.key);
        Ok(match lie {
            Some(SweepLie::OtherMemory) => naive::sweep_round(&inverted(&self.slots), self.n, &round.key),
            Some(SweepLie::SameWeights) => naive::sweep_round(&self.slots, self.n, &first),
            Some(SweepLie::HalfOfRows) => {
                let mut sums = naive::sweep_round(&self.slots, self.n, &round.key);
                sums.chunks_exact_mut(8).for_each(|pair| pair[4..].fill(0));
                sums
            }
            None => naive::sweep_round(&self.slots, self.n, &round.key),
        })
    }

    fn step_states(&mut self, share: &LinkedShare, states: &mut [StateBytes]) -> Result<(), DeviceError> {
        let link = *lock(&self.lies.link_bytes_per_s);
        if let Some(bytes_per_s) = link.filter(|_| share.offset == 0) {
            // Every state that comes to another host crosses its network.
            thread::sleep(Duration::from_secs_f64((states.len() * LINE_BYTES) as f64 / bytes_per_s as f64));
        }
        for bytes in states {
            let mut state = state_from_bytes(bytes);
            let (slot, line) = position(&state, share.total, share.n);
            let slot = slot.checked_sub(share.offset).and_then(|slot| self.slots.get(slot as usize));
            let slot = slot.ok_or_else(|| DeviceError::Unsupported("a line of another device".into()))?;
            step(&mut state, slot[line as usize * LINE_BYTES..].first_chunk().expect("a line"));
            *bytes = state_bytes(&state);
        }
        Ok(())
    }

    fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError> {
        Ok(self.states.clone())
    }

    fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        let from = first_byte as usize;
        let bytes = self.slots.get(slot as usize).and_then(|bytes| bytes.get(from..from + out.len()));
        out.copy_from_slice(bytes.ok_or_else(|| DeviceError::Unsupported("not resident".into()))?);
        Ok(())
    }

    fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<[u8; 32]>, DeviceError> {
        let slot = self.slots.get(slot as usize).ok_or_else(|| DeviceError::Unsupported("not resident".into()))?;
        Ok(tree::chaining_values(slot, subtree_bytes).into_iter().map(|value| value.0).collect())
    }

    fn release(&mut self) {
        self.slots.clear();
        self.states.clear();
        self.first_pass = None;
        self.passes_seen.clear();
        self.first_sweep = None;
        self.lies.board.clear(self.id);
    }
}

fn inverted(slots: &[Vec<u8>]) -> Vec<Vec<u8>> {
    slots.iter().map(|slot| slot.iter().map(|byte| !byte).collect()).collect()
}

fn spilled(slots: &[Vec<u8>], held: u32) -> Vec<Vec<u8>> {
    let held = |(u, slot): (u32, &Vec<u8>)| if u < held { slot.clone() } else { vec![0; slot.len()] };
    (0..).zip(slots).map(held).collect()
}

/// Sleeps in short naps, and no longer than the lie lasts: a test does not wait for a miner whose session is over.
fn sleep(time: Duration, handle: &Handle, lies_on: impl Fn() -> bool) -> Result<(), DeviceError> {
    let until = Instant::now() + time;
    while Instant::now() < until && lies_on() {
        handle.check()?;
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
