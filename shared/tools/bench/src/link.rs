//! How fast the devices of a host reach one another's memory, by the path that a linked probe takes (WORK.md, Linked
//! probe): states go from device thread to device thread through host memory, each stepped in bulk where its line is.

use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use assay_device::host::{DeviceReport, Host, wait_for_all};
use assay_device::run::ShareTask;
use assay_device::{Device, DeviceError, Handle, LinkedShare, MAX_STEPPED_STATES, StateBytes, linked};
use assay_work::bounds::Crossing;
use assay_work::challenge::MIN_COUNT;
use assay_work::probe::{LINE_BYTES, MIN_WALKS, start_state, state_bytes};
use assay_work::{Challenge, DeviceId, Probe, ProbeSeed, Root, RoundKey, Share, UncheckedChallenge, UncheckedProbe};

use crate::report::{LinkFigures, LinkedDevice, LinkedProbeFigure, PairFigure};
use crate::runner::{BenchProgress, SAMPLE_S, median};

/// The slots of a device are as many as take this many bytes: more than most caches hold.
const SLOTS_BYTES: u64 = 256 << 20;
/// The most slots of a device: enough lines at any size.
const MAX_COUNT: u64 = 256;
/// The most walks of a device: as many as WORK.md asks policies for on GPUs.
const MAX_WALKS: u64 = 1 << 18;
/// The bytes of slots that there are at least for each walk: the states are 1/64 of the slots then.
const SLOT_BYTES_PER_WALK: u64 = 64 * LINE_BYTES as u64;
/// Steps of a round, as WORK.md recommends to policies.
const STEPS: u32 = 64;
/// Batches of states that a device may be ahead of the one that it hands them to.
const BATCHES_AHEAD: usize = 2;
/// The most batches, and rounds of a probe, of one sample.
const MAX_REPEATS: f64 = 1000.0;

#[derive(Debug, Clone, Copy)]
pub struct LinkPlan {
    pub n: u32,
    /// Number of samples of each.
    pub rounds: u32,
}

/// A failure to measure links.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkBenchError {
    /// Fewer than two devices.
    #[error("a linked probe needs two devices at least, here is {0}")]
    TooFew(usize),
    /// A device has too little memory.
    #[error("device {device}: {fit} slots of n = {n} fit into the memory that is free, {MIN_COUNT} are needed")]
    NoRoom {
        /// The device's name.
        device: String,
        /// Number of slots that fit.
        fit: u32,
        n: u32,
    },
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Measures every ordered pair of devices, each device alone, and a linked probe over all of them; gives their memory
/// back.
pub fn measure(host: &Host, sizes: &'static [u32], plan: &LinkPlan) -> Result<LinkFigures, LinkBenchError> {
    let progress = BenchProgress::new();
    let measured = LinkRunner::start(host, sizes, plan, &progress).and_then(|runner| runner.run());
    host.release();
    measured
}

struct LinkRunner<'a> {
    host: &'a Host,
    plan: &'a LinkPlan,
    progress: &'a BenchProgress,
    reports: Vec<DeviceReport>,
    challenge: Challenge,
    /// The root of the only pass of each device.
    roots: Vec<Root>,
    /// Number of walks of a device.
    walks: u32,
}

impl<'a> LinkRunner<'a> {
    fn start(
        host: &'a Host,
        sizes: &'static [u32],
        plan: &'a LinkPlan,
        progress: &'a BenchProgress,
    ) -> Result<Self, LinkBenchError> {
        let reports = host.report(sizes)?;
        if reports.len() < 2 {
            return Err(LinkBenchError::TooFew(reports.len()));
        }
        if let Some(fault) = reports.iter().find_map(|report| report.fault.clone()) {
            return Err(fault.into());
        }
        let size = sizes.iter().position(|n| *n == plan.n);
        let size = size.ok_or_else(|| DeviceError::Unsupported(format!("n = {}", plan.n)))?;
        let challenge = challenge(&reports, size, plan.n)?;
        let slots = challenge.shares().iter().map(|share| share.count).min().unwrap_or(MIN_COUNT);
        let walks = u64::from(slots) * slot_bytes(plan.n) / SLOT_BYTES_PER_WALK;
        // CAST: the clamp keeps it small.
        let walks = walks.clamp(MIN_WALKS.into(), MAX_WALKS) as u32;
        // The next lower power of two.
        let walks = 1 << walks.ilog2();
        progress.show_text(&format!("n = {}: filling the slots of {} devices", plan.n, reports.len()));
        let roots = fill(host, &challenge)?;
        Ok(Self { host, plan, progress, reports, challenge, roots, walks })
    }

    fn run(&self) -> Result<LinkFigures, LinkBenchError> {
        let devices = self.challenge.shares();
        let places = 0..devices.len();
        let mut pairs = Vec::with_capacity(devices.len() * devices.len());
        for (from, to) in places.clone().flat_map(|from| places.clone().map(move |to| (from, to))) {
            self.progress.show_text(&format!("n = {}: states of device {from} to device {to}", self.plan.n));
            pairs.push(self.pair(from, to)?);
        }
        self.progress.show_text(&format!("n = {}: a linked probe of {} devices", self.plan.n, devices.len()));
        let probe = self.probe()?;
        let device = |(report, share): (&DeviceReport, &Share)| LinkedDevice {
            device_id: report.info.id,
            name: report.info.name.clone(),
            backend: report.info.backend.to_string(),
            slots: share.count,
        };
        let devices = self.reports.iter().zip(devices).map(device).collect();
        Ok(LinkFigures { n: self.plan.n, devices, pairs, probe })
    }

    /// The rate of one ordered pair; of a device with itself: that of its own states.
    fn pair(&self, from: usize, to: usize) -> Result<PairFigure, DeviceError> {
        let first = self.exchange(from, to, 2)?;
        let batches = (2.0 * SAMPLE_S / first.elapsed.as_secs_f64()).clamp(2.0, MAX_REPEATS);
        let mut samples_per_s = Vec::with_capacity(self.plan.rounds as usize);
        for _ in 0..self.plan.rounds {
            // CAST: bounded on both sides.
            samples_per_s.push(self.exchange(from, to, batches.ceil() as u32)?.bytes_per_s());
        }
        Ok(PairFigure { from, to, bytes_per_s: median(&samples_per_s), samples_per_s })
    }

    /// Steps batches of states on one device and hands each to another one, which steps it too: the way of a walk whose
    /// line is there. Timed from the arrival of the first batch.
    fn exchange(&self, from: usize, to: usize, batches: u32) -> Result<LinkTransfer, DeviceError> {
        let states = self.states(from);
        let bytes = u64::from(batches) * states.as_flattened().len() as u64;
        let (near, far) = (self.alone(from), self.alone(to));
        if from == to {
            let job = move |device: &mut dyn Device| step_batches(device, &near, states, batches, |_| true);
            let elapsed = self.host.submit(self.id(from), job)?.wait()??;
            return Ok(LinkTransfer { bytes, elapsed });
        }
        let (give, taken) = mpsc::sync_channel(BATCHES_AHEAD);
        let hand_over = move |device: &mut dyn Device| {
            step_batches(device, &near, states, batches, |states| give.send(states.to_vec()).is_ok())
        };
        let sender = self.host.submit(self.id(from), hand_over)?;
        let receiver = self.host.submit(self.id(to), move |device| take_over(device, &far, &taken))?;
        // The device that failed made the other one stop.
        let times = wait_for_all(vec![sender, receiver])?;
        Ok(LinkTransfer { bytes, elapsed: times[1] })
    }

    fn probe(&self) -> Result<LinkedProbeFigure, LinkBenchError> {
        let first = self.walk(1)?.1;
        let rounds = (5.0 * SAMPLE_S / first).clamp(1.0, MAX_REPEATS).ceil();
        let (mut samples_s, mut walked) = (Vec::with_capacity(self.plan.rounds as usize), None);
        for _ in 0..self.plan.rounds {
            // CAST: bounded on both sides.
            let (probe, seconds) = self.walk(rounds as u32)?;
            samples_s.push(seconds);
            walked = Some(probe);
        }
        // There is at least one sample.
        let probe = walked.ok_or_else(|| DeviceError::Unsupported("no rounds".into()))?;
        let (seconds, crossed_bytes) = (median(&samples_s), Crossing::of(&self.challenge, &probe).devices_bytes);
        let devices = self.reports.len() as f64;
        Ok(LinkedProbeFigure {
            walks: probe.walks(),
            steps: probe.steps(),
            rounds: probe.rounds(),
            seconds,
            step_seconds: seconds / (rounds * f64::from(probe.steps())),
            crossed_bytes,
            bytes_per_s: crossed_bytes / seconds,
            bytes_per_s_into_each: crossed_bytes / seconds / devices,
            samples_s,
        })
    }

    /// The probe of `rounds` rounds, and its time in seconds.
    fn walk(&self, rounds: u32) -> Result<(Probe, f64), LinkBenchError> {
        let probe = UncheckedProbe { seed: ProbeSeed([3; 32]), walks: self.walks, steps: STEPS, rounds, link: 1 };
        let unsupported = |error: assay_work::ProbeError| DeviceError::Unsupported(error.to_string());
        let probe = Probe::try_from(probe).map_err(unsupported)?;
        let parts = linked::parts(&self.challenge, &probe, &self.roots)?;
        let start = Instant::now();
        let walk = |(share, part): (&Share, linked::LinkedPart)| {
            self.host.submit(share.device_id, move |device| part.walk(device, &Handle::default()))
        };
        let jobs = self.challenge.shares().iter().zip(parts).map(walk).collect::<Result<Vec<_>, _>>()?;
        wait_for_all(jobs)?;
        Ok((probe, start.elapsed().as_secs_f64()))
    }

    fn id(&self, device: usize) -> DeviceId {
        self.challenge.shares()[device].device_id
    }

    /// A device's slots as if there were no others: every state names one of its lines.
    fn alone(&self, device: usize) -> LinkedShare {
        let Share { count, .. } = self.challenge.shares()[device];
        LinkedShare { n: self.plan.n, offset: 0, count, total: count }
    }

    /// A batch of states to begin with.
    fn states(&self, device: usize) -> Vec<StateBytes> {
        // CAST: a host has at most 64 devices.
        let key = RoundKey([device as u8; 32]);
        // CAST: far below 32 bits.
        let walks = self.walks.min(MAX_STEPPED_STATES as u32);
        (0..walks).map(|walk| state_bytes(&start_state(&key, walk))).collect()
    }
}

/// The bytes that went from device to device, and their time.
struct LinkTransfer {
    bytes: u64,
    elapsed: Duration,
}

impl LinkTransfer {
    fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64()
    }
}

/// Steps the same states again and again, and gives each batch away while that is taken.
fn step_batches(
    device: &mut dyn Device,
    share: &LinkedShare,
    mut states: Vec<StateBytes>,
    batches: u32,
    mut give: impl FnMut(&[StateBytes]) -> bool,
) -> Result<Duration, DeviceError> {
    let start = Instant::now();
    for _ in 0..batches {
        device.step_states(share, &mut states)?;
        if !give(&states) {
            break;
        }
    }
    Ok(start.elapsed())
}

/// Steps every batch that comes.
fn take_over(
    device: &mut dyn Device,
    share: &LinkedShare,
    taken: &Receiver<Vec<StateBytes>>,
) -> Result<Duration, DeviceError> {
    let mut start = None;
    for mut states in taken {
        start.get_or_insert_with(Instant::now);
        device.step_states(share, &mut states)?;
    }
    let start = start.ok_or(DeviceError::Cancelled)?;
    Ok(start.elapsed())
}

/// A challenge of one iteration over all devices, each with as many slots as fill a part of its memory.
fn challenge(reports: &[DeviceReport], size: usize, n: u32) -> Result<Challenge, LinkBenchError> {
    let wanted = (SLOTS_BYTES / slot_bytes(n)).clamp(MIN_COUNT.into(), MAX_COUNT);
    let mut counts = Vec::with_capacity(reports.len());
    for report in reports {
        let fit = report.slots[size];
        if fit < MIN_COUNT {
            return Err(LinkBenchError::NoRoom { device: report.info.name.clone(), fit, n });
        }
        // CAST: the clamp keeps it small.
        counts.push((report.info.id, fit.min(wanted as u32)));
    }
    let unchecked = UncheckedChallenge::unasked(n, 1, counts);
    Challenge::try_from(unchecked).map_err(|error| DeviceError::Unsupported(error.to_string()).into())
}

/// Fills the slots of all devices, and gives the root of each.
fn fill(host: &Host, challenge: &Challenge) -> Result<Vec<Root>, DeviceError> {
    let fill = |task: ShareTask| {
        let id = task.share.device_id;
        host.submit(id, move |device| task.run(device, &Handle::default()).map(|result| result.roots))
    };
    let jobs = ShareTask::of(challenge).into_iter().map(fill).collect::<Result<Vec<_>, _>>()?;
    Ok(wait_for_all(jobs)?.concat())
}

fn slot_bytes(n: u32) -> u64 {
    u64::from(n) * u64::from(n)
}

#[cfg(test)]
mod tests {
    use assay_kits::FakeDevice;
    use assay_kits::reference::ReferenceDevice;

    use super::*;

    const SIZES: &[u32] = &[256, 512];
    const PLAN: LinkPlan = LinkPlan { n: 256, rounds: 2 };

    fn host(counts: &[u64]) -> Host {
        let device = |(index, slots): (usize, &u64)| {
            Box::new(ReferenceDevice::new(DeviceId([index as u8 + 1; 16]), "a device", slots << 16)) as Box<dyn Device>
        };
        Host::new(counts.iter().enumerate().map(device).collect())
    }

    #[test]
    fn every_ordered_pair_and_the_probe_of_all_are_measured() {
        let host = host(&[3, 5, 4]);
        let figures = measure(&host, SIZES, &PLAN).unwrap();
        assert_eq!(figures.devices.iter().map(|device| device.slots).collect::<Vec<_>>(), [3, 5, 4]);
        let places: Vec<_> = figures.pairs.iter().map(|pair| (pair.from, pair.to)).collect();
        assert_eq!(places, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]);
        for pair in &figures.pairs {
            assert!(pair.samples_per_s.len() == 2 && pair.samples_per_s.contains(&pair.bytes_per_s), "{pair:?}");
            assert!(pair.bytes_per_s.is_finite() && pair.bytes_per_s > 0.0, "{pair:?}");
        }
        let probe = &figures.probe;
        // 3 slots of 64 KiB have 48 times 4 KiB: WORK.md's fewest walks.
        assert_eq!((probe.walks, probe.steps, probe.samples_s.len()), (64, 64, 2));
        let crossed = 64.0 * f64::from(3 * 64 * 63 * probe.rounds) * 7.0 / 12.0;
        assert!((probe.crossed_bytes / crossed - 1.0).abs() < 1e-9, "{probe:?}");
        let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        assert!(close(probe.bytes_per_s, probe.crossed_bytes / probe.seconds), "{probe:?}");
        assert!(close(probe.bytes_per_s_into_each, probe.bytes_per_s / 3.0), "{probe:?}");
        assert!(close(probe.step_seconds * 64.0 * f64::from(probe.rounds), probe.seconds), "{probe:?}");
        let free: Vec<_> = host.report(&[256]).unwrap().into_iter().map(|report| report.slots[0]).collect();
        assert_eq!(free, [3, 5, 4], "memory is given back");
    }

    #[test]
    fn hosts_without_two_devices_that_hold_slots_are_refused() {
        for devices in [&[][..], &[9]] {
            assert_eq!(measure(&host(devices), SIZES, &PLAN).unwrap_err(), LinkBenchError::TooFew(devices.len()));
        }
        let refused = measure(&host(&[9, 2]), SIZES, &PLAN).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "device a device: 2 slots of n = 256 fit into the memory that is free, 3 are needed"
        );
    }

    /// The first device fails when it is asked for lines, the others for its sake.
    #[test]
    fn the_device_that_fails_is_the_one_to_blame() {
        let sick = DeviceError::Sick("gone".into());
        for failing in 0..3 {
            let device = |index: usize| {
                let inner = ReferenceDevice::new(DeviceId([index as u8 + 1; 16]), "a device", 4 << 16);
                let why = sick.clone();
                let read = move |inner: &mut ReferenceDevice, slot, first_byte, out: &mut [u8]| {
                    if index == failing { Err(why.clone()) } else { inner.read(slot, first_byte, out) }
                };
                Box::new(FakeDevice { read: Box::new(read), ..FakeDevice::new(inner) }) as Box<dyn Device>
            };
            let host = Host::new((0..3).map(device).collect());
            assert_eq!(measure(&host, SIZES, &PLAN).unwrap_err(), LinkBenchError::Device(sick.clone()), "{failing}");
        }
    }
}
