//! Another machine, as far as addresses say: a network namespace with an address that is not loopback. It takes
//! unshare(1) of util-linux and user namespaces.

use std::process::Command;

use assay_integration_tests::daemon::{Daemon, program};
use assay_protocol::identity::Identity;

/// Runs daemons in a namespace of their own: a validator, then a miner with each of these addresses, all with their
/// logs on one standard error.
const SCRIPT: &str = r#"
ip link set lo up
ip addr add 10.77.0.1/32 dev lo
"$VALIDATOR" serve --listen=0.0.0.0:7400 --advertise=10.77.0.1:7400 --key-file="$FOLDER/validator.key" \
  --control-socket="$FOLDER/control.sock" --backend=cpu --cpu-memory=8MiB --challenge-on-connect=false &
n=0
for target in $TARGETS; do
  n=$((n + 1))
  "$MINER" run --validator="$target" --insecure-allow-remote-plaintext --key-file="$FOLDER/miner$n.key" --backend=cpu \
    --cpu-memory=8MiB --cpu-threads=1 --reconnect-max-ms=200 &
done
wait
"#;

#[test]
fn another_machine_is_served_by_tls_alone() {
    let folder = tempfile::tempdir().unwrap();
    let key = Identity::load_or_create(&folder.path().join("validator.key")).unwrap().public_key();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", SCRIPT]);
    command.env("VALIDATOR", program("assay-validator")).env("MINER", program("assay-miner"));
    command.env("FOLDER", folder.path()).env("TARGETS", format!("10.77.0.1:7400 10.77.0.1:7400#{key}"));
    let mut daemons = Daemon::spawn(&mut command);
    let (refused, connected) = (
        "a plaintext connection from another machine is refused",
        "a validator takes plaintext from its own machine only",
    );
    // In any order.
    let mut missing = vec![refused, connected, "connected: waiting for challenges"];
    while !missing.is_empty() {
        let line = daemons.wait_for("").to_string();
        missing.retain(|part| !line.contains(part));
    }
    let told = daemons.log().iter().find(|line| line.contains(refused)).unwrap().clone();
    assert!(told.contains("10.77.0.1") && told.contains("assay-validator address"), "{told}");
}
