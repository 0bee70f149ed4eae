//! What is said over the pipe, in the devices' own types; the generated types go no further than this file.

use crate::compute::choose::{Found, Preparing};
use crate::compute::device::{DeviceError, DeviceInfo, Pass, ProbeRound, ProbeRounds, SlotRange};
use crate::compute::merge;
use crate::compute::place::{MAX_PCI_DEVICE, MAX_PCI_FUNCTION, PciAddress, Place};
use crate::wire::limits::{MAX_DETAIL_BYTES, MAX_DEVICE_DETAIL_BYTES, MAX_DEVICES, MAX_NAME_BYTES};
use crate::wire::v1::worker_request::Request as RawRequest;
use crate::wire::v1::worker_response::Response as RawResponse;
use crate::wire::{Problem, WireError, field, v1};
use crate::work::DeviceId;

use super::frame::MAX_DATA_BYTES;

/// Bytes of what a backend needs to open a device: a line of JSON with an id, a path and some figures.
pub const MAX_OPENING_BYTES: usize = 4096;

/// Ranges of one request: the lines of four of the longest walks.
pub const MAX_RANGES: usize = 4096;

const _: () = assert!(merge::MAX_DEVICES == MAX_DEVICES, "all devices of a host fit in an inventory");

/// What both sides must be: a worker of another build could mean other things by the same words.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a program says to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToWorker {
    /// Something to do.
    Request(u64, Request),
    /// Stops the request of this number.
    Cancel(u64),
}

/// What a worker is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// To find the devices of a backend, with the settings as JSON.
    List {
        /// The backend.
        backend: String,
        /// A `HostConfig` as JSON.
        settings: String,
    },
    /// To open a device.
    Open {
        /// The backend.
        backend: String,
        /// As the backend gave it.
        opening: String,
    },
    /// To compare the device with known bits.
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
    /// `Device::probe_states`.
    ReadStates,
    /// `Device::read_all`.
    Read(Vec<SlotRange>),
    /// `Device::chaining_values`.
    ReadChainingValues {
        /// Which slot.
        slot: u32,
        /// Of subtrees of so many bytes.
        subtree_bytes: u64,
    },
    /// `Device::release`.
    Release,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromWorker {
    /// The first message: the version.
    Hello(String),
    /// It lives; so many steps of a request are done.
    Heartbeat {
        /// The request, 0 for none.
        number: u64,
        /// Its steps.
        done_steps: u64,
    },
    /// How far a request is that prepares a device.
    Preparing(Preparing),
    /// An answer.
    Reply {
        /// The request.
        number: u64,
        /// Its steps.
        done_steps: u64,
        /// The answer.
        reply: Reply,
    },
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The devices of a backend, or why there is none.
    Backend(Result<Vec<Found>, String>),
    /// What the device is.
    Device(DeviceInfo),
    /// How many slots fit.
    Slots(u32),
    /// A part of the bytes asked for.
    Data {
        /// The part.
        bytes: Vec<u8>,
        /// Whether it is the last one.
        last: bool,
    },
    /// Done, with nothing to say.
    Done,
    /// What kept it from being done.
    Failed(DeviceError),
}

impl From<ToWorker> for v1::WorkerRequest {
    fn from(message: ToWorker) -> Self {
        let (number, request) = match message {
            ToWorker::Cancel(number) => (0, RawRequest::Cancel(v1::WorkerCancel { number })),
            ToWorker::Request(number, request) => (number, request.into()),
        };
        Self { number, request: Some(request) }
    }
}

impl From<Request> for RawRequest {
    fn from(request: Request) -> Self {
        match request {
            Request::List { backend, settings } => Self::List(v1::WorkerList { backend, settings }),
            Request::Open { backend, opening } => Self::Open(v1::WorkerOpen { backend, opening }),
            Request::SelfTest => Self::SelfTest(v1::WorkerSelfTest {}),
            Request::Describe => Self::Describe(v1::WorkerDescribe {}),
            Request::CountSlots(n) => Self::CountSlots(v1::WorkerCountSlots { n }),
            Request::Fill(Pass { key, n, offset, count }) => {
                Self::Fill(v1::WorkerFill { key: key.0.to_vec(), n, offset, count })
            }
            Request::Probe(ProbeRounds { key, walks, steps, rounds }) => {
                Self::Probe(v1::WorkerProbe { key: key.0.to_vec(), walks, steps, rounds })
            }
            Request::Round(ProbeRound { key, walks, steps }) => {
                Self::Round(v1::WorkerRound { key: key.0.to_vec(), walks, steps })
            }
            Request::ReadStates => Self::ReadStates(v1::WorkerReadStates {}),
            Request::Read(ranges) => {
                let write = |r: SlotRange| v1::WorkerRange { slot: r.slot, first_byte: r.first_byte, bytes: r.bytes };
                Self::Read(v1::WorkerRead { ranges: ranges.into_iter().map(write).collect() })
            }
            Request::ReadChainingValues { slot, subtree_bytes } => {
                Self::ReadChainingValues(v1::WorkerReadChainingValues { slot, subtree_bytes })
            }
            Request::Release => Self::Release(v1::WorkerRelease {}),
        }
    }
}

impl TryFrom<v1::WorkerRequest> for ToWorker {
    type Error = WireError;

    fn try_from(message: v1::WorkerRequest) -> Result<Self, WireError> {
        let v1::WorkerRequest { number, request } = message;
        let request = match field::required("WorkerRequest.request", request)? {
            RawRequest::Cancel(v1::WorkerCancel { number }) => return Ok(Self::Cancel(number)),
            RawRequest::List(v1::WorkerList { backend, settings }) => Request::List { backend, settings },
            RawRequest::Open(v1::WorkerOpen { backend, opening }) => Request::Open { backend, opening },
            RawRequest::SelfTest(v1::WorkerSelfTest {}) => Request::SelfTest,
            RawRequest::Describe(v1::WorkerDescribe {}) => Request::Describe,
            RawRequest::CountSlots(v1::WorkerCountSlots { n }) => Request::CountSlots(n),
            RawRequest::Fill(v1::WorkerFill { key, n, offset, count }) => {
                Request::Fill(Pass { key: field::fixed("WorkerFill.key", &key)?, n, offset, count })
            }
            RawRequest::Probe(v1::WorkerProbe { key, walks, steps, rounds }) => {
                field::in_range("WorkerProbe.rounds", 1, u64::from(crate::work::probe::MAX_ROUNDS), rounds.into())?;
                Request::Probe(ProbeRounds { key: field::fixed("WorkerProbe.key", &key)?, walks, steps, rounds })
            }
            RawRequest::Round(v1::WorkerRound { key, walks, steps }) => {
                Request::Round(ProbeRound { key: field::fixed("WorkerRound.key", &key)?, walks, steps })
            }
            RawRequest::ReadStates(v1::WorkerReadStates {}) => Request::ReadStates,
            RawRequest::Read(v1::WorkerRead { ranges }) => {
                field::at_most("WorkerRead.ranges", MAX_RANGES, ranges.len())?;
                let read = |r: v1::WorkerRange| SlotRange { slot: r.slot, first_byte: r.first_byte, bytes: r.bytes };
                Request::Read(ranges.into_iter().map(read).collect())
            }
            RawRequest::ReadChainingValues(v1::WorkerReadChainingValues { slot, subtree_bytes }) => {
                Request::ReadChainingValues { slot, subtree_bytes }
            }
            RawRequest::Release(v1::WorkerRelease {}) => Request::Release,
        };
        Ok(Self::Request(number, request))
    }
}

impl From<FromWorker> for v1::WorkerResponse {
    fn from(message: FromWorker) -> Self {
        let (number, done_steps, response) = match message {
            FromWorker::Hello(version) => (0, 0, RawResponse::Hello(v1::WorkerHello { version })),
            FromWorker::Heartbeat { number, done_steps } => {
                (number, done_steps, RawResponse::Heartbeat(v1::WorkerHeartbeat {}))
            }
            FromWorker::Preparing(Preparing { what, done, total }) => {
                let what = field::printable(&what, MAX_DEVICE_DETAIL_BYTES);
                (0, 0, RawResponse::Preparing(v1::WorkerPreparing { what, done, total }))
            }
            FromWorker::Reply { number, done_steps, reply } => (number, done_steps, reply.into()),
        };
        Self { number, done_steps, response: Some(response) }
    }
}

impl From<Reply> for RawResponse {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Backend(found) => Self::Backend(write_backend(found)),
            Reply::Device(info) => Self::Device(write_device(&info)),
            Reply::Slots(slots) => Self::Slots(v1::WorkerSlots { slots }),
            Reply::Data { bytes, last } => Self::Data(v1::WorkerData { data: bytes, last }),
            Reply::Done => Self::Done(v1::WorkerDone {}),
            Reply::Failed(error) => Self::Error(write_error(error)),
        }
    }
}

fn write_backend(found: Result<Vec<Found>, String>) -> v1::WorkerBackend {
    match found {
        Ok(found) => {
            let write = |Found { info, place, opening }: Found| {
                let (device, place) = (Some(write_device(&info)), Some(write_place(&place)));
                v1::WorkerFound { device, opening, place }
            };
            v1::WorkerBackend { found: found.into_iter().map(write).collect(), none: String::new() }
        }
        Err(why) => v1::WorkerBackend { found: Vec::new(), none: field::printable(&why, MAX_DETAIL_BYTES) },
    }
}

fn write_device(info: &DeviceInfo) -> v1::WorkerDevice {
    v1::WorkerDevice {
        device_id: info.id.0.to_vec(),
        name: field::printable(&info.name, MAX_NAME_BYTES),
        detail: field::printable(&info.detail, MAX_DEVICE_DETAIL_BYTES),
        total_bytes: info.total_bytes,
        free_bytes: info.free_bytes,
    }
}

fn write_place(place: &Place) -> v1::WorkerPlace {
    let Place { pci_address, uuid, vendor } = place;
    let address = |PciAddress { domain, bus, device, function }: &PciAddress| v1::WorkerPciAddress {
        domain: *domain,
        bus: (*bus).into(),
        device: (*device).into(),
        function: (*function).into(),
    };
    let pci_address = pci_address.as_ref().map(address);
    v1::WorkerPlace { pci_address, uuid: uuid.map(Vec::from), vendor: *vendor }
}

fn write_error(error: DeviceError) -> v1::WorkerError {
    use v1::WorkerErrorKind as Kind;
    let (mut needed, mut free) = (0, 0);
    let (kind, detail) = match error {
        DeviceError::Busy { needed_bytes, free_bytes } => {
            (needed, free) = (needed_bytes, free_bytes);
            (Kind::Busy, String::new())
        }
        DeviceError::Sick(detail) => (Kind::Sick, detail),
        DeviceError::Lost(detail) => (Kind::Lost, detail),
        DeviceError::Cancelled => (Kind::Cancelled, String::new()),
        DeviceError::Unsupported(detail) => (Kind::Unsupported, detail),
    };
    let detail = field::printable(&detail, MAX_DETAIL_BYTES);
    v1::WorkerError { kind: kind.into(), detail, needed_bytes: needed, free_bytes: free }
}

/// Reads what a worker that drives a device of `backend` said.
///
/// # Errors
/// The first field that breaks a bound.
pub fn read_response(message: v1::WorkerResponse, backend: &'static str) -> Result<FromWorker, WireError> {
    let v1::WorkerResponse { number, done_steps, response } = message;
    let reply = match field::required("WorkerResponse.response", response)? {
        RawResponse::Hello(v1::WorkerHello { version }) => {
            return Ok(FromWorker::Hello(field::text("WorkerHello.version", MAX_NAME_BYTES, version)?));
        }
        RawResponse::Heartbeat(v1::WorkerHeartbeat {}) => return Ok(FromWorker::Heartbeat { number, done_steps }),
        RawResponse::Preparing(v1::WorkerPreparing { what, done, total }) => {
            let what = field::text("WorkerPreparing.what", MAX_DEVICE_DETAIL_BYTES, what)?;
            return Ok(FromWorker::Preparing(Preparing { what, done, total }));
        }
        RawResponse::Backend(found) => Reply::Backend(read_backend(found, backend)?),
        RawResponse::Device(device) => Reply::Device(read_device(device, backend)?),
        RawResponse::Slots(v1::WorkerSlots { slots }) => Reply::Slots(slots),
        RawResponse::Data(v1::WorkerData { data, last }) => {
            if data.len() > MAX_DATA_BYTES {
                let problem = Problem::TooLong { max: MAX_DATA_BYTES, found: data.len() };
                return Err(WireError::new("WorkerData.data", problem));
            }
            Reply::Data { bytes: data, last }
        }
        RawResponse::Done(v1::WorkerDone {}) => Reply::Done,
        RawResponse::Error(error) => Reply::Failed(read_error(error)?),
    };
    Ok(FromWorker::Reply { number, done_steps, reply })
}

fn read_backend(answer: v1::WorkerBackend, backend: &'static str) -> Result<Result<Vec<Found>, String>, WireError> {
    let v1::WorkerBackend { found, none } = answer;
    if found.is_empty() {
        return Ok(Err(field::text("WorkerBackend.none", MAX_DETAIL_BYTES, none)?));
    }
    field::at_most("WorkerBackend.found", MAX_DEVICES, found.len())?;
    let mut devices = Vec::with_capacity(found.len());
    for v1::WorkerFound { device, opening, place } in found {
        let info = read_device(field::required("WorkerFound.device", device)?, backend)?;
        let place = read_place(field::required("WorkerFound.place", place)?)?;
        devices.push(Found { info, place, opening: field::text("WorkerFound.opening", MAX_OPENING_BYTES, opening)? });
    }
    devices.sort_by_key(|found| found.info.id);
    field::ascending("WorkerBackend.found", devices.iter().map(|found| found.info.id))?;
    Ok(Ok(devices))
}

fn read_device(device: v1::WorkerDevice, backend: &'static str) -> Result<DeviceInfo, WireError> {
    let v1::WorkerDevice { device_id, name, detail, total_bytes, free_bytes } = device;
    let id: DeviceId = field::fixed("WorkerDevice.device_id", &device_id)?;
    let name = field::text("WorkerDevice.name", MAX_NAME_BYTES, name)?;
    let detail = field::text("WorkerDevice.detail", MAX_DEVICE_DETAIL_BYTES, detail)?;
    Ok(DeviceInfo { id, name, backend, detail, total_bytes, free_bytes })
}

fn read_place(place: v1::WorkerPlace) -> Result<Place, WireError> {
    let v1::WorkerPlace { pci_address, uuid, vendor } = place;
    let uuid = uuid.map(|uuid| field::fixed("WorkerPlace.uuid", &uuid)).transpose()?;
    Ok(Place { pci_address: pci_address.map(read_address).transpose()?, uuid, vendor })
}

fn read_address(address: v1::WorkerPciAddress) -> Result<PciAddress, WireError> {
    let v1::WorkerPciAddress { domain, bus, device, function } = address;
    let small = |field: &'static str, max: u8, found: u32| {
        let problem = Problem::OutOfRange { min: 0, max: max.into(), found: found.into() };
        u8::try_from(found).ok().filter(|number| *number <= max).ok_or(WireError::new(field, problem))
    };
    Ok(PciAddress {
        domain,
        bus: small("WorkerPciAddress.bus", u8::MAX, bus)?,
        device: small("WorkerPciAddress.device", MAX_PCI_DEVICE, device)?,
        function: small("WorkerPciAddress.function", MAX_PCI_FUNCTION, function)?,
    })
}

fn read_error(error: v1::WorkerError) -> Result<DeviceError, WireError> {
    use v1::WorkerErrorKind as Kind;
    let v1::WorkerError { kind, detail, needed_bytes, free_bytes } = error;
    let unknown = WireError::new("WorkerError.kind", Problem::UnknownCode(kind));
    let detail = field::text("WorkerError.detail", MAX_DETAIL_BYTES, detail)?;
    Ok(match Kind::try_from(kind).map_err(|_| unknown.clone())? {
        Kind::Unspecified => return Err(unknown),
        Kind::Busy => DeviceError::Busy { needed_bytes, free_bytes },
        Kind::Sick => DeviceError::Sick(detail),
        Kind::Cancelled => DeviceError::Cancelled,
        Kind::Unsupported => DeviceError::Unsupported(detail),
        Kind::Lost => DeviceError::Lost(detail),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{PassKey, ProbeKey, RoundKey};

    fn info() -> DeviceInfo {
        DeviceInfo {
            id: DeviceId([3; 16]),
            name: "a device".into(),
            backend: "test",
            detail: "its choices".into(),
            total_bytes: 9,
            free_bytes: 7,
        }
    }

    fn found(id: u8) -> Found {
        let info = DeviceInfo { id: DeviceId([id; 16]), ..info() };
        Found { info, place: Place::default(), opening: "{}".into() }
    }

    fn place() -> Place {
        Place { pci_address: "fffffffe:ff:1f.7".parse().ok(), uuid: Some([5; 16]), vendor: Some(u32::MAX) }
    }

    fn refused(response: RawResponse) -> WireError {
        let message = v1::WorkerResponse { number: 1, done_steps: 0, response: Some(response) };
        read_response(message, "test").unwrap_err()
    }

    #[test]
    fn requests_arrive_as_they_were_sent() {
        let text = |text: &str| text.to_owned();
        let requests = [
            Request::List { backend: text("cpu"), settings: text("{}") },
            Request::Open { backend: text("cpu"), opening: text("{}") },
            Request::SelfTest,
            Request::Describe,
            Request::CountSlots(256),
            Request::Fill(Pass { key: PassKey([1; 32]), n: 256, offset: 2, count: 3 }),
            Request::Probe(ProbeRounds { key: ProbeKey([2; 32]), walks: 64, steps: 5, rounds: 6 }),
            Request::Round(ProbeRound { key: RoundKey([3; 32]), walks: 128, steps: 7 }),
            Request::ReadStates,
            Request::Read(vec![SlotRange { slot: 1, first_byte: u64::MAX, bytes: 3 }; MAX_RANGES]),
            Request::ReadChainingValues { slot: 4, subtree_bytes: 1024 },
            Request::Release,
        ];
        for (number, request) in (1..).zip(requests) {
            let message = ToWorker::Request(number, request);
            assert_eq!(ToWorker::try_from(v1::WorkerRequest::from(message.clone())), Ok(message));
        }
        assert_eq!(ToWorker::try_from(v1::WorkerRequest::from(ToWorker::Cancel(7))), Ok(ToWorker::Cancel(7)));
    }

    #[test]
    fn answers_arrive_as_they_were_sent() {
        let replies = [
            Reply::Backend(Ok(vec![found(1), Found { place: place(), ..found(2) }])),
            Reply::Backend(Err("no driver: install one".into())),
            Reply::Device(info()),
            Reply::Slots(u32::MAX),
            Reply::Data { bytes: vec![1, 2], last: true },
            Reply::Done,
            Reply::Failed(DeviceError::Busy { needed_bytes: 2, free_bytes: 1 }),
            Reply::Failed(DeviceError::Sick("hot".into())),
            Reply::Failed(DeviceError::Lost("gone".into())),
            Reply::Failed(DeviceError::Cancelled),
            Reply::Failed(DeviceError::Unsupported("no".into())),
        ];
        let messages = replies.map(|reply| FromWorker::Reply { number: 5, done_steps: 6, reply });
        let preparing = Preparing { what: "compiling".into(), done: 1, total: 2 };
        let others = [
            FromWorker::Hello(VERSION.into()),
            FromWorker::Heartbeat { number: 3, done_steps: 4 },
            FromWorker::Preparing(preparing),
        ];
        for message in messages.into_iter().chain(others) {
            assert_eq!(read_response(message.clone().into(), "test"), Ok(message));
        }
    }

    #[test]
    fn what_breaks_a_bound_is_refused_by_name() {
        let device = |d: v1::WorkerDevice| refused(RawResponse::Device(d)).field;
        let good = write_device(&info());
        assert_eq!(device(v1::WorkerDevice { device_id: vec![1; 15], ..good.clone() }), "WorkerDevice.device_id");
        assert_eq!(device(v1::WorkerDevice { name: "x".repeat(129), ..good.clone() }), "WorkerDevice.name");
        assert_eq!(device(v1::WorkerDevice { detail: "\u{1b}[2J".into(), ..good }), "WorkerDevice.detail");
        let data = v1::WorkerData { data: vec![0; MAX_DATA_BYTES + 1], last: false };
        assert_eq!(refused(RawResponse::Data(data)).field, "WorkerData.data");
        let backend = |found: Vec<Found>| refused(RawResponse::Backend(write_backend(Ok(found)))).field;
        assert_eq!(backend((0..65).map(found).collect()), "WorkerBackend.found");
        assert_eq!(backend(vec![found(1), found(1)]), "WorkerBackend.found");
        let long = Found { opening: "x".repeat(MAX_OPENING_BYTES + 1), ..found(1) };
        assert_eq!(backend(vec![long]), "WorkerFound.opening");
        let whole = v1::WorkerFound { device: Some(write_device(&info())), opening: "{}".into(), place: None };
        let found =
            |found| refused(RawResponse::Backend(v1::WorkerBackend { found: vec![found], none: String::new() }));
        assert_eq!(found(whole.clone()).field, "WorkerFound.place");
        let place = |place| found(v1::WorkerFound { place: Some(place), ..whole.clone() }).field;
        let good = write_place(&self::place());
        assert_eq!(place(v1::WorkerPlace { uuid: Some(vec![1; 17]), ..good.clone() }), "WorkerPlace.uuid");
        for (bus, device, function, field) in [(256, 0, 0, "bus"), (0, 32, 0, "device"), (0, 0, 8, "function")] {
            let pci_address = Some(v1::WorkerPciAddress { domain: 0, bus, device, function });
            let field = format!("WorkerPciAddress.{field}");
            assert_eq!(place(v1::WorkerPlace { pci_address, ..good.clone() }), field);
        }
        for kind in [0, 6, -1] {
            let error = v1::WorkerError { kind, ..v1::WorkerError::default() };
            assert_eq!(refused(RawResponse::Error(error)).problem, Problem::UnknownCode(kind));
        }
        assert!(read_response(v1::WorkerResponse::default(), "test").is_err());
        assert!(ToWorker::try_from(v1::WorkerRequest::default()).is_err());
        let ranges = vec![v1::WorkerRange::default(); MAX_RANGES + 1];
        let request = Some(RawRequest::Read(v1::WorkerRead { ranges }));
        let error = ToWorker::try_from(v1::WorkerRequest { number: 1, request }).unwrap_err();
        assert_eq!(error.field, "WorkerRead.ranges");
        let rounds = v1::WorkerProbe { key: vec![0; 32], walks: 64, steps: 1, rounds: 65_537 };
        let request = v1::WorkerRequest { number: 1, request: Some(RawRequest::Probe(rounds)) };
        assert_eq!(ToWorker::try_from(request).unwrap_err().field, "WorkerProbe.rounds");
    }

    /// The longest messages fit in a frame, and are as long as may be.
    #[test]
    fn the_longest_messages_fit() {
        let range = SlotRange { slot: u32::MAX, first_byte: u64::MAX, bytes: u64::MAX };
        let request = ToWorker::Request(u64::MAX, Request::Read(vec![range; MAX_RANGES]));
        super::super::frame::write(&mut Vec::new(), &v1::WorkerRequest::from(request)).unwrap();
        let long = |id: u8| {
            let (name, detail) = ("n".repeat(MAX_NAME_BYTES), "d".repeat(MAX_DEVICE_DETAIL_BYTES));
            let info = DeviceInfo { id: DeviceId([id; 16]), name, detail, ..info() };
            Found { info, place: place(), opening: "o".repeat(MAX_OPENING_BYTES) }
        };
        let found = (0..MAX_DEVICES as u8).map(long).collect();
        let reply = FromWorker::Reply { number: u64::MAX, done_steps: u64::MAX, reply: Reply::Backend(Ok(found)) };
        super::super::frame::write(&mut Vec::new(), &v1::WorkerResponse::from(reply)).unwrap();
    }
}
