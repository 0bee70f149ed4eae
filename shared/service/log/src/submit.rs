//! Submission of a checkpoint to a witness (C2SP `tlog-witness`).

use std::fmt::{self, Write};
use std::str::FromStr;

use assay_work::text::printable;
use hyper::StatusCode;

use crate::checkpoint::{SignedCheckpoint, decimal};
use crate::error::LogError;
use crate::hash::sha256;
use crate::http::Url;
use crate::note::{MAX_NOTE_BYTES, Note, NoteKey};
use crate::proof::is_consistent;
use crate::source::Source;
use crate::tree::TreeReader;

/// The path below a witness's prefix.
pub const ADD_CHECKPOINT: &str = "add-checkpoint";
/// Bytes of the largest answer: a few signature lines.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// Bytes of an answer that an error shows.
const MAX_REASON_BYTES: usize = 200;

/// Where a witness gives the last checkpoint of a log.
pub fn checkpoint_path(origin: &str) -> String {
    format!("{}/checkpoint", hex::encode(sha256(origin.as_bytes())))
}

/// A witness: `URL#VKEY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessAddress {
    pub url: Url,
    pub key: NoteKey,
}

impl FromStr for WitnessAddress {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        let wrong = || LogError::malformed("expected URL#VKEY, with the key that the witness prints");
        let (url, key) = text.split_once('#').ok_or_else(wrong)?;
        Ok(Self { url: url.parse()?, key: NoteKey::witness(key)? })
    }
}

impl fmt::Display for WitnessAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.url, self.key)
    }
}

/// Has a witness cosign a checkpoint of the log with this key; `known` is the size that it cosigned last, as far as known.
/// Gives its signature line.
///
/// # Errors
/// [`LogError::Inconsistent`]: the witness has a checkpoint that the log signed and this copy of it does not have; others:
/// it gave no cosignature now.
pub async fn add_checkpoint(
    witness: &WitnessAddress,
    log: &NoteKey,
    source: &Source,
    signed: &SignedCheckpoint,
    known: &mut u64,
) -> Result<String, LogError> {
    let refused = |status, why: &[u8]| {
        let why = printable(String::from_utf8_lossy(why).trim(), MAX_REASON_BYTES);
        format!("{}: the witness answered {status}: {why}", witness.url)
    };
    let size = signed.checkpoint.size;
    for _ in 0..2 {
        let (status, answer) = submit(witness, source, signed, *known).await?;
        match status {
            StatusCode::OK => {
                let line = cosignature(witness, signed, &answer).map_err(|error| LogError::Http(error.to_string()))?;
                *known = size;
                return Ok(line);
            }
            StatusCode::CONFLICT => {
                let theirs = str::from_utf8(&answer).ok().and_then(|text| decimal(text.strip_suffix('\n')?));
                *known = theirs.ok_or_else(|| LogError::Http(refused(status, &answer)))?;
                if *known > size {
                    *known = 0;
                    check_last(witness, log, source, signed).await?;
                    return Err(LogError::Http(refused(status, &answer)));
                }
            }
            StatusCode::UNPROCESSABLE_ENTITY => {
                check_last(witness, log, source, signed).await?;
                return Err(LogError::Http(refused(status, &answer)));
            }
            status => return Err(LogError::Http(refused(status, &answer))),
        }
    }
    Err(LogError::Http(format!("{}: the witness cosigns checkpoints of another writer of this log", witness.url)))
}

/// Compares the last checkpoint of a witness with this copy of the log. The answers of a witness prove nothing against the
/// log: its own signature does.
async fn check_last(
    witness: &WitnessAddress,
    log: &NoteKey,
    source: &Source,
    signed: &SignedCheckpoint,
) -> Result<(), LogError> {
    let last = witness.url.get(&checkpoint_path(log.name()), MAX_NOTE_BYTES as u64).await?;
    let last = last.and_then(|note| SignedCheckpoint::open(str::from_utf8(&note).ok()?, log, &[]).ok());
    let (Some(last), own) = (last.map(|last| last.checkpoint), &signed.checkpoint) else { return Ok(()) };
    let contradicts = |what: &str| {
        let sizes = format!("the witness cosigned {} entries, the log has {}", last.size, own.size);
        Err(LogError::Inconsistent(format!("{}: {sizes}{what}", witness.url)))
    };
    if last.size > own.size {
        return contradicts("");
    }
    let proof = TreeReader::new(source, own.size).consistency(last.size).await?;
    match is_consistent((last.size, &last.root), (own.size, &own.root), &proof) {
        true => Ok(()),
        false => contradicts(" and does not begin with them"),
    }
}

async fn submit(
    witness: &WitnessAddress,
    source: &Source,
    signed: &SignedCheckpoint,
    old: u64,
) -> Result<(StatusCode, Vec<u8>), LogError> {
    let mut body = format!("old {old}\n");
    for hash in TreeReader::new(source, signed.checkpoint.size).consistency(old).await? {
        // A String takes every text.
        let _ = writeln!(body, "{hash}");
    }
    body.push('\n');
    body.push_str(&signed.note);
    let (status, answer) = witness.url.post(ADD_CHECKPOINT, body, MAX_ANSWER_BYTES).await?;
    Ok((status, answer.into()))
}

/// The witness's own line of an answer, once it holds.
pub(super) fn cosignature(
    witness: &WitnessAddress,
    signed: &SignedCheckpoint,
    answer: &[u8],
) -> Result<String, LogError> {
    let answer = str::from_utf8(answer).map_err(|_| LogError::malformed("a cosignature is not UTF-8"))?;
    let note = format!("{}\n{answer}", signed.checkpoint.text());
    let parsed = Note::parse(&note)?;
    if parsed.text != signed.checkpoint.text() {
        return Err(LogError::malformed("a cosignature of another text"));
    }
    let line = parsed.signature(&witness.key)?;
    line.map(str::to_owned).ok_or_else(|| LogError::Http(format!("{}: no cosignature of its key", witness.url)))
}
