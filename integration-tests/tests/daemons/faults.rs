//! Faults of disks and kills of processes: a few of those that `scripts/faults` plants by the hundred.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use assay_integration_tests::daemon::program;

/// Runs the script over the programs of this build, and requires its good end; gives its lines.
fn faults(arguments: &[&str]) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/faults");
    let programs = program("assay-validator");
    let mut command = Command::new(script);
    let output = command.args(arguments).arg("--programs").arg(programs.parent().unwrap()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said.lines().map(str::to_owned).collect()
}

/// Calls of a start, of the beginning of a challenge, and of its conclusion.
#[test]
fn no_failing_call_of_a_disk_loses_a_verdict() {
    let said = faults(&["disk", "--kinds=enospc,eio,fsync,torn", "--points=1,5,31"]);
    let hit = said.iter().filter(|line| line.starts_with("disk used 1 ") && line.contains(" at ")).count();
    assert_eq!(hit, 12, "{said:#?}");
    assert!(said.iter().any(|line| line.starts_with("torn: killed: 3")), "{said:#?}");
}

/// A challenge that a killed validator left open waited ten minutes for its verdict where the next start met a failure.
#[test]
fn no_failing_call_keeps_a_challenge_of_a_killed_run_open() {
    let said = faults(&["disk", "--start=killed", "--kinds=fsync", "--points=6-8"]);
    assert_eq!(said.iter().filter(|line| line.contains(" at fsync ")).count(), 3, "{said:#?}");
}

/// A full disk ended a miner with a code after which its unit does not start it again.
#[test]
fn no_failing_call_of_a_miners_disk_ends_it_for_good() {
    let said = faults(&["disk", "--start=miner", "--kinds=enospc,torn", "--points=1,4"]);
    assert_eq!(
        said.iter().filter(|line| line.starts_with("disk miner 1 ") && line.contains(" at ")).count(),
        4,
        "{said:#?}"
    );
}

#[test]
fn no_read_that_fails_ends_in_a_refusal_for_good() {
    let said = faults(&["disk", "--kinds=read", "--points=20,39,45"]);
    assert!(said.iter().filter(|line| line.contains(" at ")).count() == 3, "{said:#?}");
}

#[test]
fn no_kill_of_a_daemon_loses_a_verdict() {
    let said = faults(&["kill", "--kinds=validator,miner,worker", "--times=2"]);
    assert!(said.iter().any(|line| line.starts_with("6 of 6 kills, all back")), "{said:#?}");
}

#[test]
fn no_kill_beside_a_shared_database_loses_a_verdict() {
    let said = faults(&["kill", "--kinds=replay-worker,postgres", "--times=2"]);
    assert!(said.iter().any(|line| line.starts_with("4 of 4 kills, all back")), "{said:#?}");
}
