//! Files of the interchange form (WORK.md, JSON): a challenge, evidence, and openings.

use std::sync::LazyLock;

use assay_work::{
    Challenge, Evidence, PassOpenings, Precision, ProbeFile, StandaloneError, SweepFile, UncheckedChallenge,
    check_probe_file, check_standalone, check_sweep_file, from_json, from_json_under,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::honest::Opened;
use crate::text;

static OPENED: LazyLock<Opened> = LazyLock::new(|| Opened::new(Precision::Int8));

/// Reads an object, which is read again as it is written.
fn read<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(data: &[u8]) -> Option<T> {
    let object: T = from_json(text(data)?).ok()?;
    let written = serde_json::to_string(&object).expect("an object becomes JSON");
    assert_eq!(from_json::<T>(&written).expect("JSON that was written is read"), object);
    Some(object)
}

/// The code of a refusal is one of WORK.md's: a word.
fn is_word(checked: &Result<(), StandaloneError>) {
    let code = checked.as_ref().err().map_or("none", StandaloneError::code);
    assert!(!code.is_empty() && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{code}");
}

/// A challenge, alone or under its name.
pub fn challenge_json(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let under = from_json_under::<UncheckedChallenge>("challenge")(text);
    let Some(unchecked) = read::<UncheckedChallenge>(data) else { return };
    assert_eq!(under.ok().as_ref(), Some(&unchecked), "an object without that field is the object itself");
    let Ok(challenge) = Challenge::try_from(unchecked.clone()) else { return };
    assert_eq!(challenge.fields(), &unchecked);
    let mut next = 0;
    for share in challenge.shares() {
        assert_eq!(share.offset, next);
        next += share.count;
    }
}

/// Evidence, checked against a challenge.
pub fn evidence_json(data: &[u8]) {
    let Some(evidence) = read::<Evidence>(data) else { return };
    if evidence.check(&OPENED.binding.challenge).is_ok() {
        let (signature, expected) = (evidence.signature, Evidence::clone(&OPENED.binding.evidence));
        assert_eq!(evidence, Evidence { signature, ..expected }, "other roots have this checksum");
    }
}

/// Openings of a pass.
pub fn pass_openings(data: &[u8]) {
    let Some(given) = read::<PassOpenings>(data) else { return };
    let checked = check_standalone(&given, None);
    is_word(&checked);
    if checked.is_ok() {
        let none = check_standalone(&given, Some(&[]));
        assert!(none.is_err() || given.samples.is_empty(), "samples were accepted that were not drawn");
    }
}

/// Openings of a probe.
pub fn probe_file(data: &[u8]) {
    let Some(file) = read::<ProbeFile>(data) else { return };
    let checked = check_probe_file(&file);
    is_word(&checked);
    assert!(checked.is_err() || file.segments.len() == file.drawn.len());
}

/// Openings of a sweep.
pub fn sweep_file(data: &[u8]) {
    let Some(file) = read::<SweepFile>(data) else { return };
    let checked = check_sweep_file(&file);
    is_word(&checked);
    assert!(checked.is_err() || file.samples.len() == file.drawn.len());
}
