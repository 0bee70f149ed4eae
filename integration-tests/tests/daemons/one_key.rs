//! One daemon for a key: a second one with the same key file does not start, and two with copies of it do not take over
//! from each other for ever.

use std::path::Path;

use assay_integration_tests::daemon::{Daemon, run};

/// Nobody listens there.
const NOWHERE: &str = "--validator=127.0.0.1:9";

fn arguments(key_file: &Path) -> Vec<String> {
    let device = ["run", NOWHERE, "--backend=cpu", "--cpu-memory=8MiB", "--cpu-threads=1", "--telemetry=off"];
    device.map(str::to_owned).into_iter().chain([format!("--key-file={}", key_file.display())]).collect()
}

#[test]
fn a_second_miner_with_the_same_key_file_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("miner.key");
    let mut first = Daemon::start("assay-miner", &arguments(&key_file));
    first.wait_for("connecting again");
    let second = run("assay-miner", arguments(&key_file));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(78), "{said}");
    let process = format!("assay-miner, process {}, since 20", first.id());
    for part in [process.as_str(), " UTC", "stop that one first", "another --key-file"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    // The first one goes on, and what it leaves when it is killed is no obstacle.
    first.kill();
    assert!(folder.path().join("miner.key.lock").exists());
    Daemon::start("assay-miner", &arguments(&key_file)).wait_for("connecting again");
}

/// Other commands read the key beside a miner that runs.
#[test]
fn the_lock_keeps_no_command_off() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("miner.key");
    let mut first = Daemon::start("assay-miner", &arguments(&key_file));
    first.wait_for("connecting again");
    let key = format!("--key-file={}", key_file.display());
    let devices = run("assay-miner", ["devices", "--backend=cpu", "--cpu-memory=8MiB", "--telemetry=off", &key]);
    assert_eq!(devices.status.code(), Some(0), "{devices:?}");
}

/// Root may write everywhere, so that the folder is none here.
#[test]
fn a_folder_that_cannot_hold_the_lock_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("miner.key");
    std::fs::create_dir(folder.path().join("miner.key.lock")).unwrap();
    let output = run("assay-miner", arguments(&key_file));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("miner.key.lock") && said.contains("must be writable"), "{said}");
}
