//! The miner's work on its devices: a challenge to a commitment, a probe to an answer, an open to openings.
//!
//! Everything here blocks; the driver calls it from threads of its own.

mod linked;
mod opening;

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_device::host::{DeviceReport, Host, PendingResult, wait_for_all};
use assay_device::run::ShareTask;
use assay_device::{DeviceError, DeviceInfo, Handle};
use assay_protocol::identity::Identity;
use assay_protocol::message::{
    DeviceClaim, DeviceDigests, DeviceRoots, Inventory, MATRIX_SIZES, MinerMessage, OpenItem, OpeningsChunk,
    OpeningsPart, SignedChecksum,
};
use assay_telemetry::{NoSensors, Reading, SensorWatch};
use assay_work::commitment::{Evidence, commitment_message, device_checksum};
use assay_work::probe::{Answer, DeviceAnswer, Link, MemoryProbe, Probe, Sweep, probe_checksum, probe_message};
use assay_work::{Challenge, ChallengeId, Checksum, DeviceId, Digest, Root};
use parking_lot::Mutex;

use self::linked::open_linked_items;
use self::opening::{check_linked_items, is_linked, open_own_items};
use crate::limits::{Limits, SharedLimits};
use crate::telemetry;

/// Parts of openings that a device may be ahead of the connection: enough to keep both busy.
const MAX_PARTS_AHEAD: usize = 4;
/// Lines of segments that are planned at a time, over all devices: half a GiB with their siblings. A device alone plans
/// the segments of the strictest policy at once.
const MAX_PLANNED_LINES: usize = if cfg!(test) { 64 } else { 1 << 20 };
/// Samples that are planned at a time, over all devices: half a GiB too, where each has the most ranges.
const MAX_PLANNED_SAMPLES: usize = if cfg!(test) { 8 } else { 1 << 14 };

/// The result of work on devices.
type Result<T, E = DeviceError> = std::result::Result<T, E>;

/// The devices, the key that signs for them, and the challenge that they hold.
pub struct Engine {
    host: Host,
    identity: Identity,
    held: Mutex<Option<Arc<HeldChallenge>>>,
    /// Reads the devices' sensors while they work.
    watch: Box<dyn SensorWatch>,
    /// The challenge that they are read for.
    watched: Mutex<Option<ChallengeId>>,
    limits: SharedLimits,
    /// The devices as they were asked last, those with a fault too, and as they were offered.
    asked: Mutex<Vec<ReportedDevice>>,
    described: Mutex<Option<Inventory>>,
}

/// The pending reports of the devices of a host.
pub struct PendingReports {
    reports: Vec<PendingResult<DeviceReport>>,
    /// The host's changes before it was asked.
    changes: u64,
}

/// A device as it was when it was asked last.
#[derive(Debug, Clone)]
pub struct ReportedDevice {
    /// The device's description.
    pub info: DeviceInfo,
    /// How much of its free memory was offered.
    pub offered_bytes: u64,
    /// Why it could take no work.
    pub fault: Option<DeviceError>,
}

/// The challenge whose slots the devices hold, with its evidence and answers.
struct HeldChallenge {
    challenge: Arc<Challenge>,
    evidence: Evidence,
    /// In the order of the evidence's devices.
    devices: Vec<HeldDevice>,
    /// The probes with their answers.
    answered: Mutex<AnsweredProbes>,
}

/// The last probe of each stage, with its answer.
#[derive(Default)]
struct AnsweredProbes {
    own: Option<(Probe, Arc<Answer>)>,
    linked: Option<(Probe, Arc<Answer>)>,
    sweep: Option<(Sweep, Arc<Answer>)>,
}

/// One device's part of it.
struct HeldDevice {
    task: ShareTask,
    /// Which iteration is resident, and the digests of its slots. Only the device's own jobs change it.
    resident: Mutex<(u32, Arc<Vec<Digest>>)>,
}

impl Engine {
    /// An engine over these devices, without telemetry.
    pub fn new(host: Host, identity: Identity) -> Self {
        Self {
            host,
            identity,
            held: Mutex::new(None),
            watch: Box::new(NoSensors),
            watched: Mutex::new(None),
            limits: SharedLimits::default(),
            asked: Mutex::default(),
            described: Mutex::default(),
        }
    }

    /// The engine that offers no more than the operator allows.
    pub fn limited_by(self, limits: SharedLimits) -> Self {
        Self { limits, ..self }
    }

    /// The engine with its devices' sensors read.
    pub fn watched_by(self, watch: impl SensorWatch + 'static) -> Self {
        Self { watch: Box::new(watch), ..self }
    }

    /// Asks the devices for their reports, and has their sensors read between challenges too.
    ///
    /// # Errors
    /// [`DeviceError::Sick`] when a device's thread is gone.
    pub fn watch_always(&self) -> Result<()> {
        self.inventory(0)?;
        let devices: Vec<_> = self.asked().into_iter().map(|asked| asked.info.id).collect();
        self.watch.watch_always(&devices);
        Ok(())
    }

    /// The last sensor reading of a device, where sensors are read between challenges too. Never waits.
    pub fn latest_reading(&self, device: DeviceId) -> Option<Reading> {
        self.watch.latest(device)
    }

    /// How often a device was lost or came back, or another share of memory was allowed.
    pub fn changes(&self) -> u64 {
        self.host.changes() + self.limits.changes()
    }

    /// The devices as they were asked last. Waits for nothing.
    pub fn asked(&self) -> Vec<ReportedDevice> {
        self.asked.lock().clone()
    }

    /// The devices that can take work, as a session describes them.
    ///
    /// # Errors
    /// [`DeviceError::Sick`] when a device's thread is gone.
    pub fn inventory(&self, sequence: u32) -> Result<Inventory> {
        self.described(self.ask(), sequence).map(|(inventory, _)| inventory)
    }

    /// Asks the devices for their reports, and does not wait for them.
    pub fn ask(&self) -> PendingReports {
        PendingReports { changes: self.host.changes(), reports: self.host.ask(&MATRIX_SIZES) }
    }

    /// The devices that can take work, once they have answered, and the changes ([`Self::changes`]) that they show.
    ///
    /// # Errors
    /// [`DeviceError::Sick`] when a device's thread is gone.
    pub fn described(&self, asked: PendingReports, sequence: u32) -> Result<(Inventory, u64)> {
        let reports: Result<Vec<_>, _> = asked.reports.into_iter().map(PendingResult::wait).collect();
        let (limits, limit_changes) = self.limits.counted();
        let inventory = self.inventory_of(reports?, &limits, sequence);
        *self.described.lock() = Some(inventory.clone());
        Ok((inventory, asked.changes + limit_changes))
    }

    /// The inventory that was read last, for a session that begins while the devices work.
    pub fn last_inventory(&self) -> Option<Inventory> {
        self.described.lock().clone()
    }

    fn inventory_of(&self, reports: Vec<DeviceReport>, limits: &Limits, sequence: u32) -> Inventory {
        let claim = |report: &DeviceReport| {
            let mut slots = [0; MATRIX_SIZES.len()];
            slots.copy_from_slice(&report.slots);
            let info = report.info.clone();
            let claim = DeviceClaim {
                id: info.id,
                name: info.name,
                backend: info.backend.to_string(),
                detail: info.detail,
                total_bytes: info.total_bytes,
                free_bytes: info.free_bytes,
                slots,
                precisions: info.precisions,
                claimed_hardware: self.watch.hardware(info.id),
            };
            // The session splits challenges by the very numbers that it sends.
            limits.offered(claim.consistent())
        };
        let asked = reports.into_iter().map(|report| (report.fault.is_none().then(|| claim(&report)), report));
        let (devices, asked): (Vec<_>, Vec<_>) = asked
            .map(|(claim, DeviceReport { info, fault, .. })| {
                let offered_bytes = claim.as_ref().map_or(0, |claim| claim.free_bytes);
                (claim, ReportedDevice { info, offered_bytes, fault })
            })
            .unzip();
        *self.asked.lock() = asked;
        let devices: Vec<_> = devices.into_iter().flatten().collect();
        let max_link = if devices.len() > 1 { Link::All } else { Link::Own };
        Inventory { sequence, devices, max_link, sweeps: true }
    }

    /// Computes every share of a challenge, all devices at once, and commits to it: gives the signed commitment and
    /// the roots of each device, to be sent in this order. Each device is `finished` before, with the checksum of its
    /// roots.
    ///
    /// # Errors
    /// The first device's that failed; the others are cancelled, and nothing is held.
    pub fn work(
        &self,
        challenge: &Arc<Challenge>,
        handle: &Handle,
        finished: impl Fn(DeviceId, Checksum) + Clone + Send + 'static,
    ) -> Result<Vec<MinerMessage>> {
        let start = Instant::now();
        let tasks = ShareTask::of(challenge);
        self.watch_for(challenge);
        let submit = |task: &ShareTask| {
            let (task, handle, finished) = (task.clone(), handle.clone(), finished.clone());
            self.host.submit(task.share.device_id, move |device| {
                let result = cancel_on_error(&handle, task.run(device, &handle))?;
                finished(task.share.device_id, device_checksum(&task.share, &result.roots));
                Ok(result)
            })
        };
        let jobs = tasks.iter().map(submit).collect::<Result<Vec<_>, _>>()?;
        let results = wait_for_all(jobs)?;
        let (mut roots, mut devices, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for (task, result) in tasks.into_iter().zip(results) {
            roots.push(result.roots);
            times.push(result.elapsed);
            let resident = Mutex::new((task.iterations - 1, Arc::new(result.last_digests)));
            devices.push(HeldDevice { task, resident });
        }
        let evidence = Evidence::assemble(challenge, roots);
        let (challenge_id, checksum) = (challenge.id(), evidence.checksum);
        let signature = self.identity.sign(&commitment_message(challenge.work_key(), &checksum));
        let claimed = start.elapsed();
        let mut messages =
            vec![MinerMessage::Commitment(SignedChecksum { challenge_id, checksum, signature, claimed })];
        messages.extend(evidence.devices.iter().zip(times).map(|(evidence, claimed)| {
            let claimed_telemetry = self.watch.so_far(evidence.device_id).map(Box::new);
            MinerMessage::DeviceRoots(DeviceRoots {
                challenge_id,
                evidence: evidence.clone(),
                claimed,
                claimed_telemetry,
            })
        }));
        let held = HeldChallenge { challenge: challenge.clone(), evidence, devices, answered: Mutex::default() };
        *self.held.lock() = Some(Arc::new(held));
        Ok(messages)
    }

    /// Walks a probe over the slots held, or sums over them, all devices at once: gives the signed answer and the digests
    /// of each device, to be sent in this order. Each device that walks over its own slots is `finished` before,
    /// with the checksum of its digests.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when the challenge is not held; else the first device's that failed.
    pub fn probe(
        &self,
        id: ChallengeId,
        probe: impl Into<MemoryProbe>,
        handle: &Handle,
        finished: impl Fn(DeviceId, Checksum) + Clone + Send + 'static,
    ) -> Result<Vec<MinerMessage>> {
        let (start, probe) = (Instant::now(), probe.into());
        let held = self.held(id)?;
        let results = match &probe {
            MemoryProbe::Walks(probe) if probe.link() == Link::All => held.walk_linked(&self.host, probe, handle)?,
            own => self.probe_own(&held, own, handle, finished)?,
        };
        let (digests, times): (Vec<_>, Vec<_>) = results.into_iter().unzip();
        let answer = Answer::assemble(&held.challenge, probe, digests);
        let (challenge_id, checksum) = (id, answer.checksum);
        let message = probe_message(held.challenge.work_key(), &held.evidence.checksum, probe, &checksum);
        let (signature, claimed) = (self.identity.sign(&message), start.elapsed());
        let mut messages =
            vec![MinerMessage::ProbeAnswer(SignedChecksum { challenge_id, checksum, signature, claimed })];
        messages.extend(answer.devices.iter().zip(times).map(|(answer, claimed)| {
            MinerMessage::DeviceDigests(DeviceDigests { challenge_id, answer: answer.clone(), claimed })
        }));
        let (mut answered, answer) = (held.answered.lock(), Arc::new(answer));
        match probe {
            MemoryProbe::Walks(probe) if probe.link() == Link::Own => answered.own = Some((probe, answer)),
            MemoryProbe::Walks(probe) => answered.linked = Some((probe, answer)),
            MemoryProbe::Sweep(sweep) => answered.sweep = Some((sweep, answer)),
        }
        Ok(messages)
    }

    /// Probes each device's own slots: the digests of each, and how long it took.
    fn probe_own(
        &self,
        held: &HeldChallenge,
        probe: &MemoryProbe,
        handle: &Handle,
        finished: impl Fn(DeviceId, Checksum) + Clone + Send + 'static,
    ) -> Result<Vec<(Vec<Digest>, Duration)>> {
        let submit = |of: &HeldDevice| {
            let last = last_root(held.roots(&of.task));
            let (task, probe, handle, finished) = (of.task.clone(), *probe, handle.clone(), finished.clone());
            let challenge = held.challenge.clone();
            self.host.submit(task.share.device_id, move |device| {
                let began = Instant::now();
                let digests = match &probe {
                    MemoryProbe::Walks(probe) => task.run_probe(device, probe, &last, &handle),
                    MemoryProbe::Sweep(sweep) => task.run_sweep(device, sweep, &last, &handle),
                };
                let (digests, took) = cancel_on_error(&handle, digests.map(|d| (d, began.elapsed())))?;
                let answer = DeviceAnswer { device_id: task.share.device_id, digests };
                if probe.walks().is_some() {
                    finished(answer.device_id, probe_checksum(&challenge, probe, std::slice::from_ref(&answer)));
                }
                Ok((answer.digests, took))
            })
        };
        wait_for_all(held.devices.iter().map(submit).collect::<Result<Vec<_>, _>>()?)
    }

    /// Opens items, each device on its own thread, and gives the chunks in the order of the items. Stops
    /// when `give` returns false: the receiver is gone.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when the challenge, a device or an iteration is not held; else the first
    /// device's that failed.
    pub fn open(
        &self,
        id: ChallengeId,
        items: Vec<OpenItem>,
        handle: &Handle,
        mut give: impl FnMut(OpeningsChunk) -> bool,
    ) -> Result<()> {
        let held = self.held(id)?;
        check_linked_items(&items)?;
        // The Open had this many items, which its bounds keep far below a u32.
        let mut item = 0_u32;
        let mut give = |part| {
            let is_end = matches!(part, OpeningsPart::End);
            give_or_cancel(&mut give, handle, OpeningsChunk { challenge_id: id, item, part })?;
            item += u32::from(is_end);
            Ok(())
        };
        for group in items.chunk_by(|a, b| is_linked(a) == is_linked(b)) {
            if is_linked(&group[0]) {
                open_linked_items(&self.host, &held, group, handle, &mut give)?;
            } else {
                open_own_items(&self.host, &held, group, handle, &mut give)?;
            }
        }
        Ok(())
    }

    /// Forgets the challenge held and gives the devices' memory back, once running jobs have ended.
    pub fn release(&self) {
        self.forget();
        self.host.release();
    }

    /// Gives the memory of idle devices back, and waits for nothing.
    pub fn start_release(&self) {
        // Jobs queued after the release wait for it.
        drop(self.host.start_release());
    }

    /// Forgets the challenge held; the devices keep its memory for the next one.
    pub fn forget(&self) {
        *self.held.lock() = None;
        let devices = self.watch.end();
        if let Some(challenge) = self.watched.lock().take() {
            telemetry::log(challenge, &devices, self.watch.trouble().as_deref());
        }
    }

    fn watch_for(&self, challenge: &Challenge) {
        let ids: Vec<_> = challenge.shares().iter().map(|share| share.device_id).collect();
        self.watch.begin(&ids);
        *self.watched.lock() = Some(challenge.id());
    }

    fn held(&self, id: ChallengeId) -> Result<Arc<HeldChallenge>> {
        let held = self.held.lock().clone().filter(|held| held.challenge.id() == id);
        held.ok_or_else(|| DeviceError::Unsupported(format!("challenge {id} is not held here")))
    }
}

impl HeldChallenge {
    fn device(&self, id: DeviceId) -> Result<&HeldDevice> {
        self.index_of(id).map(|index| &self.devices[index])
    }

    /// Which of the devices this is, in the order of the shares.
    fn index_of(&self, id: DeviceId) -> Result<usize> {
        let index = self.devices.iter().position(|d| d.task.share.device_id == id);
        index.ok_or_else(|| DeviceError::Unsupported(format!("the challenge has no share for device {id}")))
    }

    /// The linked probe, and what all devices answered.
    fn answered_linked(&self) -> Result<(Probe, Arc<Answer>)> {
        let answered = self.answered.lock().linked.clone();
        answered.ok_or_else(|| DeviceError::Unsupported("no linked probe was answered".into()))
    }

    /// The roots that a device committed to: the evidence has every device of the challenge.
    fn roots(&self, task: &ShareTask) -> &[Root] {
        self.evidence.device(task.share.device_id).map_or(&[], |device| &device.roots)
    }
}

/// Hands a chunk on; when the receiver is gone, the devices stop.
fn give_or_cancel(give: &mut impl FnMut(OpeningsChunk) -> bool, handle: &Handle, chunk: OpeningsChunk) -> Result<()> {
    cancel_on_error(handle, if give(chunk) { Ok(()) } else { Err(DeviceError::Cancelled) })
}

/// One device's failure stops the others: nothing partial is committed to.
pub(crate) fn cancel_on_error<T>(handle: &Handle, result: Result<T>) -> Result<T> {
    if result.is_err() {
        handle.cancel();
    }
    result
}

fn last_root(roots: &[Root]) -> Root {
    roots.last().copied().unwrap_or(Root::BEFORE_FIRST)
}

#[cfg(test)]
mod tests;
