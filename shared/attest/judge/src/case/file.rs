//! A case as bytes: a mark with the version of the format, then the entries, each with its kind and its length.
//!
//! Messages are in the encoding of the wire, and read with its checks. Documents that grow with releases are TOML,
//! which keeps every bit of a number and lets fields be added. Small events are postcard.

use std::io::{self, Read};
use std::sync::Arc;

use assay_protocol::message::{MinerMessage, ValidatorMessage};
use assay_protocol::wire::WireError;
use assay_protocol::wire::limits::MAX_MESSAGE_BYTES;
use assay_protocol::wire::stored::{miner_bytes, miner_message, validator_bytes, validator_message};
use assay_work::ChallengeId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

use super::entry::{CaseEntry, RunEvent};
use crate::verify::excuse::ValidatorDelays;

/// First bytes of a case: the file type and the version of its format.
pub const MARK: [u8; 16] = *b"assay case v1\n\0\0";
/// Bytes of an entry: a message, its time and the iterations beside it.
pub const MAX_ENTRY_BYTES: usize = MAX_MESSAGE_BYTES + (1 << 20);
/// Entries of a case: two for each chunk of the largest request for openings, and room.
pub const MAX_ENTRIES: u64 = 4 << 20;

/// Reasons why bytes are not a case.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    #[error("cannot read the case: {0}")]
    Read(#[from] io::Error),
    /// The mark is missing or of another version.
    #[error("no case, or one of a newer release")]
    Mark,
    /// An entry is larger than any, or there are too many.
    #[error("entry {0} is beyond the bounds of a case")]
    Bounds(u64),
    /// The entry's contents do not fit its kind.
    #[error("entry {number}: {problem}")]
    Entry {
        /// Index of the entry, from 0.
        number: u64,
        /// The problem found.
        problem: String,
    },
    /// The entries do not make a case.
    #[error("the case is not whole: {0}")]
    Incomplete(&'static str),
}

const HEADER: u8 = 1;
const INVENTORY: u8 = 2;
const OFFER: u8 = 3;
const UNCHALLENGED: u8 = 4;
const PROBE: u8 = 5;
const OPEN: u8 = 6;
const MESSAGE: u8 = 7;
const EVENT: u8 = 8;
const KNOWN: u8 = 9;
const HELD_UP: u8 = 10;
const VERDICT: u8 = 11;
const FLEET: u8 = 12;
/// Delays that a case of the first release lacks.
const MISSING_DELAYS: usize = 5;

/// Encodes an entry. `id` is the challenge's, which messages name.
pub fn encode(entry: CaseEntry, id: ChallengeId) -> Vec<u8> {
    let (kind, payload) = match entry {
        CaseEntry::Header(header) => (HEADER, document(&header)),
        CaseEntry::Inventory(inventory) => (INVENTORY, miner_bytes(MinerMessage::Inventory(inventory))),
        CaseEntry::Offer(offer) => (OFFER, validator_bytes(ValidatorMessage::Challenge(offer))),
        CaseEntry::Unchallenged(unmade) => (UNCHALLENGED, document(&unmade)),
        CaseEntry::Probe(probe) => (PROBE, validator_bytes(ValidatorMessage::asking(id, probe, Duration::ZERO))),
        CaseEntry::Open(items, iterations) => {
            let mut payload = packed(&iterations);
            payload.splice(0..0, length(payload.len()));
            payload.extend(validator_bytes(ValidatorMessage::Open {
                challenge_id: id,
                items,
                deadline: Duration::ZERO,
            }));
            (OPEN, payload)
        }
        CaseEntry::Message(at, message) => (MESSAGE, received(at, message)),
        CaseEntry::Openings(at, chunk) => {
            (MESSAGE, received(at, MinerMessage::OpeningsChunk(Arc::unwrap_or_clone(chunk))))
        }
        CaseEntry::Event(event) => (EVENT, packed(&event)),
        CaseEntry::Known(known) => (KNOWN, document(&known)),
        CaseEntry::HeldUp(held_up) => {
            let mut payload = packed(&held_up);
            // Releases before the devices' delays read a case without any.
            payload.truncate(payload.len() - usize::from(held_up.devices.is_empty()));
            (HELD_UP, payload)
        }
        CaseEntry::Fleet(text) => (FLEET, text.into_bytes()),
        CaseEntry::Verdict(json) => (VERDICT, json),
    };
    let mut bytes = Vec::with_capacity(5 + payload.len());
    bytes.push(kind);
    bytes.extend(length(payload.len()));
    bytes.extend(payload);
    bytes
}

fn received(at: u64, message: MinerMessage) -> Vec<u8> {
    let mut payload = at.to_le_bytes().to_vec();
    payload.extend(miner_bytes(message));
    payload
}

/// Reads a case entry by entry: only one entry is in memory at a time.
#[derive(Debug)]
pub struct CaseReader<R> {
    from: R,
    number: u64,
    ended: bool,
}

impl<R: Read> CaseReader<R> {
    /// Reads the mark.
    ///
    /// # Errors
    /// [`CaseError::Mark`], [`CaseError::Read`].
    pub fn new(mut from: R) -> Result<Self, CaseError> {
        let mut mark = [0; MARK.len()];
        from.read_exact(&mut mark)?;
        if mark == MARK { Ok(Self { from, number: 0, ended: false }) } else { Err(CaseError::Mark) }
    }

    /// Returns the underlying reader.
    pub fn into_inner(self) -> R {
        self.from
    }

    /// Reads the next entry; `None` at the end.
    ///
    /// # Errors
    /// [`CaseError`]; nothing is read after one.
    pub fn next_entry(&mut self) -> Result<Option<CaseEntry>, CaseError> {
        if self.ended {
            return Ok(None);
        }
        // Any error below ends the reading.
        self.ended = true;
        let mut head = [0; 5];
        if self.from.read(&mut head[..1])? == 0 {
            return Ok(None);
        }
        self.from.read_exact(&mut head[1..])?;
        let [kind, a, b, c, d] = head;
        let (number, bytes) = (self.number, u32::from_le_bytes([a, b, c, d]) as usize);
        if bytes > MAX_ENTRY_BYTES || number >= MAX_ENTRIES {
            return Err(CaseError::Bounds(number));
        }
        // Reads the bytes present rather than allocating the announced length.
        let mut payload = Vec::new();
        if Read::by_ref(&mut self.from).take(bytes as u64).read_to_end(&mut payload)? < bytes {
            return Err(CaseError::Incomplete("an entry is cut off"));
        }
        let entry = decode(kind, &payload).map_err(|problem| CaseError::Entry { number, problem })?;
        (self.number, self.ended) = (number + 1, false);
        Ok(Some(entry))
    }
}

fn decode(kind: u8, payload: &[u8]) -> Result<CaseEntry, String> {
    let wire = |error: WireError| error.to_string();
    Ok(match kind {
        HEADER => CaseEntry::Header(read_document(payload)?),
        INVENTORY => match miner_message(payload).map_err(wire)? {
            MinerMessage::Inventory(inventory) => CaseEntry::Inventory(inventory),
            _ => return Err("no inventory".into()),
        },
        OFFER => match validator_message(payload).map_err(wire)? {
            ValidatorMessage::Challenge(offer) => CaseEntry::Offer(offer),
            _ => return Err("no offer".into()),
        },
        UNCHALLENGED => CaseEntry::Unchallenged(read_document(payload)?),
        PROBE => match validator_message(payload).map_err(wire)? {
            ValidatorMessage::Probe { probe, .. } => CaseEntry::Probe(probe.into()),
            ValidatorMessage::Sweep { sweep, .. } => CaseEntry::Probe(sweep.into()),
            _ => return Err("no probe".into()),
        },
        OPEN => read_open(payload)?,
        MESSAGE => {
            let (at, message) = payload.split_first_chunk().ok_or("it has no time")?;
            let at = u64::from_le_bytes(*at);
            match miner_message(message).map_err(wire)? {
                MinerMessage::OpeningsChunk(chunk) => CaseEntry::Openings(at, Arc::new(chunk)),
                message => CaseEntry::Message(at, message),
            }
        }
        EVENT => CaseEntry::Event(unpack::<RunEvent>(payload)?),
        KNOWN => CaseEntry::Known(read_document(payload)?),
        HELD_UP => CaseEntry::HeldUp(read_delays(payload)?),
        FLEET => CaseEntry::Fleet(text(payload)?.to_owned()),
        VERDICT => CaseEntry::Verdict(payload.to_vec()),
        other => return Err(format!("a kind {other} that this release does not know")),
    })
}

/// Reads delays, of which cases of earlier releases lack the last ones: an absent one is a zero.
fn read_delays(payload: &[u8]) -> Result<ValidatorDelays, String> {
    let padded = [payload, &[0; MISSING_DELAYS]].concat();
    let (delays, rest) = postcard::take_from_bytes(&padded).map_err(|error| error.to_string())?;
    if rest.len() > MISSING_DELAYS { Err("something follows it".to_owned()) } else { Ok(delays) }
}

fn read_open(payload: &[u8]) -> Result<CaseEntry, String> {
    let (bytes, rest) = payload.split_first_chunk().ok_or("it has no iterations")?;
    let split = rest.split_at_checked(u32::from_le_bytes(*bytes) as usize);
    let (iterations, message) = split.ok_or("its iterations are cut off")?;
    match validator_message(message).map_err(|error| error.to_string())? {
        ValidatorMessage::Open { items, .. } => Ok(CaseEntry::Open(items, unpack(iterations)?)),
        _ => Err("no request for openings".into()),
    }
}

/// The length field, saturated at `u32::MAX`; entries have at most [`MAX_ENTRY_BYTES`].
fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes()
}

fn document<T: Serialize>(value: &T) -> Vec<u8> {
    // Numbers, texts and tables always become TOML. A document that did not would not be read back, and the case be
    // refused.
    toml::to_string(value).unwrap_or_default().into_bytes()
}

fn read_document<T: DeserializeOwned>(payload: &[u8]) -> Result<T, String> {
    toml::from_str(text(payload)?).map_err(|error| error.to_string().trim_end().to_owned())
}

fn text(payload: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(payload).map_err(|error| error.to_string())
}

fn packed<T: Serialize>(value: &T) -> Vec<u8> {
    // As above.
    postcard::to_stdvec(value).unwrap_or_default()
}

fn unpack<T: DeserializeOwned>(payload: &[u8]) -> Result<T, String> {
    let (value, rest) = postcard::take_from_bytes(payload).map_err(|error| error.to_string())?;
    if rest.is_empty() { Ok(value) } else { Err("bytes are left over".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_work::DeviceId;

    #[test]
    fn delays_of_earlier_cases_lack_the_last_ones() {
        let delay = |ms| Some(Duration::from_millis(ms));
        let delays = ValidatorDelays { at_the_end: delay(1), timed: delay(300), ..ValidatorDelays::default() };
        let written = packed(&delays);
        assert_eq!(read_delays(&written), Ok(delays.clone()));
        for missing in 1..5 {
            let written = &written[..written.len() - missing];
            assert_eq!(read_delays(written), Ok(delays.clone()), "of a release without {missing}");
        }
        let devices = vec![(DeviceId([1; 16]), [delay(3), None]), (DeviceId([2; 16]), [None, delay(4)])];
        for delays in [delays.clone(), ValidatorDelays { devices, ..delays.clone() }] {
            let entry = encode(CaseEntry::HeldUp(delays.clone()), ChallengeId([9; 16]));
            let (payload, written) = (&entry[5..], packed(&delays));
            let left_out = usize::from(delays.devices.is_empty());
            assert_eq!(payload, &written[..written.len() - left_out], "older releases read a case without devices");
            assert_eq!(decode(HELD_UP, payload).unwrap(), CaseEntry::HeldUp(delays));
        }
        let first = ValidatorDelays { timed: None, ..delays };
        assert_eq!(read_delays(&packed(&(first.at_the_end, first.for_long))), Ok(first), "of the first release");
        assert!(read_delays(&[&written[..], &[0]].concat()).is_err() && read_delays(&[]).is_err());
    }
}
