//! Every kernel of the CPU backend that this processor runs, against every vector: what the reference is held to,
//! they are held to.

use std::fs;
use std::path::PathBuf;

use assay_shared::compute::cpu::{CpuConfig, KernelKind, devices};
use assay_shared::compute::device::{Device, Handle};
use assay_shared::compute::run::ShareTask;
use assay_shared::work::commitment::Evidence;
use assay_shared::work::probe::{Answer, Probe, UncheckedProbe};
use assay_shared::work::{Challenge, UncheckedChallenge};
use serde_json::Value;

/// The files with a challenge and what it must give.
fn vectors() -> Vec<(String, Value)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../integration-tests/vectors");
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

fn device(kernel: KernelKind, threads: usize) -> impl Device {
    let config = CpuConfig { devices: 1, memory_bytes: vec![1 << 29], threads: vec![threads], kernel };
    devices(&config, b"vectors").unwrap().remove(0)
}

/// What a device gives for a vector: evidence, and the answer where there is a probe.
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

#[test]
fn every_kernel_gives_every_vector() {
    let vectors = vectors();
    for (rank, kernel) in KernelKind::available().enumerate() {
        // The fastest alone and with company; the others, which take longer, with company.
        for threads in if rank == 0 { vec![1, 2] } else { vec![2] } {
            let mut device = device(kernel, threads);
            for (name, vector) in &vectors {
                let (evidence, answer) = compute(vector, &mut device);
                if let Some(expected) = vector.get("evidence") {
                    let expected: Evidence = serde_json::from_value(expected.clone()).unwrap();
                    assert_eq!(evidence, Evidence { signature: None, ..expected }, "{name}, {kernel}, {threads}");
                }
                if let Some(expected) = vector.get("answer") {
                    let expected: Answer = serde_json::from_value(expected.clone()).unwrap();
                    assert_eq!(answer, Some(Answer { signature: None, ..expected }), "{name}, {kernel}, {threads}");
                }
            }
        }
    }
}
