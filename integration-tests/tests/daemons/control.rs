//! The control socket as operators meet it: while a validator drains, and when there is none.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use assay_integration_tests::daemon::{program, run};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

const VALIDATOR: &str = "assay-validator";

/// Work of some seconds.
fn long_work() -> Policy {
    Policy { iterations: 1500, ..Policy::default() }
}

/// Work that no test waits for.
fn endless_work() -> Policy {
    Policy { iterations: 60_000, ..Policy::default() }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A command to the validator behind a socket.
fn ask(socket: &Path, arguments: &[&str]) -> Output {
    let socket = format!("--control-socket={}", socket.display());
    run(VALIDATOR, arguments.iter().copied().chain([socket.as_str()]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_names_the_challenges_that_it_cuts_short() {
    let mut validator = TestValidator::start(&endless_work()).await;
    let mut miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("working");
    validator.daemon.terminate();
    validator.daemon.wait_for("draining");
    validator.daemon.terminate();
    let ruling = challenge.ruling().await.unwrap();
    ruling.expect(ReasonCode::ValidatorDraining);
    let line = validator.daemon.wait_for("stopped before it was drained");
    let id: String = ruling.verdict.challenge_id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(line.to_string().contains(&id), "{line}");
    assert_eq!(validator.daemon.wait().code(), Some(75));
    assert!(!validator.daemon.log().iter().any(|line| line.contains("\"drained\"")));
    assert!(!validator.socket.exists(), "the socket goes with its validator");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_breaks_its_challenge_off_did_not_drain() {
    let validator = TestValidator::start(&endless_work()).await;
    let mut miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let _challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("working");
    miner.daemon.terminate();
    miner.daemon.wait_for("draining");
    miner.daemon.terminate();
    miner.daemon.wait_for("stopped before it was drained");
    assert_eq!(miner.daemon.wait().code(), Some(75));
    assert!(!miner.daemon.log().iter().any(|line| line.contains("\"drained\"")));
}

/// A monitor that keeps its connection open has no part in the drain.
#[tokio::test(flavor = "multi_thread")]
async fn a_health_watch_does_not_keep_a_validator_from_draining() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", validator.address)).unwrap();
    let mut health = HealthClient::new(channel.connect().await.unwrap());
    let mut watch = health.watch(HealthCheckRequest { service: String::new() }).await.unwrap().into_inner();
    watch.message().await.unwrap();
    validator.daemon.terminate();
    validator.daemon.wait_for("\"drained\"");
    assert_eq!(validator.daemon.wait().code(), Some(0));
    assert!(!validator.daemon.log().iter().any(|line| line.contains("stopping at once")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_is_served_while_the_validator_drains() {
    let mut validator = TestValidator::start(&long_work()).await;
    let mut miner = TestMiner::start(validator.address, 1, &[]);
    let idle = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    validator.wait_for_miner(idle.key, true).await;
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("working");
    validator.daemon.terminate();
    validator.daemon.wait_for("draining");
    let listed = ask(&validator.socket, &["miners", "--json"]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    assert!(String::from_utf8_lossy(&listed.stdout).contains(&miner.key.to_string()));
    let refused = ask(&validator.socket, &["challenge", "--miner", &miner.key.to_string()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("the validator is draining"), "{}", stderr(&refused));
    challenge.ruling().await.unwrap().expect_pass();
    assert_eq!(validator.daemon.wait().code(), Some(0));
}

#[test]
fn a_socket_that_no_validator_serves_is_said_to_be_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    drop(UnixListener::bind(path("stale.sock")).unwrap());
    std::fs::write(path("file"), "").unwrap();
    std::os::unix::fs::symlink(path("nowhere"), path("dangling")).unwrap();
    let long = folder.path().join("x".repeat(120));
    let cases = [
        (path("missing.sock"), "no validator runs at the control socket"),
        (path("no/folder.sock"), "no validator runs at the control socket"),
        (path("dangling"), "no validator runs at the control socket"),
        (path("stale.sock"), "has ended without removing it"),
        (path("file"), "is not a socket"),
        (folder.path().to_path_buf(), "is not a socket"),
        (long, "cannot connect to the control socket"),
    ];
    for (socket, expected) in cases {
        for command in [&["miners"][..], &["challenge", "--miner=only"]] {
            let output = ask(&socket, command);
            let said = stderr(&output);
            assert!(output.status.code() == Some(74) && said.contains(expected), "{}: {said}", socket.display());
            assert!(said.contains(&socket.display().to_string()), "{said}");
        }
    }
}

#[test]
fn a_socket_that_another_program_serves_is_no_validators() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("other.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    // A program that greets as many do, and one that closes at once.
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            if number % 2 == 0 {
                let _ = std::io::Write::write_all(&mut { stream }, b"220 mail.example ESMTP\r\n");
            }
        }
    });
    for _ in 0..2 {
        let output = ask(&socket, &["miners"]);
        let said = stderr(&output);
        assert!(output.status.code() == Some(74) && said.contains("does not answer as a validator"), "{said}");
    }
}

/// Who may not open the socket is told whose it is: root runs the command as another user here, as root may open any.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_open_the_socket_is_told_whose_it_is() {
    let validator = TestValidator::start(&Policy::default()).await;
    let mut command = Command::new(program(VALIDATOR));
    command.arg("miners").arg(format!("--control-socket={}", validator.socket.display()));
    let is_root =
        std::fs::metadata(&validator.socket).is_ok_and(|file| std::os::unix::fs::MetadataExt::uid(&file) == 0);
    if is_root {
        command.uid(65_534);
    } else {
        std::fs::set_permissions(&validator.socket, std::fs::Permissions::from_mode(0o000)).unwrap();
    }
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(74), "{said}");
    assert!(said.contains("no permission to open the control socket") && said.contains("user id "), "{said}");
}
