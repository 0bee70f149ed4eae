//! The messages of the pipe, in the devices' own types. Both ends are one binary: the greeting says so.
//!
//! The other end may be a dying process, so that every message is checked once, as it is read: texts are printable and
//! bounded, lists and numbers are in their range.

use std::collections::BTreeSet;
use std::time::Duration;

use assay_device::accumulator::{MAX_UNIT_FAILURE_BYTES, MAX_UNIT_NAME_BYTES, MAX_UNITS};
use assay_device::backend::{Absence, BackendKind, DetectedDevice, MAX_HOST_DEVICES, MAX_SPEC_BYTES, StartupProgress};
use assay_device::copies::{CopyReport, CopySource};
use assay_device::place::{MAX_PCI_DEVICE, MAX_PCI_FUNCTION};
use assay_device::{
    DeviceError, DeviceInfo, LinkedShare, MAX_DEVICE_DETAIL_BYTES, MAX_DEVICE_NAME_BYTES, MAX_LINKED_DEVICES,
    MAX_STEPPED_STATES, Pass, ProbeRound, ProbeRounds, SlotRange, SweepRound, SweepRounds,
};
use assay_work::Precision;
use assay_work::probe::{LINE_BYTES, MAX_ROUNDS};
use assay_work::text::{is_printable, printable};
use serde::{Deserialize, Serialize};

use super::frame::MAX_DATA_BYTES;

/// Ranges, or chunks of sums, of one request: the lines of four of the longest walks.
pub const MAX_RANGES: usize = 4096;
/// States of one request to move them on.
pub const MAX_SENT_STATES: usize = MAX_DATA_BYTES / LINE_BYTES;
/// Bytes of a path of memory for states.
pub const MAX_PATH_BYTES: usize = 4096;
/// Product kernels of one device.
pub const MAX_KERNELS: usize = 64;
/// Bytes of a kernel's name.
pub const MAX_KERNEL_BYTES: usize = 64;
/// Bytes of a reason, in an error or for a backend without devices.
pub const MAX_REASON_BYTES: usize = 1024;

/// The version that both ends must have: another build could mean other things by the same bytes.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A message to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToWorker {
    /// A request, with its number.
    Request(u64, Request),
    /// Cancels the request of this number.
    Cancel(u64),
}

/// A request to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// [`Backend::detect`](assay_device::backend::Backend::detect).
    Detect {
        backend: BackendKind,
        /// The backend's settings, as JSON.
        settings: String,
    },
    /// [`Backend::open`](assay_device::backend::Backend::open).
    Open {
        backend: BackendKind,
        /// The backend's settings, as JSON.
        settings: String,
        /// The device, as the backend described it.
        spec: String,
    },
    /// Compares the device with known bits.
    SelfTest,
    /// `Device::info`.
    Describe,
    /// `Device::slots_that_fit`.
    CountSlots(u32),
    /// `Device::fill`.
    Fill(Pass),
    /// `Device::probe_rounds`.
    Probe(ProbeRounds),
    /// `Device::probe_round`.
    Round(ProbeRound),
    /// `Device::step_states`.
    StepStates {
        /// The place of the device's slots among all.
        share: LinkedShare,
        /// At most [`MAX_SENT_STATES`], one after another.
        #[serde(with = "serde_bytes")]
        states: Vec<u8>,
    },
    /// To open memory for states, by the path of its file.
    ShareStates(String),
    /// `Device::step_states`, of the first states in that memory.
    StepShared {
        /// The place of the device's slots among all.
        share: LinkedShare,
        /// Number of states, at most [`MAX_STEPPED_STATES`].
        states: u32,
    },
    /// To connect to the socket that handles of memory come over, at this path.
    ConnectHandles(String),
    /// `Device::share_slots`; the handle goes over the socket.
    ShareSlots,
    /// `Device::map_peers`, whose handles are on the socket, in their order.
    MapPeers(Vec<PeerShare>),
    /// `Device::linked_round`.
    LinkedRound(ProbeRound),
    /// `Device::unmap_peers`.
    UnmapPeers,
    /// `Device::probe_states`.
    ReadStates,
    /// `Device::sweep_rounds`.
    Sweep(SweepRounds),
    /// `Device::sweep_round`.
    SweepRound(SweepRound),
    /// `Device::sweep_sums`.
    ReadSums(SweepRound),
    /// `Device::open_sums` of the chunks that begin at these bytes, at most [`MAX_RANGES`]. The answer is the bytes and
    /// the siblings of each.
    OpenSums(SweepRound, Vec<u64>),
    /// `Device::read_all`.
    Read(Vec<SlotRange>),
    /// `Device::chaining_values`.
    ReadChainingValues {
        slot: u32,
        /// Bytes of each subtree.
        subtree_bytes: u64,
    },
    /// `Device::release`.
    Release,
    /// `Device::kernels`.
    ListKernels(Precision),
    /// `Device::choose_kernel`.
    ChooseKernel(Precision, String),
    /// `Device::time_products`.
    TimeProducts(u32),
    /// `Device::test_copies`.
    TestCopies(CopySource),
}

/// A device of a linked probe, without its handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerShare {
    /// The place of its slots among all.
    pub share: LinkedShare,
    /// Bytes of its memory; `None`: the worker's own device.
    pub bytes: Option<u64>,
}

/// A message of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromWorker {
    /// The first message: [`VERSION`]. Its encoding stays as it is, so that builds can recognise each other.
    Hello(String),
    Heartbeat {
        /// The current request, 0 for none.
        number: u64,
        /// Its finished steps.
        done_steps: u64,
    },
    /// Progress of a device's start-up.
    Preparing(StartupProgress),
    /// An answer, or a part of one.
    Reply {
        /// The request.
        number: u64,
        /// Its finished steps.
        done_steps: u64,
        /// The answer.
        reply: Reply,
    },
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The devices of a backend, in order of id, or the reason that there are none.
    Detected(Result<Vec<DetectedDevice>, Absence>),
    /// The device's description.
    Device(DeviceInfo),
    /// How many slots fit.
    Slots(u32),
    /// A part of the bytes asked for.
    Data {
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
        /// Whether it is the last one.
        last: bool,
    },
    /// Bytes of the shared slots; `None` where they are not shared.
    SharedSlots(Option<u64>),
    /// Whether the device reaches all that it was to map.
    Mapped(bool),
    Kernels(Vec<String>),
    /// The time of the request's work.
    Took(Duration),
    /// The result of a copy test.
    Copied(CopyReport),
    /// Done, without a result.
    Done,
    Failed(DeviceError),
}

/// A field of a message that breaks its bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct MalformedField {
    pub field: &'static str,
    /// The violated bound.
    pub problem: String,
}

/// A text of a message: its name, its longest length in bytes, itself.
type Text<'a> = (&'static str, usize, &'a mut String);

impl ToWorker {
    /// Checks every bound of a message that was read.
    ///
    /// # Errors
    /// [`MalformedField`]: the first field that breaks its bound.
    pub fn check(&self) -> Result<(), MalformedField> {
        let Self::Request(_, request) = self else { return Ok(()) };
        match request {
            Request::Read(ranges) => at_most("Read.ranges", MAX_RANGES, ranges.len()),
            Request::Probe(ProbeRounds { rounds, .. }) => check_rounds("Probe.rounds", *rounds),
            Request::Sweep(SweepRounds { rounds, .. }) => check_rounds("Sweep.rounds", *rounds),
            Request::OpenSums(_, at) => at_most("OpenSums.at", MAX_RANGES, at.len()),
            Request::StepStates { states, .. } => {
                at_most("StepStates.states", MAX_DATA_BYTES, states.len())?;
                ensure("StepStates.states", states.len() % LINE_BYTES == 0, || "a part of a state".into())
            }
            Request::ShareStates(path) => at_most("ShareStates.path", MAX_PATH_BYTES, path.len()),
            Request::ConnectHandles(path) => at_most("ConnectHandles.path", MAX_PATH_BYTES, path.len()),
            Request::MapPeers(peers) => at_most("MapPeers.peers", MAX_LINKED_DEVICES, peers.len()),
            Request::StepShared { states, .. } => at_most("StepShared.states", MAX_STEPPED_STATES, *states as usize),
            Request::ChooseKernel(_, kernel) => at_most("ChooseKernel.kernel", MAX_KERNEL_BYTES, kernel.len()),
            Request::TestCopies(CopySource::Bytes(bytes)) => at_most("TestCopies.bytes", MAX_DATA_BYTES, bytes.len()),
            _ => Ok(()),
        }
    }
}

impl FromWorker {
    /// The message with its texts made printable and cut to their bounds, as it is sent.
    pub fn bounded(mut self) -> Self {
        for (_, max, text) in self.texts() {
            *text = printable(text, max);
        }
        self
    }

    /// Checks every bound of a message that was read from a worker of `backend`.
    ///
    /// # Errors
    /// [`MalformedField`]: the first field that breaks its bound.
    pub fn check(&mut self, backend: BackendKind) -> Result<(), MalformedField> {
        for (field, max, text) in self.texts() {
            at_most(field, max, text.len())?;
            ensure(field, is_printable(text), || "a character that is not printable".into())?;
        }
        let Self::Reply { reply, .. } = self else { return Ok(()) };
        match reply {
            Reply::Detected(Ok(found)) => check_found(found, backend),
            Reply::Device(info) => check_info(info, backend),
            Reply::Kernels(names) => at_most("Kernels.names", MAX_KERNELS, names.len()),
            Reply::Data { bytes, .. } => at_most("Data.bytes", MAX_DATA_BYTES, bytes.len()),
            _ => Ok(()),
        }
    }

    fn texts(&mut self) -> Vec<Text<'_>> {
        match self {
            Self::Hello(version) => vec![("Hello.version", MAX_DEVICE_NAME_BYTES, version)],
            Self::Preparing(preparing) => vec![("Preparing.what", MAX_DEVICE_DETAIL_BYTES, &mut preparing.what)],
            Self::Reply { reply, .. } => reply.texts(),
            Self::Heartbeat { .. } => Vec::new(),
        }
    }
}

impl Reply {
    fn texts(&mut self) -> Vec<Text<'_>> {
        match self {
            Self::Detected(Ok(found)) => found
                .iter_mut()
                .flat_map(|DetectedDevice { info, spec, refusal, place: _, integrated: _, forbidden: _ }| {
                    let refusal = refusal.as_mut().map(|why| ("Found.refusal", MAX_DEVICE_DETAIL_BYTES, why));
                    texts_of(info).chain([("Found.spec", MAX_SPEC_BYTES, spec)]).chain(refusal)
                })
                .collect(),
            Self::Detected(Err(none)) => vec![("Detected.none", MAX_REASON_BYTES, &mut none.why)],
            Self::Device(info) => texts_of(info).collect(),
            Self::Kernels(names) => names.iter_mut().map(|name| ("Kernels.name", MAX_KERNEL_BYTES, name)).collect(),
            Self::Failed(
                DeviceError::NoMemory(why)
                | DeviceError::Sick(why)
                | DeviceError::Lost(why)
                | DeviceError::NotNow(why)
                | DeviceError::Unsupported(why),
            ) => vec![("Failed.why", MAX_REASON_BYTES, why)],
            _ => Vec::new(),
        }
    }
}

fn texts_of(info: &mut DeviceInfo) -> impl Iterator<Item = Text<'_>> {
    let own = [
        ("DeviceInfo.name", MAX_DEVICE_NAME_BYTES, &mut info.name),
        ("DeviceInfo.detail", MAX_DEVICE_DETAIL_BYTES, &mut info.detail),
    ];
    let units = info.units.iter_mut().flat_map(|finding| {
        let failed = finding.failed.as_mut().map(|why| ("UnitFinding.failed", MAX_UNIT_FAILURE_BYTES, why));
        [("UnitFinding.unit", MAX_UNIT_NAME_BYTES, &mut finding.unit)].into_iter().chain(failed)
    });
    own.into_iter().chain(units)
}

fn check_found(found: &[DetectedDevice], backend: BackendKind) -> Result<(), MalformedField> {
    at_most("Detected.found", MAX_HOST_DEVICES, found.len())?;
    let ids: BTreeSet<_> = found.iter().map(|found| found.info.id).collect();
    ensure("Detected.found", ids.len() == found.len(), || "an id is there twice".into())?;
    for DetectedDevice { info, place, .. } in found {
        check_info(info, backend)?;
        // Findings are of opened devices; a list of all devices has no room for them.
        at_most("Found.units", 0, info.units.len())?;
        if let Some(address) = &place.pci_address {
            at_most("PciAddress.device", MAX_PCI_DEVICE.into(), address.device.into())?;
            at_most("PciAddress.function", MAX_PCI_FUNCTION.into(), address.function.into())?;
        }
    }
    Ok(())
}

fn check_info(info: &DeviceInfo, backend: BackendKind) -> Result<(), MalformedField> {
    let ascending = info.precisions.is_sorted_by(|a, b| a < b);
    at_most("DeviceInfo.units", MAX_UNITS, info.units.len())?;
    ensure("DeviceInfo.precisions", ascending, || "not ascending".into())?;
    ensure("DeviceInfo.backend", info.backend == backend, || format!("{}, not {backend}", info.backend))
}

fn check_rounds(field: &'static str, rounds: u32) -> Result<(), MalformedField> {
    at_most(field, MAX_ROUNDS as usize, rounds as usize)?;
    ensure(field, rounds > 0, || "0, at least 1 is needed".into())
}

fn at_most(field: &'static str, max: usize, found: usize) -> Result<(), MalformedField> {
    ensure(field, found <= max, || format!("{found}, at most {max} are allowed"))
}

fn ensure(field: &'static str, holds: bool, problem: impl FnOnce() -> String) -> Result<(), MalformedField> {
    if holds { Ok(()) } else { Err(MalformedField { field, problem: problem() }) }
}

#[cfg(test)]
mod tests {
    use super::super::frame;
    use super::*;
    use assay_device::accumulator::UnitFinding;
    use assay_device::place::{DevicePlace, PciAddress};
    use assay_work::{DeviceId, PassKey, ProbeKey, RoundKey};

    const SHARE: LinkedShare = LinkedShare { n: 256, offset: 3, count: 3, total: 9 };
    const SWEEP: SweepRound = SweepRound { key: RoundKey([5; 32]), n: 256, count: 3 };

    fn info() -> DeviceInfo {
        DeviceInfo {
            id: DeviceId([3; 16]),
            name: "a device".into(),
            backend: BackendKind::Cpu,
            detail: "kernel x".into(),
            precisions: vec![Precision::Int8, Precision::Fp4],
            units: Vec::new(),
            total_bytes: 5,
            free_bytes: 4,
        }
    }

    fn finding() -> UnitFinding {
        let failed = Some("x".repeat(MAX_UNIT_FAILURE_BYTES));
        let unit = "u".repeat(MAX_UNIT_NAME_BYTES);
        UnitFinding { unit, precision: Precision::Fp8, bits_kept: Some(13), output_bits: None, failed }
    }

    fn place() -> DevicePlace {
        let pci_address = Some(PciAddress { domain: u32::MAX, bus: 255, device: 31, function: 7 });
        DevicePlace { pci_address, uuid: Some([8; 16]), vendor: Some(0x1_0005) }
    }

    fn found(id: u8) -> DetectedDevice {
        let info = DeviceInfo { id: DeviceId([id; 16]), ..info() };
        let refusal = Some("too old".into());
        DetectedDevice { info, place: place(), integrated: true, refusal, forbidden: true, spec: "{}".into() }
    }

    fn reply(reply: Reply) -> FromWorker {
        FromWorker::Reply { number: 5, done_steps: 6, reply }
    }

    /// The message as the other end reads it.
    fn carried<M: Serialize + serde::de::DeserializeOwned>(message: &M) -> M {
        let mut pipe = Vec::new();
        frame::write(&mut pipe, message).unwrap();
        frame::read(&mut &pipe[..]).unwrap()
    }

    #[test]
    fn requests_arrive_as_they_were_sent() {
        let (backend, settings) = (BackendKind::Wgpu, "{}".to_owned());
        let requests = [
            Request::Detect { backend, settings: settings.clone() },
            Request::Open { backend, settings, spec: "x".into() },
            Request::SelfTest,
            Request::Describe,
            Request::CountSlots(256),
            Request::Fill(Pass {
                precision: Precision::Fp8,
                key: PassKey([1; 32]),
                n: 256,
                offset: u32::MAX,
                count: 3,
            }),
            Request::Probe(ProbeRounds { key: ProbeKey([2; 32]), walks: 64, steps: 1, rounds: 1 }),
            Request::Round(ProbeRound { key: RoundKey([3; 32]), walks: 64, steps: 1 }),
            Request::StepStates { share: SHARE, states: vec![4; MAX_SENT_STATES * LINE_BYTES] },
            Request::ShareStates("x".repeat(MAX_PATH_BYTES)),
            Request::StepShared { share: SHARE, states: MAX_STEPPED_STATES as u32 },
            Request::ConnectHandles("x".repeat(MAX_PATH_BYTES)),
            Request::ShareSlots,
            Request::MapPeers(vec![PeerShare { share: SHARE, bytes: Some(u64::MAX) }; MAX_LINKED_DEVICES]),
            Request::LinkedRound(ProbeRound { key: RoundKey([3; 32]), walks: 64, steps: 1 }),
            Request::UnmapPeers,
            Request::ReadStates,
            Request::Sweep(SweepRounds { key: ProbeKey([2; 32]), n: 256, count: 3, rounds: MAX_ROUNDS }),
            Request::SweepRound(SWEEP),
            Request::ReadSums(SWEEP),
            Request::OpenSums(SWEEP, vec![u64::MAX; MAX_RANGES]),
            Request::Read(vec![SlotRange { slot: 1, first_byte: u64::MAX, bytes: 7 }]),
            Request::ReadChainingValues { slot: 1, subtree_bytes: 1024 },
            Request::Release,
            Request::ListKernels(Precision::Fp4),
            Request::ChooseKernel(Precision::Int8, "x".repeat(MAX_KERNEL_BYTES)),
            Request::TimeProducts(7),
            Request::TestCopies(CopySource::Keystream { key: [5; 32], bytes: 1024 }),
            Request::TestCopies(CopySource::Bytes(vec![6; MAX_DATA_BYTES])),
        ];
        for request in requests.map(|request| ToWorker::Request(7, request)).into_iter().chain([ToWorker::Cancel(9)]) {
            assert_eq!(carried(&request), request);
            assert_eq!(request.check(), Ok(()));
        }
    }

    #[test]
    fn replies_arrive_as_they_were_sent() {
        let replies = [
            Reply::Detected(Ok(vec![found(1), found(2)])),
            Reply::Detected(Ok(Vec::new())),
            Reply::Detected(Err("no driver".into())),
            Reply::Device(info()),
            Reply::Device(DeviceInfo { units: vec![finding(); MAX_UNITS], ..info() }),
            Reply::Slots(9),
            Reply::Data { bytes: vec![1; MAX_DATA_BYTES], last: true },
            Reply::Kernels(vec!["x".repeat(MAX_KERNEL_BYTES); MAX_KERNELS]),
            Reply::Took(Duration::from_millis(3)),
            Reply::Copied(CopyReport { took: [Duration::ZERO; 3], difference: None }),
            Reply::Done,
            Reply::Failed(DeviceError::Busy { needed_bytes: 3, free_bytes: 2 }),
            Reply::Failed(DeviceError::NoMemory("full".into())),
            Reply::Failed(DeviceError::Sick("bits".into())),
            Reply::Failed(DeviceError::Lost("killed".into())),
            Reply::Failed(DeviceError::NotNow("taken".into())),
            Reply::Failed(DeviceError::Cancelled),
            Reply::Failed(DeviceError::Unsupported("no".into())),
        ];
        let others = [
            FromWorker::Hello(VERSION.into()),
            FromWorker::Heartbeat { number: 3, done_steps: 4 },
            FromWorker::Preparing(StartupProgress { what: "compiling".into(), done: 1, total: 2 }),
        ];
        for message in replies.map(reply).into_iter().chain(others) {
            let mut read = carried(&message.clone().bounded());
            assert_eq!(read, message);
            assert_eq!(read.check(BackendKind::Cpu), Ok(()), "{message:?}");
        }
    }

    fn refused(message: FromWorker) -> &'static str {
        carried(&message).check(BackendKind::Cpu).expect_err("a message beyond its bounds was taken").field
    }

    #[test]
    fn a_message_beyond_its_bounds_is_refused_by_name() {
        let device = |info: DeviceInfo| refused(reply(Reply::Device(info)));
        assert_eq!(device(DeviceInfo { name: "x".repeat(MAX_DEVICE_NAME_BYTES + 1), ..info() }), "DeviceInfo.name");
        assert_eq!(device(DeviceInfo { detail: "\u{1b}[2J".into(), ..info() }), "DeviceInfo.detail");
        assert_eq!(device(DeviceInfo { backend: BackendKind::Cuda, ..info() }), "DeviceInfo.backend");
        let twice = vec![Precision::Int8; 2];
        assert_eq!(device(DeviceInfo { precisions: twice, ..info() }), "DeviceInfo.precisions");
        let units = |finding: UnitFinding, times| device(DeviceInfo { units: vec![finding; times], ..info() });
        assert_eq!(units(finding(), MAX_UNITS + 1), "DeviceInfo.units");
        assert_eq!(units(UnitFinding { unit: "\n".into(), ..finding() }, 1), "UnitFinding.unit");
        let failed = Some("x".repeat(MAX_UNIT_FAILURE_BYTES + 1));
        assert_eq!(units(UnitFinding { failed, ..finding() }, 1), "UnitFinding.failed");
        let detected = |found: Vec<DetectedDevice>| refused(reply(Reply::Detected(Ok(found))));
        assert_eq!(detected((0..65).map(found).collect()), "Detected.found");
        assert_eq!(detected(vec![found(1), found(1)]), "Detected.found");
        let examined = DeviceInfo { units: vec![finding()], ..info() };
        assert_eq!(detected(vec![DetectedDevice { info: examined, ..found(1) }]), "Found.units");
        assert_eq!(detected(vec![DetectedDevice { spec: "x".repeat(MAX_SPEC_BYTES + 1), ..found(1) }]), "Found.spec");
        let refusal = Some("x".repeat(MAX_DEVICE_DETAIL_BYTES + 1));
        assert_eq!(detected(vec![DetectedDevice { refusal, ..found(1) }]), "Found.refusal");
        let at = |device, function| {
            let pci_address = Some(PciAddress { domain: 0, bus: 0, device, function });
            detected(vec![DetectedDevice { place: DevicePlace { pci_address, ..place() }, ..found(1) }])
        };
        assert_eq!((at(32, 0), at(0, 8)), ("PciAddress.device", "PciAddress.function"));
        assert_eq!(refused(reply(Reply::Detected(Err("\n".into())))), "Detected.none");
        assert_eq!(refused(reply(Reply::Failed(DeviceError::Sick("\u{202e}".into())))), "Failed.why");
        assert_eq!(refused(reply(Reply::Data { bytes: vec![0; MAX_DATA_BYTES + 1], last: false })), "Data.bytes");
        let what = "x".repeat(MAX_DEVICE_DETAIL_BYTES + 1);
        assert_eq!(refused(FromWorker::Preparing(StartupProgress { what, done: 0, total: 0 })), "Preparing.what");
        assert_eq!(refused(FromWorker::Hello("\u{7}".into())), "Hello.version");
        let kernels = |names: Vec<String>| refused(reply(Reply::Kernels(names)));
        assert_eq!(kernels(vec!["x".into(); MAX_KERNELS + 1]), "Kernels.names");
        assert_eq!(kernels(vec!["x".repeat(MAX_KERNEL_BYTES + 1)]), "Kernels.name");

        let request = |request| ToWorker::Request(1, request).check().unwrap_err().field;
        assert_eq!(
            request(Request::ChooseKernel(Precision::Int8, "x".repeat(MAX_KERNEL_BYTES + 1))),
            "ChooseKernel.kernel"
        );
        let bytes = CopySource::Bytes(vec![0; MAX_DATA_BYTES + 1]);
        assert_eq!(request(Request::TestCopies(bytes)), "TestCopies.bytes");
        for bytes in [MAX_DATA_BYTES + LINE_BYTES, LINE_BYTES - 1] {
            let states = Request::StepStates { share: SHARE, states: vec![0; bytes] };
            assert_eq!(request(states), "StepStates.states");
        }
        assert_eq!(request(Request::ShareStates("x".repeat(MAX_PATH_BYTES + 1))), "ShareStates.path");
        assert_eq!(request(Request::ConnectHandles("x".repeat(MAX_PATH_BYTES + 1))), "ConnectHandles.path");
        let peers = vec![PeerShare { share: SHARE, bytes: None }; MAX_LINKED_DEVICES + 1];
        assert_eq!(request(Request::MapPeers(peers)), "MapPeers.peers");
        let states = MAX_STEPPED_STATES as u32 + 1;
        assert_eq!(request(Request::StepShared { share: SHARE, states }), "StepShared.states");
        let range = SlotRange { slot: 0, first_byte: 0, bytes: 0 };
        assert_eq!(request(Request::Read(vec![range; MAX_RANGES + 1])), "Read.ranges");
        for rounds in [0, MAX_ROUNDS + 1] {
            let probe = ProbeRounds { key: ProbeKey([2; 32]), walks: 64, steps: 1, rounds };
            assert_eq!(request(Request::Probe(probe)), "Probe.rounds");
            let sweep = SweepRounds { key: ProbeKey([2; 32]), n: 256, count: 3, rounds };
            assert_eq!(request(Request::Sweep(sweep)), "Sweep.rounds");
        }
        assert_eq!(request(Request::OpenSums(SWEEP, vec![0; MAX_RANGES + 1])), "OpenSums.at");
    }

    /// The longest messages fit in a frame, and texts beyond their bounds are cut as they are sent.
    #[test]
    fn the_longest_messages_fit() {
        let range = SlotRange { slot: u32::MAX, first_byte: u64::MAX, bytes: u64::MAX };
        carried(&ToWorker::Request(u64::MAX, Request::Read(vec![range; MAX_RANGES])));
        let share = LinkedShare { n: u32::MAX, offset: u32::MAX, count: u32::MAX, total: u32::MAX };
        let states = vec![u8::MAX; MAX_SENT_STATES * LINE_BYTES];
        carried(&ToWorker::Request(u64::MAX, Request::StepStates { share, states }));
        let long = |id: u8| {
            let info =
                DeviceInfo { id: DeviceId([id; 16]), name: "n".repeat(9999), detail: "\n".repeat(9999), ..info() };
            DetectedDevice { info, spec: "o".repeat(MAX_SPEC_BYTES), refusal: Some("r".repeat(9999)), ..found(id) }
        };
        let found = (0..MAX_HOST_DEVICES as u8).map(long).collect();
        let sent = FromWorker::Reply { number: u64::MAX, done_steps: u64::MAX, reply: Reply::Detected(Ok(found)) };
        assert_eq!(carried(&sent.bounded()).check(BackendKind::Cpu), Ok(()));
    }
}
