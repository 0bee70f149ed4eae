//! The vectors: required results of a device, and the comparison with its own.

use std::fs;
use std::path::PathBuf;

use assay_device::run::ShareTask;
use assay_device::{Device, Handle, SweepRounds};
use assay_work::commitment::Evidence;
use assay_work::digest::slot_digest;
use assay_work::probe::{
    Answer, LINE_BYTES, Link, LinkedSlots, Probe, Sweep, UncheckedProbe, UncheckedSweep, link_digest, linked_probe_key,
    linked_round_key, start_state, state_bytes, step, sweep_key,
};
use assay_work::{Challenge, Digest, Precision, Root, Share, UncheckedChallenge};
use serde_json::Value;

use crate::reference::ReferenceDevice;

/// Vectors of tens of billions of multiply-accumulates, which a device that is a program takes many seconds for.
pub const LARGE: [&str; 4] = ["k7-n1024.json", "n1024.json", "n2048.json", "uneven-devices.json"];

/// The files of `integration-tests/vectors` with a challenge of one of these kinds of work and its results, each with
/// its name.
///
/// # Panics
/// When they are not there.
pub fn vectors(precisions: &[Precision]) -> Vec<(String, Value)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../vectors");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let value: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        if value.get("challenge").is_some() && (value.get("evidence").is_some() || value.get("answer").is_some()) {
            found.push((path.file_name().unwrap().to_string_lossy().into_owned(), value));
        }
    }
    assert_eq!(found.len(), 24, "of the vectors, twenty-four have a challenge and what it gives");
    found.retain(|(_, vector)| precisions.contains(&precision_of(vector)));
    found
}

/// The kind of work of a vector's challenge.
///
/// # Panics
/// When it has none.
pub fn precision_of(vector: &Value) -> Precision {
    serde_json::from_value(vector["challenge"]["precision"].clone()).unwrap()
}

/// Computes a vector on a device and compares the results: evidence, and the answer where there is a probe or a sweep.
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
    if let Some(probe) = probe.filter(|probe| probe.link() == Link::All) {
        let (evidence, answer) = compute_linked(&challenge, &probe, device);
        return (evidence, Some(answer));
    }
    let sweep = vector.get("sweep").map(|sweep| {
        let unchecked: UncheckedSweep = serde_json::from_value(sweep.clone()).unwrap();
        Sweep::try_from(unchecked).unwrap()
    });
    let handle = Handle::default();
    let (mut roots, mut digests) = (Vec::new(), Vec::new());
    for task in ShareTask::of(&challenge) {
        let result = task.run(device, &handle).unwrap();
        let last = *result.roots.last().unwrap();
        digests.extend(probe.map(|probe| task.run_probe(device, &probe, &last, &handle).unwrap()));
        digests.extend(sweep.map(|sweep| {
            let key = sweep_key(&sweep, &task.work_key, task.share.device_id, &last);
            let rounds = SweepRounds { key, n: task.n, count: task.share.count, rounds: sweep.rounds() };
            device.sweep_rounds(&rounds, &handle).unwrap()
        }));
        roots.push(result.roots);
    }
    let answer = match sweep {
        Some(sweep) => Some(Answer::assemble(&challenge, sweep, digests)),
        None => probe.map(|probe| Answer::assemble(&challenge, probe, digests)),
    };
    (Evidence::assemble(&challenge, roots), answer)
}

/// A linked probe needs the slots of all shares at once: the device takes each share in turn, while reference devices
/// hold the others. Every turn must give the whole answer.
fn compute_linked(challenge: &Challenge, probe: &Probe, device: &mut dyn Device) -> (Evidence, Answer) {
    let handle = Handle::default();
    let tasks = ShareTask::of(challenge);
    let hold = |task: &ShareTask| {
        let bytes = u64::from(task.share.count) * challenge.slot_bytes();
        let mut other = ReferenceDevice::new(task.share.device_id, "reference", bytes);
        let result = task.run(&mut other, &handle).unwrap();
        (other, result)
    };
    let (mut others, results): (Vec<_>, Vec<_>) = tasks.iter().map(hold).unzip();
    let roots: Vec<_> = results.iter().map(|result| result.roots.clone()).collect();
    let last_roots: Vec<_> = roots.iter().map(|roots| *roots.last().unwrap()).collect();
    let mut answers = Vec::new();
    for (turn, task) in tasks.iter().enumerate() {
        assert_eq!(task.run(device, &handle).unwrap().roots, roots[turn], "{}", device.info().detail);
        let mut holders: Vec<&mut dyn Device> = others.iter_mut().map(|other| other as &mut dyn Device).collect();
        holders[turn] = &mut *device;
        answers.push(linked_answer(challenge, probe, &last_roots, &mut holders));
    }
    let answer = answers.pop().unwrap();
    assert!(answers.iter().all(|other| *other == answer), "another answer with another share on the device");
    (Evidence::assemble(challenge, roots), answer)
}

/// The answer of devices that hold the slots of all shares, in their order: walk by walk, each line read where it is.
fn linked_answer(challenge: &Challenge, probe: &Probe, last_roots: &[Root], holders: &mut [&mut dyn Device]) -> Answer {
    let linked = LinkedSlots::new(challenge);
    let key = |share: &Share| linked_probe_key(probe, challenge.work_key(), share.device_id, last_roots);
    let keys: Vec<_> = challenge.shares().iter().map(key).collect();
    let mut digests = vec![Vec::new(); keys.len()];
    let mut before = Digest::BEFORE_FIRST;
    for round in 0..probe.rounds() {
        for (key, digests) in keys.iter().zip(&mut digests) {
            let round_key = linked_round_key(key, round, &before);
            let mut states: Vec<_> = (0..probe.walks()).map(|walk| start_state(&round_key, walk)).collect();
            for _ in 0..probe.steps() {
                for state in &mut states {
                    let (a, line) = linked.position(state);
                    let (place, mut bytes) = (linked.place(a), [0; LINE_BYTES]);
                    let first_byte = u64::from(line) * LINE_BYTES as u64;
                    holders[place.share].read(place.slot, first_byte, &mut bytes).unwrap();
                    step(state, &bytes);
                }
            }
            digests.push(slot_digest(&states.iter().flat_map(state_bytes).collect::<Vec<_>>()));
        }
        before = link_digest(digests.iter().map(|of_device| &of_device[round as usize]));
    }
    Answer::assemble(challenge, probe, digests)
}
