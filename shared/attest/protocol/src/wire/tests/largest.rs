//! The largest messages that the bounds allow, in both directions.

use prost::Message;

use super::super::limits::*;
use super::super::v1::openings_chunk::Part;
use super::super::v1::session_request::Message as Request;
use super::super::v1::session_response::Message as Response;
use super::super::{lists, v1};
use super::samples;
use crate::message::{MinerMessage, ValidatorMessage};

/// Reads the request and returns its encoded length.
#[track_caller]
fn request(message: Request) -> usize {
    let request = v1::SessionRequest { message: Some(message) };
    let bytes = request.encoded_len();
    assert!(bytes <= MAX_MESSAGE_BYTES, "{bytes} bytes");
    lists::check::<v1::SessionRequest>(&request.encode_to_vec()).unwrap();
    MinerMessage::try_from(request).unwrap();
    bytes
}

/// Reads the response and returns its encoded length.
#[track_caller]
fn response(message: Response) -> usize {
    let response = v1::SessionResponse { message: Some(message) };
    let bytes = response.encoded_len();
    assert!(bytes <= MAX_MESSAGE_BYTES, "{bytes} bytes");
    lists::check::<v1::SessionResponse>(&response.encode_to_vec()).unwrap();
    ValidatorMessage::try_from(response).unwrap();
    bytes
}

#[test]
fn roots_and_digests() {
    let claimed_ms = MAX_CLAIMED_MS;
    let roots = v1::DeviceRoots { roots: vec![1; 32 * MAX_ROOTS], claimed_ms, ..samples::device_roots() };
    assert!(request(Request::DeviceRoots(roots)) > 2 << 20);
    let digests = vec![1; 32 * MAX_PROBE_DIGESTS];
    request(Request::DeviceDigests(v1::DeviceDigests { digests, claimed_ms, ..samples::device_digests() }));
    let digests = Part::SlotDigests(vec![1; 32 * MAX_CHUNK_DIGESTS]);
    request(Request::OpeningsChunk(samples::chunk(digests)));
}

#[test]
fn openings() {
    let line = v1::OpenedRange { slot: u32::MAX, ..samples::range(1024, MAX_SIBLINGS) };
    let segment = v1::SegmentOpenings {
        segment: Some(v1::Segment { round: u32::MAX, walk: u32::MAX }),
        state: Some(samples::range(1024, MAX_SIBLINGS)),
        lines: vec![line; MAX_LINES],
    };
    assert!(request(Request::OpeningsChunk(samples::chunk(Part::Segment(segment)))) > 1 << 20);
    let sample = v1::SampleOpenings {
        openings: vec![samples::range(MAX_RANGE_BYTES, MAX_SIBLINGS); MAX_SAMPLE_OPENINGS],
        ..samples::sample_openings(0)
    };
    request(Request::OpeningsChunk(samples::chunk(Part::Sample(sample))));
    let row = samples::range(MAX_RANGE_BYTES, MAX_SIBLINGS);
    let sum = v1::SumOpenings { range: Some(row), ..samples::sum_openings() };
    request(Request::OpeningsChunk(samples::chunk(Part::Sum(sum))));
}

#[test]
fn an_open() {
    let items = vec![samples::samples(MAX_OPEN_DRAWS / MAX_OPEN_ITEMS); MAX_OPEN_ITEMS];
    let bytes = response(Response::Open(v1::Open { items, ..samples::open() }));
    response(Response::Open(v1::Open { items: vec![samples::sums(MAX_OPEN_DRAWS)], ..samples::open() }));
    assert!(bytes < 5 << 19, "{bytes} bytes: limits.rs says below 2.5 MiB");
}

#[test]
fn an_inventory_and_a_verdict() {
    let text = |len| "x".repeat(len);
    let device = |id| v1::Device {
        name: text(MAX_NAME_BYTES),
        backend: text(MAX_BACKEND_BYTES),
        detail: text(MAX_DEVICE_DETAIL_BYTES),
        total_bytes: u64::MAX,
        free_bytes: u64::MAX,
        slots: vec![u32::MAX; SLOT_ENTRIES],
        precisions: (u32::MAX - 7..=u32::MAX).collect(),
        claimed_hardware: Some(Box::new(v1::Hardware {
            model: Some(text(MAX_NAME_BYTES)),
            uuid: Some(text(MAX_HARDWARE_TEXT_BYTES)),
            serial: Some(text(MAX_HARDWARE_TEXT_BYTES)),
            pci_address: Some(text(MAX_HARDWARE_TEXT_BYTES)),
            driver_version: Some(text(MAX_HARDWARE_TEXT_BYTES)),
            vbios_version: Some(text(MAX_HARDWARE_TEXT_BYTES)),
            memory_bytes: Some(u64::MAX),
            power_limit_mw: Some(u32::MAX),
            ..samples::hardware()
        })),
        ..samples::device(id)
    };
    let devices = (0..64).map(device).collect();
    let inventory = v1::Inventory { sequence: u32::MAX, devices, max_link: u32::MAX, sweeps: true };
    request(Request::Inventory(inventory.clone()));
    let versions = vec![1; MAX_VERSIONS];
    let hello = v1::Hello {
        versions,
        agent: text(MAX_AGENT_BYTES),
        inventory: Some(inventory),
        successors: vec![vec![1; 136]; MAX_SUCCESSORS],
        ..samples::hello()
    };
    let bytes = request(Request::Hello(hello));
    assert!(bytes <= MAX_HANDSHAKE_BYTES, "{bytes} bytes before the proof");

    let reason = v1::Reason { detail: text(MAX_DETAIL_BYTES), ..samples::reason() };
    let device = |id| v1::DeviceWork { name: text(MAX_NAME_BYTES), ..samples::device_work(id) };
    let bounds = vec![v1::Bound { fraction: 0.1, log2_probability: -1.0 }; MAX_BOUNDS];
    response(Response::Verdict(v1::Verdict {
        reasons: vec![reason; MAX_REASONS],
        devices: (0..64).map(device).collect(),
        work_bounds: bounds.clone(),
        iteration_bounds: bounds.clone(),
        probe_bounds: bounds.clone(),
        link: Some(v1::Link { bounds, ..samples::link() }),
        receipt: Some(text(MAX_RECEIPT_BYTES)),
        ..samples::verdict()
    }));
}

/// The memory of an empty entry for each of its bytes on the wire, as `MAX_HANDSHAKE_BYTES` assumes.
#[test]
fn an_empty_device_in_memory() {
    let empty = v1::Device::default();
    let inventory = v1::Inventory { sequence: 0, devices: vec![empty; 10], max_link: 0, sweeps: false };
    assert_eq!(inventory.encoded_len(), 20);
    assert!(size_of::<v1::Device>() <= 90 * 2, "{} bytes", size_of::<v1::Device>());
    let with_hardware = v1::Device { claimed_hardware: Some(Box::default()), ..v1::Device::default() };
    assert_eq!(
        v1::Inventory { sequence: 0, devices: vec![with_hardware; 10], max_link: 0, sweeps: false }.encoded_len(),
        40
    );
    let bytes = size_of::<v1::Device>() + size_of::<v1::Hardware>();
    assert!(bytes <= 90 * 4, "{bytes} bytes");
}
