//! The memory that a decoded message may take. A program of its own, since it counts all allocations.

use assay_protocol::wire::limits::MAX_MESSAGE_BYTES;
use assay_protocol::wire::lists;
use assay_protocol::wire::v1::{self, SessionRequest, SessionResponse};
use peak_alloc::PeakAlloc;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Bytes that decoding may allocate besides those of the message itself: the longest lists, samples and segments of an
/// open with their parents, while they grow.
const MAX_LIST_BYTES: usize = 8 << 20;

/// The most bytes that were allocated at a time while this ran, beyond those before it.
fn peak<T>(run: impl FnOnce() -> T) -> (usize, T) {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let result = run();
    (MEMORY.peak_usage().saturating_sub(before), result)
}

fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(number, WireType::LengthDelimited, &mut out);
    encode_varint(bytes.len() as u64, &mut out);
    out.extend_from_slice(bytes);
    out
}

/// Refused, or decoded within the bound; gives how much memory that took.
fn bounded<M: Message + Default + 'static>(bytes: &[u8]) -> usize {
    let (peak, accepted) = peak(|| lists::check::<M>(bytes).is_ok().then(|| M::decode(bytes)).is_some());
    let most = if accepted { bytes.len() + MAX_LIST_BYTES } else { 1 << 10 };
    assert!(peak <= most, "{peak} bytes for a message of {} (accepted: {accepted}): {:x?}", bytes.len(), &bytes[..40]);
    peak
}

/// A generator of few states is random enough to nest fields.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Fields of small numbers in one another, up to `bytes` bytes.
    fn message(&mut self, bytes: usize, depth: usize) -> Vec<u8> {
        let mut out = Vec::new();
        // A message is of few kinds of fields, often repeated.
        let numbers = [1 + self.below(13) as u32, 1 + self.below(13) as u32];
        while out.len() < bytes {
            let number = numbers[self.below(2) as usize];
            let inner = if depth == 0 || self.below(8) == 0 {
                vec![0; self.below(3) as usize]
            } else {
                let inner_bytes = self.below(bytes as u64 / 2 + 2) as usize;
                self.message(inner_bytes, depth - 1)
            };
            let most = if self.below(4) == 0 { 2000 } else { 2 };
            let repeats = 1 + self.below(most) as usize;
            out.extend(field(number, &inner).repeat(repeats.min(MAX_MESSAGE_BYTES / (inner.len() + 3))));
        }
        out.truncate(bytes.max(2));
        out
    }
}

#[test]
fn what_is_accepted_decodes_within_a_bound() {
    // The schema of the messages is read once.
    lists::check::<SessionRequest>(&[]).unwrap();
    // The inventory of a request with as many empty devices as a message has room for.
    let devices = MAX_MESSAGE_BYTES / 2 - 8;
    let inventory = field(3, &field(2, &[]).repeat(devices));
    assert!(inventory.len() <= MAX_MESSAGE_BYTES);
    let (unbounded, _) = peak(|| SessionRequest::decode(inventory.as_slice()));
    let refused = bounded::<SessionRequest>(&inventory);
    println!("{devices} empty devices, {} bytes: {unbounded} bytes decoded, {refused} refused", inventory.len());
    assert!(unbounded > 200 << 20, "the reason for the count: {unbounded} bytes");

    // Every list of a session: a message full of its empty entries, and one of as many as are allowed.
    for count in [16, 64, 512, 1024, 8192, 65_536] {
        for number in 1..=13 {
            for list in 1..=16 {
                let message = field(number, &field(list, &[]).repeat(count));
                bounded::<SessionRequest>(&message);
                bounded::<SessionResponse>(&message);
                bounded::<SessionRequest>(&field(number, &field(4, &message)));
                bounded::<SessionResponse>(&field(7, &field(2, &message)));
            }
        }
    }
    // The largest open: every item with its samples.
    let sample = v1::Sample { slot: 1, row: 1, factors: Some(v1::SampleFactors { column: 1, inner: 1 }) };
    let items = (0..8192).map(|_| v1::OpenItem {
        device_id: vec![1; 16],
        what: Some(v1::open_item::What::Samples(v1::OpenSamples { iteration: 1, samples: vec![sample; 8] })),
    });
    let open = v1::Open { challenge_id: vec![1; 16], items: items.collect(), deadline_ms: 1 };
    let message = Some(v1::session_response::Message::Open(open));
    let bytes = SessionResponse { message }.encode_to_vec();
    assert_eq!(lists::check::<SessionResponse>(&bytes), Ok(()));
    println!("the largest open, {} bytes: {} bytes decoded", bytes.len(), bounded::<SessionResponse>(&bytes));

    for seed in 0..500 {
        let mut draws = Draws(seed);
        let bytes = draws.below(1 << 16) as usize;
        let message = draws.message(bytes, 4);
        bounded::<SessionRequest>(&message);
        bounded::<SessionResponse>(&message);
    }
}
