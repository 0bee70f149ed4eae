//! Every bound of the wire, with its reason. A received message that exceeds one is refused; the validator sizes its
//! challenges, probes and draws by them.

use crate::claims;
use crate::message::MATRIX_SIZES;
use assay_work::challenge::{MAX_ITERATIONS, MAX_N, MAX_TOTAL};
use assay_work::probe::{LINE_BYTES, MAX_ROUNDS, MAX_STEPS, SUM_BYTES};

/// Bytes of one encoded message, in both directions.
///
/// The largest that the bounds below allow are 65536 roots or digests (2 MiB), the openings of a segment (1024 lines of
/// 1024 bytes with 27 siblings each, 2 MB), an open of 65536 samples (below 2.5 MB), 32768 slot digests (1 MiB) and a
/// sample's openings (37 ranges of up to 32 KiB, 1.2 MB): each fits with room to spare. A connection buffers at most this
/// much of an incomplete message.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Bytes of one message of the handshake: a hello with 64 devices and texts of full length takes nearly all of it. Its
/// sender is not authenticated yet, and the decoded message may be 90 times as large.
pub const MAX_HANDSHAKE_BYTES: usize = 64 << 10;
/// Bytes of a message without lists: a text of 1024 bytes, ids and signatures, and as much again for fields of newer
/// versions. The messages that are repeated without being asked for are of these kinds.
pub const MAX_SHORT_MESSAGE_BYTES: usize = 4 << 10;
/// Messages of a miner's handshake: hello and proof.
pub const HANDSHAKE_MESSAGES: u32 = 2;
/// Devices of one host: eight GPUs with eight partitions each.
pub const MAX_DEVICES: usize = 64;
/// Entries of a device's `slots`: one for each matrix size.
pub const SLOT_ENTRIES: usize = MATRIX_SIZES.len();
/// Kinds of work of a device: there are 6, with room for newer ones.
pub const MAX_PRECISIONS: usize = 8;
/// Protocol versions in a hello: more than one build will ever support.
pub const MAX_VERSIONS: usize = 16;
/// Bytes of a join token: a prefix and 256 bits in hexadecimal have fewer.
pub const MAX_JOIN_TOKEN_BYTES: usize = crate::join_token::MAX_JOIN_TOKEN_BYTES;
/// Successor statements in a hello or a welcome: one key change a month with an overlap of half a year.
pub const MAX_SUCCESSORS: usize = crate::successor::MAX_SUCCESSORS;

/// Bytes of a device's name: drivers give at most 96.
pub const MAX_NAME_BYTES: usize = 128;
/// Bytes of a backend's name: "cpu", "cuda", "wgpu" and later ones.
pub const MAX_BACKEND_BYTES: usize = 16;
/// Bytes of a backend's note about its choices: one or two lines of a terminal.
pub const MAX_DEVICE_DETAIL_BYTES: usize = 256;
/// Bytes of a text about a device's hardware, except its model: a UUID with its prefix has 40.
pub const MAX_HARDWARE_TEXT_BYTES: usize = 48;
/// Throttle reasons of a device, each named once: there are 9, with room for newer ones.
pub const MAX_THROTTLE_REASONS: usize = claims::MAX_THROTTLE_REASONS;
/// Distinct driver error codes of a device in one challenge: more are not credible.
pub const MAX_XIDS: usize = claims::MAX_XIDS;
/// Bytes of a program's name and version.
pub const MAX_AGENT_BYTES: usize = 64;
/// Bytes of a free text about an event: a few sentences with figures.
pub const MAX_DETAIL_BYTES: usize = 1024;
/// Bytes of a reason's code: more than twice the longest one.
pub const MAX_REASON_CODE_BYTES: usize = 48;
/// Bytes of a reason's class.
pub const MAX_CLASS_BYTES: usize = 16;

/// Roots of one device: one for each iteration. As bytes 2 MiB.
pub const MAX_ROOTS: usize = MAX_ITERATIONS as usize;
/// Probe digests of one device: one for each round. As bytes 2 MiB.
pub const MAX_PROBE_DIGESTS: usize = MAX_ROUNDS as usize;
/// Bytes of all roots behind one commitment, [`MAX_DEVICES`] times [`MAX_ROOTS`] (128 MiB): the largest challenge makes
/// a session keep that much, and the largest probe as much again for its digests. A validator with many miners sizes
/// its challenges far below.
pub const MAX_EVIDENCE_BYTES: usize = MAX_DEVICES * MAX_ROOTS * 32;

/// Items of one open: 127 iterations of 64 devices, and their segments.
pub const MAX_OPEN_ITEMS: usize = 8192;
/// Samples and segments of one open together: as many as fit in a message whatever their numbers. The answers to this
/// number take gigabytes; a policy asks for hundreds.
pub const MAX_OPEN_DRAWS: usize = 65_536;
/// Digests of one chunk: 1 MiB, so that the digests of a large pass do not delay pings for long.
pub const MAX_CHUNK_DIGESTS: usize = 32_768;
/// Opened ranges of a sample: a row, and two rows for it and each parent that is a product; two of the three may be
/// convolutions, which have 16 pieces in place of a row.
pub const MAX_SAMPLE_OPENINGS: usize = 1 + 2 + 2 * 17;
/// Lines of a segment: one for each step.
pub const MAX_LINES: usize = MAX_STEPS as usize;
/// Bytes of an opened range: a row of the largest matrix.
pub const MAX_RANGE_BYTES: usize = MAX_N as usize;
/// Siblings of an opened range: 1024 bytes of the sums of 2^20 slots of 32768² are 27 levels below their digest.
pub const MAX_SIBLINGS: usize = 27;

/// Reasons in a verdict: one for each device and each of the four stages of a challenge. A sender drops the rest.
pub const MAX_REASONS: usize = 4 * MAX_DEVICES;
/// Bytes of a verdict's receipt: a token with 64 devices takes half of it.
pub const MAX_RECEIPT_BYTES: usize = 192 << 10;
/// Bounds of one kind in a verdict: there are three, with room for more.
pub const MAX_BOUNDS: usize = 16;

/// Milliseconds of the shortest deadline: a deadline of 0 has passed when it starts.
pub const MIN_DEADLINE_MS: u64 = 1;
/// Milliseconds of the longest deadline: a day. A longer challenge makes a host useless to its owner.
pub const MAX_DEADLINE_MS: u64 = 24 * 3600 * 1000;
/// Milliseconds of the shortest interval between pings: shorter ones would measure themselves.
pub const MIN_PING_INTERVAL_MS: u64 = 10;
/// Milliseconds of the longest interval between pings: an hour. A dead peer is detected after three.
pub const MAX_PING_INTERVAL_MS: u64 = 3600 * 1000;
/// Milliseconds of the longest time until a refused miner dials again: an hour. A validator cannot turn a miner away for
/// longer.
pub const MAX_RETRY_AFTER_MS: u64 = 3600 * 1000;
/// Milliseconds of the longest time that a miner may claim: a week, above every deadline, so that arithmetic on claims
/// cannot overflow.
pub const MAX_CLAIMED_MS: u64 = 7 * MAX_DEADLINE_MS;
/// Slots of all iterations of a challenge, as progress counts them.
pub const MAX_PROGRESS_SLOTS: u64 = MAX_TOTAL * MAX_ITERATIONS as u64;

const _: () = assert!(MAX_ROOTS * 32 <= MAX_MESSAGE_BYTES / 2, "the roots of a device fit in a message");
const _: () = assert!(MAX_PROBE_DIGESTS * 32 <= MAX_MESSAGE_BYTES / 2, "the digests of a device fit in a message");
const _: () = assert!(1024 << MAX_SIBLINGS == SUM_BYTES * MAX_N as u64 * MAX_TOTAL, "siblings of the longest sums");
// The largest slot and the states of the most walks are shorter strings.
const _: () = assert!(MAX_N as u64 * MAX_N as u64 <= 1024 << MAX_SIBLINGS);
const _: () = assert!(assay_work::probe::MAX_WALKS as u64 * LINE_BYTES as u64 <= 1024 << MAX_SIBLINGS);
