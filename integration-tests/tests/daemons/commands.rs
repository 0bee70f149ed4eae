//! The commands over files and over the socket, with their exit codes: 0 pass, 1 fail, 2 inconclusive, 65 bad data.

use std::path::{Path, PathBuf};
use std::process::Output;

use assay_integration_tests::daemon::{passed, run};
use assay_integration_tests::dishonest::WorkLie;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::stage::Stage;
use assay_integration_tests::validator::{Policy, TestValidator};
use serde_json::Value;
use tempfile::TempDir;

const VALIDATOR: &str = "assay-validator";
const MINER: &str = "assay-miner";
/// Devices that hold the vectors.
const DEVICES: [&str; 3] = ["--backend=cpu", "--cpu-memory=64MiB", "--cpu-threads=1"];
/// Vectors with a challenge and the evidence for it.
const EVIDENCE: [&str; 5] = ["one-device", "two-devices-three-iterations", "uneven-devices", "smallest", "signed"];

fn vector(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "vectors", &format!("{name}.json")].iter().collect();
    path.display().to_string()
}

fn vector_json(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(vector(name)).unwrap()).unwrap()
}

fn write(folder: &TempDir, name: &str, value: &Value) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, value.to_string()).unwrap();
    path.display().to_string()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("it was killed: {output:?}"))
}

fn verify(challenge: &str, evidence: &str, more: &[&str]) -> Output {
    let arguments = ["verify", "--challenge", challenge, "--evidence", evidence, "--mode", "replay", "--json"];
    let devices = if more.is_empty() { &DEVICES[..] } else { more };
    run(VALIDATOR, arguments.iter().chain(devices))
}

#[test]
fn openings_that_hold() {
    for name in ["openings-n256", "openings-n2048", "openings-second-device"] {
        let output = run(VALIDATOR, ["check-openings", &vector(name), "--json"]);
        assert_eq!((code(&output), &json(&output)["outcome"]), (0, &Value::from("pass")), "{name}");
    }
}

#[test]
fn openings_that_do_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    // Openings of a pass, of a probe and of a linked one.
    for name in ["invalid-openings", "segments-plain", "segments-linked"] {
        let vectors = vector_json(name);
        let valid = write(&folder, "valid.json", &vectors["valid"]);
        assert_eq!(code(&run(VALIDATOR, ["check-openings", &valid])), 0);
        let cases = vectors["cases"].as_array().unwrap();
        assert!(cases.len() > 20);
        for case in cases {
            let file = write(&folder, "case.json", &case["opening"]);
            let output = run(VALIDATOR, ["check-openings", &file, "--json"]);
            assert_eq!((code(&output), &json(&output)["code"]), (1, &case["expect"]), "{name}: {}", case["what"]);
        }
    }
}

#[test]
fn files_that_are_no_openings() {
    let folder = tempfile::tempdir().unwrap();
    let mut unknown = vector_json("openings-n256");
    unknown["more"] = Value::from(1);
    let mut broken = vector_json("openings-n256");
    broken["challenge"]["n"] = Value::from(300);
    let mut linked = vector_json("segments-plain")["valid"].clone();
    linked["probe"]["link"] = Value::from(2);
    for value in [unknown, broken, linked, Value::from("x"), serde_json::json!({})] {
        let output = run(VALIDATOR, ["check-openings", &write(&folder, "a.json", &value)]);
        assert_eq!(code(&output), 65, "{output:?}");
    }
    assert_eq!(code(&run(VALIDATOR, ["check-openings", "/nowhere/a.json"])), 74);
    let twice =
        vector_json("openings-n256").to_string().replacen(r#""iteration":"#, r#""iteration":0,"iteration":"#, 1);
    let file = folder.path().join("twice.json").display().to_string();
    std::fs::write(&file, twice).unwrap();
    let output = run(VALIDATOR, ["check-openings", &file]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(code(&output) == 65 && said.contains("duplicate field `iteration`"), "{said}");
}

#[test]
fn evidence_that_holds() {
    for name in EVIDENCE {
        let output = verify(&vector(name), &vector(name), &[]);
        assert_eq!((code(&output), &json(&output)["outcome"]), (0, &Value::from("pass")), "{name}");
    }
}

#[test]
fn evidence_that_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let (challenge, bent) = (vector("signed"), |field: &str| {
        let mut evidence = vector_json("signed")["evidence"].clone();
        let text = evidence.pointer(field).unwrap().as_str().unwrap().to_owned();
        let flipped = if text.starts_with('0') { '1' } else { '0' };
        *evidence.pointer_mut(field).unwrap() = Value::from(format!("{flipped}{}", &text[1..]));
        evidence
    });
    let cases = [
        ("/challenge_id", "commitment_challenge"),
        ("/devices/0/device_id", "commitment_split"),
        ("/devices/0/roots/0", "commitment_checksum"),
        ("/checksum", "commitment_checksum"),
        ("/signature", "commitment_signature"),
    ];
    for (field, reason) in cases {
        let output = verify(&challenge, &write(&folder, "evidence.json", &bent(field)), &[]);
        let verdict = json(&output);
        assert_eq!((code(&output), verdict["reasons"][0]["code"].as_str()), (1, Some(reason)), "{field}");
        assert_eq!(verdict["reasons"][0]["class"], "forged");
    }
    // The evidence of another challenge, made to look like this one's: every checksum is right, the work is not.
    let output = verify(&vector("one-device"), &relabelled(&folder), &[]);
    assert_eq!((code(&output), json(&output)["reasons"][0]["code"].as_str()), (1, Some("root_mismatch")));
}

/// Evidence for the vector `one-device` with one wrong root and the checksums that go with it.
fn relabelled(folder: &TempDir) -> String {
    use assay_work::{Challenge, Evidence, Root, UncheckedChallenge};
    let vectors = vector_json("one-device");
    let unchecked: UncheckedChallenge = serde_json::from_value(vectors["challenge"].clone()).unwrap();
    let honest: Evidence = serde_json::from_value(vectors["evidence"].clone()).unwrap();
    let mut roots: Vec<Vec<Root>> = honest.devices.into_iter().map(|device| device.roots).collect();
    roots[0][0].0[0] ^= 1;
    let forged = Evidence::assemble(&Challenge::try_from(unchecked).unwrap(), roots);
    write(folder, "forged.json", &serde_json::to_value(forged).unwrap())
}

/// A validator whose devices hold too little cannot say.
#[test]
fn evidence_that_cannot_be_judged() {
    let small = ["--backend=cpu", "--cpu-memory=8MiB", "--cpu-threads=1"];
    let output = verify(&vector("n1024"), &vector("n1024"), &small);
    let verdict = json(&output);
    assert_eq!((code(&output), verdict["reasons"][0]["code"].as_str()), (2, Some("validator_devices")));
    assert_eq!(verdict["reasons"][0]["class"], "ours");
}

#[test]
fn work_gives_the_evidence_of_the_vectors() {
    let folder = tempfile::tempdir().unwrap();
    for name in EVIDENCE {
        let (out, key) = (folder.path().join("evidence.json"), folder.path().join("key"));
        let (out, key) = (out.display().to_string(), format!("--key-file={}", key.display()));
        let challenge = vector(name);
        let arguments = ["work", "--challenge", &challenge, "--out", &out, &key];
        let output = run(MINER, arguments.iter().chain(&DEVICES));
        assert_eq!(code(&output), 0, "{name}: {output:?}");
        let mut expected = vector_json(name)["evidence"].clone();
        // This miner has another key than the challenge names, and does not sign.
        expected.as_object_mut().unwrap().remove("signature");
        let found: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
        assert_eq!(found, expected, "{name}");
        if name == EVIDENCE[0] {
            // Evidence without a signature holds; that of the others is verified where it is signed.
            assert_eq!(code(&verify(&challenge, &out, &[])), 0, "{name}");
        }
    }
}

#[test]
fn work_answers_the_probes_of_the_vectors() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["probe", "probe-w64", "probe-n1024"] {
        let key = format!("--key-file={}", folder.path().join("key").display());
        let file = vector(name);
        let arguments = ["work", "--challenge", &file, "--probe", &file, "--json", &key];
        let output = run(MINER, arguments.iter().chain(&DEVICES));
        assert_eq!((code(&output), &json(&output)["answer"]), (0, &vector_json(name)["answer"]), "{name}");
    }
}

/// Each share on a device of its own: there are as many as shares, or it is refused.
#[test]
fn work_answers_the_linked_probes_of_the_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let key = format!("--key-file={}", folder.path().join("key").display());
    let work = |file: &str, devices: &str| {
        let arguments = ["work", "--challenge", file, "--probe", file, "--json", &key, devices];
        run(MINER, arguments.iter().chain(&DEVICES))
    };
    for (name, devices) in [("linked-probe", 3), ("linked-probe-k6", 2)] {
        let file = vector(name);
        let output = work(&file, &format!("--cpu-devices={devices}"));
        assert_eq!((code(&output), &json(&output)["answer"]), (0, &vector_json(name)["answer"]), "{name}");
        let output = work(&file, &format!("--cpu-devices={}", devices - 1));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("a linked probe of {devices} shares needs as many devices")), "{said}");
        assert_eq!(code(&output), 78, "{said}");
    }
}

#[test]
fn work_answers_the_sweeps_of_the_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let key = format!("--key-file={}", folder.path().join("key").display());
    for name in ["sweep", "sweep-k7"] {
        let file = vector(name);
        let output =
            run(MINER, ["work", "--challenge", &file, "--sweep", &file, "--json", &key].iter().chain(&DEVICES));
        assert_eq!((code(&output), &json(&output)["sweep_answer"]), (0, &vector_json(name)["answer"]), "{name}");
    }
    for case in vector_json("invalid-sweeps")["cases"].as_array().unwrap() {
        let file = write(&folder, "sweep.json", case);
        let output = run(MINER, ["work", "--challenge", &file, "--sweep", &file, &key].iter().chain(&DEVICES));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(code(&output) == 65 && said.contains("the sweep breaks rule rounds:"), "{said}");
    }
}

#[test]
fn work_refuses_challenges_that_break_a_rule() {
    let folder = tempfile::tempdir().unwrap();
    let key = format!("--key-file={}", folder.path().join("key").display());
    for case in vector_json("invalid-challenges")["cases"].as_array().unwrap() {
        let file = write(&folder, "challenge.json", &case["challenge"]);
        let output = run(MINER, ["work", "--challenge", &file, &key].iter().chain(&DEVICES));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let rule = case["expect"].as_str().unwrap();
        assert_eq!(code(&output), 65, "{said}");
        assert!(said.contains(&format!("breaks rule {rule}:")), "{rule}: {said}");
    }
}

#[test]
fn work_refuses_probes_that_break_a_rule() {
    let folder = tempfile::tempdir().unwrap();
    let key = format!("--key-file={}", folder.path().join("key").display());
    for case in vector_json("invalid-probes")["cases"].as_array().unwrap() {
        let file = write(&folder, "probe.json", case);
        let output = run(MINER, ["work", "--challenge", &file, "--probe", &file, &key].iter().chain(&DEVICES));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let rule = case["expect"].as_str().unwrap();
        assert_eq!(code(&output), 65, "{said}");
        assert!(said.contains(&format!("breaks rule {rule}:")), "{rule}: {said}");
    }
}

/// `challenge` for devices, `work`, `verify`: without a connection from end to end.
#[test]
fn a_challenge_file_from_end_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (challenge, evidence) = (path("challenge.json"), path("evidence.json"));
    let (key, validator_key) = (format!("--key-file={}", path("miner.key")), format!("--key-file={}", path("v.key")));
    let miner = assay_protocol::identity::Identity::load_or_create(Path::new(&path("miner.key"))).unwrap();
    let miner = miner.public_key().to_string();
    let made = ["challenge", "--devices", "3x5", "--n=256", "--iterations=2", "--miner-key", &miner, "--out"];
    assert_eq!(code(&run(VALIDATOR, made.iter().copied().chain([challenge.as_str(), &validator_key]))), 0);
    let worked = run(MINER, ["work", "--challenge", &challenge, "--out", &evidence, &key].iter().chain(&DEVICES));
    assert_eq!(code(&worked), 0, "{worked:?}");
    let text: Value = serde_json::from_str(&std::fs::read_to_string(&evidence).unwrap()).unwrap();
    assert!(text["signature"].is_string(), "the miner named in the challenge signs");
    assert_eq!(code(&verify(&challenge, &evidence, &[])), 0);
}

fn challenge_over(socket: &Path, more: &[&str]) -> Output {
    let socket = format!("--control-socket={}", socket.display());
    run(VALIDATOR, ["challenge", &socket, "--json"].iter().chain(more))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_challenge_ends_with_its_outcome() {
    let stage = Stage::with_one_device().await;
    let key = stage.miner.key.to_string();
    let ask = async |who: &str| {
        let (socket, who) = (stage.validator.socket.clone(), who.to_owned());
        let ask = move || challenge_over(&socket, &["--miner", &who, "--mode=audit"]);
        tokio::task::spawn_blocking(ask).await.unwrap()
    };
    for who in ["only", &key] {
        let output = ask(who).await;
        assert!(passed(output.status) && json(&output)["outcome"] == "pass", "{output:?}");
    }
    stage.miner.lies.in_work(WorkLie::ZeroLeaves);
    let output = ask("only").await;
    assert_eq!((code(&output), json(&output)["reasons"][0]["code"].as_str()), (1, Some("audit_leaf")));
    stage.miner.lies.in_work(WorkLie::NoMemory);
    let output = ask("only").await;
    assert_eq!((code(&output), json(&output)["reasons"][0]["code"].as_str()), (2, Some("not_enough_memory")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_challenge_of_nobody() {
    let validator = TestValidator::start(&Policy::default()).await;
    let nobody = "42".repeat(32);
    for who in ["only", &nobody] {
        let output = challenge_over(&validator.socket, &["--miner", who]);
        assert!(code(&output) == 2 && output.stdout.is_empty(), "there is nothing to judge: {output:?}");
    }
    let nowhere = validator.file("nowhere.sock");
    assert_eq!(code(&challenge_over(&nowhere, &["--miner", "only"])), 74);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_miners() {
    let validator = TestValidator::start(&Policy::default()).await;
    let socket = format!("--control-socket={}", validator.socket.display());
    assert_eq!(json(&run(VALIDATOR, ["miners", "--json", &socket])), serde_json::json!([]));
    let miner = TestMiner::start(validator.address, 2, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let listed = json(&run(VALIDATOR, ["miners", "--json", &socket]));
    assert_eq!(listed[0]["miner_key"], miner.key.to_string());
}
