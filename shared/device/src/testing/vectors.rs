//! The vectors that say what a device must give, and what a device gave.

use std::fs;
use std::path::PathBuf;

use assay_work::commitment::Evidence;
use assay_work::probe::{Answer, Probe, UncheckedProbe};
use assay_work::{Challenge, UncheckedChallenge};
use serde_json::Value;

use crate::run::ShareTask;
use crate::{Device, Handle};

/// Vectors of tens of billions of multiply-accumulates, which a device that is a program takes many seconds for.
pub const LARGE: [&str; 4] = ["n1024.json", "n2048.json", "openings-n2048.json", "uneven-devices.json"];

/// The files of `integration-tests/vectors` with a challenge and what it must give, each with its name.
///
/// # Panics
/// When they are not there.
#[must_use]
pub fn vectors() -> Vec<(String, Value)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../integration-tests/vectors");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let value: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        if value.get("challenge").is_some() && (value.get("evidence").is_some() || value.get("answer").is_some()) {
            found.push((path.file_name().unwrap().to_string_lossy().into_owned(), value));
        }
    }
    assert_eq!(found.len(), 10, "of the vectors, ten have a challenge and what it gives");
    found
}

/// Computes a vector on a device and compares what it gives: evidence, and the answer where there is a probe.
///
/// # Panics
/// When the device gives anything else.
pub fn check_vector(name: &str, vector: &Value, device: &mut dyn Device) {
    let (evidence, answer) = compute(vector, device);
    let detail = device.info().detail;
    if let Some(expected) = vector.get("evidence") {
        let expected: Evidence = serde_json::from_value(expected.clone()).unwrap();
        assert_eq!(evidence, Evidence { signature: None, ..expected }, "{name}, {detail}");
    }
    if let Some(expected) = vector.get("answer") {
        let expected: Answer = serde_json::from_value(expected.clone()).unwrap();
        assert_eq!(answer, Some(Answer { signature: None, ..expected }), "{name}, {detail}");
    }
}

fn compute(vector: &Value, device: &mut dyn Device) -> (Evidence, Option<Answer>) {
    let unchecked: UncheckedChallenge = serde_json::from_value(vector["challenge"].clone()).unwrap();
    let challenge = Challenge::try_from(unchecked).unwrap();
    let probe = vector.get("probe").map(|probe| {
        let unchecked: UncheckedProbe = serde_json::from_value(probe.clone()).unwrap();
        Probe::try_from(unchecked).unwrap()
    });
    let handle = Handle::default();
    let (mut roots, mut digests) = (Vec::new(), Vec::new());
    for task in ShareTask::of(&challenge) {
        let result = task.run(device, &handle).unwrap();
        let last = *result.roots.last().unwrap();
        digests.extend(probe.map(|probe| task.run_probe(device, &probe, &last, &handle).unwrap()));
        roots.push(result.roots);
    }
    let answer = probe.map(|probe| Answer::assemble(&challenge, &probe, digests));
    (Evidence::assemble(&challenge, roots), answer)
}
