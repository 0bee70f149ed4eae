//! Which devices a miner uses, and `devices` as it is watched.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use assay_integration_tests::daemon::{program, run};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::Policy;
use serde_json::Value;
use tempfile::TempDir;

const DEVICES: [&str; 5] =
    ["--backend=cpu", "--cpu-devices=3", "--cpu-memory=8MiB", "--cpu-threads=1", "--telemetry=off"];

fn miner(folder: &TempDir, command: &[&str]) -> Output {
    let key = format!("--key-file={}", folder.path().join("miner.key").display());
    run("assay-miner", command.iter().chain(&DEVICES).copied().chain([key.as_str()]))
}

fn listed(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn ids(listing: &Value) -> Vec<String> {
    listing["devices"].as_array().unwrap().iter().map(|row| row["device_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn devices_are_chosen_by_index_id_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let all = listed(&miner(&folder, &["devices", "--json"]));
    let key = run("assay-miner", ["key", &format!("--key-file={}", folder.path().join("miner.key").display())]);
    assert_eq!(all["miner_key"], String::from_utf8(key.stdout).unwrap().trim());
    let all_ids = ids(&all);
    assert_eq!(all_ids.len(), 3);
    for (index, row) in all["devices"].as_array().unwrap().iter().enumerate() {
        assert_eq!(row["index"], index);
    }
    let chosen = |flags: &[&str]| {
        let command: Vec<_> = ["devices", "--json"].iter().chain(flags).copied().collect();
        ids(&listed(&miner(&folder, &command)))
    };
    assert_eq!(chosen(&["--device=1"]), all_ids[1..2]);
    assert_eq!(chosen(&["--device", &all_ids[2][..8], "--device=0"]), [&*all_ids[0], &all_ids[2]]);
    assert_eq!(chosen(&["--device", &format!("^{}", all_ids[0]), "--device=^2"]), all_ids[1..2]);
    // A device keeps its name and its index whichever others are used.
    let second = listed(&miner(&folder, &["devices", "--json", "--device=CPU DEVICE 1"]));
    assert!(second["devices"][0]["name"].as_str().unwrap().ends_with("CPU device 1"), "{second}");
    let index = all_ids.iter().position(|id| *id == ids(&second)[0]).unwrap();
    assert_eq!((second["devices"].as_array().unwrap().len(), &second["devices"][0]["index"]), (1, &index.into()));
}

#[test]
fn devices_are_listed_where_no_key_can_be_made() {
    let output = run("assay-miner", ["devices", "--json", "--key-file=/dev/null/miner.key"].iter().chain(&DEVICES));
    let listing = listed(&output);
    assert_eq!((ids(&listing).len(), &listing["miner_key"]), (3, &Value::Null));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("the ids of the devices are not those of run"),
        "{output:?}"
    );
}

#[test]
fn a_choice_of_no_device_lists_them() {
    let folder = tempfile::tempdir().unwrap();
    let ids = ids(&listed(&miner(&folder, &["devices", "--json"])));
    for (flags, what) in [
        (&["--device=H200"][..], "device: no device has an id that begins with \"H200\""),
        (&["--device=^9"], "device: no device has the index 9"),
        (&["--device=^CPU"], "device: no device is left"),
    ] {
        for command in [&["devices"][..], &["run", "--validator=127.0.0.1:9"], &["bench", "--n=256"]] {
            let line: Vec<_> = command.iter().chain(flags).copied().collect();
            let output = miner(&folder, &line);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(78), "{line:?}: {said}");
            assert!(said.contains(what), "{line:?}: {said}");
            assert!(ids.iter().all(|id| said.contains(&id[..8])), "{line:?}: {said}");
        }
    }
}

/// The validator sees the device that is used, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_serves_with_the_devices_chosen() {
    let (validator, miner) =
        TestMiner::with_validator(&Policy::default(), 3, &["--device=^CPU device 1", "--device=^2"]).await;
    let miners = validator.miners().await;
    let devices = &miners[0].claimed_devices;
    assert!(matches!(devices.len(), 1 | 2) && devices.iter().all(|device| !device.name.ends_with("device 1")));
    validator.challenge(miner.key, None).await.unwrap().expect_pass();
}

fn watching(folder: &TempDir, flags: &[&str]) -> Child {
    let mut command = Command::new(program("assay-miner"));
    command.args(["devices", "--watch=1"]).args(DEVICES).args(flags);
    command.arg(format!("--key-file={}", folder.path().join("miner.key").display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn watched_devices_come_again_until_ctrl_c() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = watching(&folder, &["--json"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let listing: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(listing["devices"].as_array().unwrap().len(), 3);
    }
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!said.contains("error"), "{said}");
}

/// Not on a terminal, a list follows the other without control characters; a reader that goes away ends the command.
#[test]
fn watched_devices_end_with_their_reader() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = watching(&folder, &[]);
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut seen = String::new();
    while seen.matches("miner key: ").count() < 2 {
        assert!(output.read_line(&mut seen).unwrap() > 0, "{seen}");
    }
    assert!(!seen.contains('\u{1b}') && seen.matches(" UTC\n").count() == 2, "{seen}");
    drop(output);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_time_that_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for seconds in ["--watch=0", "--watch=3601"] {
        let output = miner(&folder, &["devices", seconds]);
        assert_eq!(output.status.code(), Some(64), "{output:?}");
    }
}
