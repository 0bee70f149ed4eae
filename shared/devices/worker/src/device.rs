//! A device in a process of its own, as everything above sees it.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::link::{RequestError, RequestSteps, WorkerLink, ask};
use super::message::{MAX_RANGES, Reply, Request};
use super::supervisor::{SharedWorker, StartOutcome, WorkerMonitor, WorkerSpec, supervise};
use assay_device::backend::StartupProgress;
use assay_device::copies::{CopyReport, CopySource};
use assay_device::resident::{HASH_BYTES, STATE_BYTES, Slots, hashes_of};
use assay_device::{
    Device, DeviceError, DeviceInfo, Handle, LinkedShare, Pass, PeerSlots, ProbeRound, ProbeRounds, SharedSlots,
    SlotRange, StateBytes, SweepRound, SweepRounds,
};
use assay_work::probe::{MAX_ROUNDS, MAX_WALKS, sums_bytes};
use assay_work::tree::{CHUNK_BYTES, expected_siblings};
use assay_work::{ChainingValue, DeviceId, Digest, Opening, Precision};
use parking_lot::Mutex;

/// A device whose worker is kept running. Dropped, the worker ends.
pub struct WorkerDevice {
    shared: Arc<SharedWorker>,
    supervisor: Option<JoinHandle<()>>,
    /// The latest description of the device.
    info: Mutex<DeviceInfo>,
    resident: Option<Resident>,
}

/// The slots and states of the device, and the worker that holds them: they are gone with it.
#[derive(Debug, Clone, Copy)]
struct Resident {
    worker: u64,
    slots: Slots,
    walks: Option<u32>,
}

impl WorkerDevice {
    /// Starts the device's worker, which takes its time: [`WorkerDevice::start_outcome`] reports the end of it.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(spec: WorkerSpec) -> io::Result<Self> {
        let shared = Arc::new(SharedWorker::new());
        let info = Mutex::new(DeviceInfo { free_bytes: 0, ..spec.found.info.clone() });
        let name = format!("worker-{}", &spec.found.info.id.to_string()[..8]);
        let watched = shared.clone();
        let supervisor = thread::Builder::new().name(name).spawn(move || supervise(&spec, &watched))?;
        Ok(Self { shared, supervisor: Some(supervisor), info, resident: None })
    }

    pub fn id(&self) -> DeviceId {
        self.last_info().id
    }

    /// A monitor of its worker, for use while the device works.
    pub fn monitor(&self) -> WorkerMonitor {
        WorkerMonitor::new(self.shared.clone())
    }

    /// How the first attempt to open it ended, once it has.
    pub fn start_outcome(&self) -> Option<StartOutcome> {
        self.shared.start_outcome()
    }

    /// The progress of its start-up.
    pub fn preparing(&self) -> StartupProgress {
        self.shared.preparing()
    }

    fn last_info(&self) -> DeviceInfo {
        self.info.lock().clone()
    }

    /// Does something with the worker, and with its number.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&mut WorkerLink, u64) -> Result<T, RequestError>,
    ) -> Result<T, DeviceError> {
        let (mut link, number) = self.shared.take()?;
        // Should `work` panic, the supervisor starts another worker; this one ends with its input.
        let unwinding = LossGuard(&self.shared);
        let done = work(&mut link, number);
        std::mem::forget(unwinding);
        match done {
            Err(error) if error.is_fatal() => {
                let error = error.into_error();
                self.shared.give_up(Some(link), error.clone());
                Err(error)
            }
            other => {
                self.shared.give_back(link, number);
                other.map_err(RequestError::into_error)
            }
        }
    }

    /// As [`WorkerDevice::with`], for requests that need the slots: they are gone with the worker that filled them.
    fn with_resident<T>(
        &self,
        work: impl FnOnce(&mut WorkerLink, Resident) -> Result<T, RequestError>,
    ) -> Result<T, DeviceError> {
        // The worker may hold slots of a pass that counts no more.
        let none = || DeviceError::Unsupported("no pass is resident on this device".into());
        let resident = self.resident.ok_or_else(none)?;
        self.with(|link, number| {
            if resident.worker == number { work(link, resident) } else { Err(RequestError::Past(self.shared.loss())) }
        })
    }
}

/// Says that a worker is lost, when it is dropped.
struct LossGuard<'a>(&'a SharedWorker);

impl Drop for LossGuard<'_> {
    fn drop(&mut self) {
        self.0.give_up(None, DeviceError::Lost("a request to its worker failed for a fault of this program".into()));
    }
}

impl Drop for WorkerDevice {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(supervisor) = self.supervisor.take() {
            // It only panics for a fault of ours, which it has logged.
            let _ = supervisor.join();
        }
    }
}

impl Device for WorkerDevice {
    /// As it was last, with no free memory, while there is no worker.
    fn info(&self) -> DeviceInfo {
        let asked = self.with(|link, _| ask!(link, Request::Describe, Reply::Device(info) => info));
        let info = asked.unwrap_or_else(|_| DeviceInfo { free_bytes: 0, ..self.last_info() });
        *self.info.lock() = info.clone();
        info
    }

    fn fault(&self) -> Option<DeviceError> {
        self.shared.fault()
    }

    fn distrust(&mut self, why: &DeviceError) {
        // A worker that took the place of the one with the slots is not to blame.
        let _ = self.with_resident::<()>(|_, _| Err(RequestError::Broken(why.clone())));
    }

    fn slots_that_fit(&self, n: u32) -> u32 {
        let asked = self.with(|link, _| ask!(link, Request::CountSlots(n), Reply::Slots(slots) => slots));
        asked.unwrap_or(0)
    }

    fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        self.resident = None;
        let count = u64::from(pass.count);
        let (digests, worker) = self.with(|link, worker| {
            let steps = RequestSteps::slots(count);
            Ok((link.ask_bytes(Request::Fill(*pass), count * HASH_BYTES, handle, steps)?, worker))
        })?;
        self.resident = Some(Resident { worker, slots: Slots::from(pass), walks: None });
        Ok(digests_of(&digests))
    }

    fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        let digests = self.ask_rounds(Request::Round(*round), 1, handle)?;
        self.note_walks(round.walks);
        one_digest(digests)
    }

    fn probe_rounds(&mut self, probe: &ProbeRounds, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        let digests = self.ask_rounds(Request::Probe(*probe), probe.rounds, handle)?;
        self.note_walks(probe.walks);
        Ok(digests)
    }

    fn step_states(&mut self, share: &LinkedShare, states: &mut [StateBytes]) -> Result<(), DeviceError> {
        share.check(states.len())?;
        self.with_resident(|link, _| link.step_states(share, states))
    }

    fn share_slots(&mut self) -> Result<Option<SharedSlots>, DeviceError> {
        self.with_resident(|link, _| link.share_slots())
    }

    fn map_peers(&mut self, peers: &[PeerSlots]) -> Result<bool, DeviceError> {
        self.with_resident(|link, _| link.map_peers(peers))
    }

    fn linked_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        let digests = self.ask_rounds(Request::LinkedRound(*round), 1, handle)?;
        self.note_walks(round.walks);
        one_digest(digests)
    }

    fn unmap_peers(&mut self) {
        // A worker that is gone maps nothing, and one that cannot let go is ended for it.
        let _ = self.with(|link, _| link.unmap_peers());
    }

    fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError> {
        self.with_resident(|link, resident| {
            let bytes = u64::from(resident.walks.unwrap_or(0).min(MAX_WALKS)) * STATE_BYTES;
            link.ask_bytes(Request::ReadStates, bytes, &Handle::default(), RequestSteps::none())
        })
    }

    fn sweep_round(&mut self, round: &SweepRound, handle: &Handle) -> Result<Digest, DeviceError> {
        one_digest(self.ask_rounds(Request::SweepRound(*round), 1, handle)?)
    }

    fn sweep_sums(&mut self, round: &SweepRound, handle: &Handle) -> Result<Vec<u8>, DeviceError> {
        self.with_resident(|link, resident| {
            resident.slots.check_sweep(round).map_err(RequestError::Device)?;
            let bytes = sums_bytes(round.n, round.count);
            link.ask_bytes(Request::ReadSums(*round), bytes, handle, RequestSteps::of(0))
        })
    }

    fn sweep_rounds(&mut self, sweep: &SweepRounds, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        self.ask_rounds(Request::Sweep(*sweep), sweep.rounds, handle)
    }

    fn open_sums(&mut self, round: &SweepRound, at: &[u64], handle: &Handle) -> Result<Vec<Opening>, DeviceError> {
        let mut all = Vec::with_capacity(at.len());
        for at in at.chunks(MAX_RANGES) {
            let bytes = self.with_resident(|link, resident| {
                resident.slots.check_sweep(round).map_err(RequestError::Device)?;
                let request = Request::OpenSums(*round, at.to_vec());
                let bytes = at.len() as u64 * opening_bytes(round);
                link.ask_bytes(request, bytes, handle, RequestSteps::of(0))
            })?;
            let openings = at.iter().zip(bytes.chunks_exact(opening_bytes(round) as usize));
            all.extend(openings.map(|(&first_byte, bytes)| opening(first_byte, bytes)));
        }
        Ok(all)
    }

    fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        let read = self.read_all(&[SlotRange { slot, first_byte, bytes: out.len() as u64 }])?;
        out.copy_from_slice(&read);
        Ok(())
    }

    fn read_all(&mut self, ranges: &[SlotRange]) -> Result<Vec<u8>, DeviceError> {
        let mut all = Vec::new();
        for ranges in ranges.chunks(MAX_RANGES) {
            let bytes = ranges.iter().fold(0, |sum: u64, range| sum.saturating_add(range.bytes));
            let read = self.with_resident(|link, _| {
                link.ask_bytes(Request::Read(ranges.to_vec()), bytes, &Handle::default(), RequestSteps::none())
            })?;
            all.extend_from_slice(&read);
        }
        Ok(all)
    }

    fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<[u8; 32]>, DeviceError> {
        let bytes = self.with_resident(|link, resident| {
            let bytes = resident.slots.slot_bytes().checked_div(subtree_bytes).unwrap_or(0) * HASH_BYTES;
            let request = Request::ReadChainingValues { slot, subtree_bytes };
            link.ask_bytes(request, bytes, &Handle::default(), RequestSteps::none())
        })?;
        Ok(hashes_of(&bytes).collect())
    }

    fn release(&mut self) {
        self.resident = None;
        // A worker that is gone holds nothing, and one that cannot give it back is ended for it.
        let _ = self.with(|link, _| ask!(link, Request::Release, Reply::Done => ()));
    }

    /// Empty without a worker.
    fn kernels(&self, precision: Precision) -> Vec<String> {
        let asked = self.with(|link, _| ask!(link, Request::ListKernels(precision), Reply::Kernels(names) => names));
        asked.unwrap_or_default()
    }

    fn choose_kernel(&mut self, precision: Precision, kernel: &str) -> Result<(), DeviceError> {
        self.with(|link, _| ask!(link, Request::ChooseKernel(precision, kernel.to_owned()), Reply::Done => ()))
    }

    fn time_products(&mut self, products: u32) -> Result<Duration, DeviceError> {
        self.with_resident(|link, _| ask!(link, Request::TimeProducts(products), Reply::Took(took) => took))
    }

    fn test_copies(&mut self, source: &CopySource) -> Result<CopyReport, DeviceError> {
        self.with(|link, _| ask!(link, Request::TestCopies(source.clone()), Reply::Copied(report) => report))
    }
}

impl WorkerDevice {
    /// The digests of all rounds of a probe or a sweep.
    fn ask_rounds(&self, request: Request, rounds: u32, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        if rounds == 0 || rounds > MAX_ROUNDS {
            return Err(DeviceError::Unsupported(format!("{rounds} rounds")));
        }
        let rounds = u64::from(rounds);
        let ask =
            |link: &mut WorkerLink| link.ask_bytes(request, rounds * HASH_BYTES, handle, RequestSteps::of(rounds));
        Ok(digests_of(&self.with_resident(|link, _| ask(link))?))
    }

    fn note_walks(&mut self, walks: u32) {
        if let Some(resident) = &mut self.resident {
            resident.walks = Some(walks);
        }
    }
}

/// Bytes of an opened chunk of the sums of a round, which are resident slots', and of its siblings.
fn opening_bytes(round: &SweepRound) -> u64 {
    let siblings = expected_siblings(CHUNK_BYTES, sums_bytes(round.n, round.count));
    CHUNK_BYTES + siblings as u64 * HASH_BYTES
}

fn opening(first_byte: u64, bytes: &[u8]) -> Opening {
    let (bytes, siblings) = bytes.split_at(CHUNK_BYTES as usize);
    Opening { first_byte, bytes: bytes.to_vec(), siblings: hashes_of(siblings).map(ChainingValue).collect() }
}

fn one_digest(mut digests: Vec<Digest>) -> Result<Digest, DeviceError> {
    digests.pop().ok_or_else(|| DeviceError::Lost("its worker gave no digest".into()))
}

fn digests_of(bytes: &[u8]) -> Vec<Digest> {
    hashes_of(bytes).map(Digest).collect()
}
