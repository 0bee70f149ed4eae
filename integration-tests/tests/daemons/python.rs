//! `examples/`, in Python: a second implementation of the miner, written from the documents, against the real
//! validator.

use std::path::PathBuf;
use std::process::{Command, Output};

use assay_api::BeginChallenge;
use assay_integration_tests::daemon::Daemon;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::Mode;
use assay_protocol::wire::v1;
use assay_work::PublicKey;

const MODES: [Mode; 3] = [Mode::Audit, Mode::Replay, Mode::ReplaySample];

/// An example as a command. Without its packages it fails: a skipped test would go unnoticed.
fn example(name: &str) -> Command {
    let python = std::env::var_os("ASSAY_PYTHON").expect(
        "ASSAY_PYTHON is not set: run scripts/test, or set it to a Python that has examples/requirements.txt installed",
    );
    let mut command = Command::new(python);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name));
    command
}

/// Runs an example to its end, which is to be a good one.
fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}\n{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("it prints UTF-8")
}

/// A running `miner.py`, connected.
struct PythonMiner {
    key: PublicKey,
    daemon: Daemon,
}

impl PythonMiner {
    async fn start(validator: &TestValidator, devices: u32) -> Self {
        let mut command = example("miner.py");
        command.arg(format!("--validator={}", validator.address));
        command.arg(format!("--validator-key={}", validator.key));
        command.arg(format!("--key-file={}", validator.file("python.key").display()));
        let mut daemon = Daemon::spawn(command.arg(format!("--devices={devices}")));
        let line = daemon.wait_for("miner ");
        let key = line.as_str().and_then(|line| line.strip_prefix("miner ")).and_then(|key| hex::decode(key).ok());
        let key = PublicKey(key.and_then(|key| key.try_into().ok()).expect("it prints its key"));
        validator.wait_for_miner(key, true).await;
        Self { key, daemon }
    }
}

async fn passes(validator: &TestValidator, miner: &PythonMiner, mode: Mode, n: u32, iterations: u32) -> v1::Verdict {
    let request = BeginChallenge {
        miner: Some(miner.key.to_string()),
        mode: Some(mode),
        n: Some(n),
        iterations: Some(iterations),
        ..BeginChallenge::default()
    };
    let ruling = validator.run(request).await.unwrap();
    ruling.expect_pass();
    assert_eq!((ruling.verdict.n, ruling.verdict.iterations), (n, iterations));
    ruling.verdict
}

#[test]
fn computes_the_vectors() {
    succeed(&mut example("test_miner.py"));
}

#[tokio::test(flavor = "multi_thread")]
async fn passes_in_every_mode() {
    let validator = TestValidator::start(&Policy { n: 512, ..Policy::default() }).await;
    let miner = PythonMiner::start(&validator, 1).await;
    for (n, iterations) in [(256, 1), (256, 2), (256, 3), (512, 1), (512, 2), (512, 3)] {
        for mode in MODES {
            passes(&validator, &miner, mode, n, iterations).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn passes_with_two_devices_and_a_sweep() {
    let flags = vec!["--policy-fields=sweep=true".to_owned()];
    let validator = TestValidator::start(&Policy { flags, ..Policy::default() }).await;
    let miner = PythonMiner::start(&validator, 2).await;
    for mode in MODES {
        let verdict = passes(&validator, &miner, mode, 256, 2).await;
        assert!(verdict.devices.iter().all(|device| device.sweep.is_some()), "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_an_operator_in_python() {
    let validator = TestValidator::start(&Policy::default()).await;
    let miner = PythonMiner::start(&validator, 1).await;
    let operator = || {
        let mut command = example("api.py");
        command.arg("--socket").arg(&validator.socket);
        command
    };
    let miners = succeed(&mut operator());
    assert!(miners.starts_with(&miner.key.to_string()), "{miners}");
    let printed = succeed(operator().args(["--challenge", &miner.key.to_string(), "--mode", "audit"]));
    assert_eq!(printed, "phase work\nphase probe\nphase openings\nphase verdict\nverdict pass\n");
    let status = succeed(operator().arg("--status"));
    let counts = "1 of at most 256 miners\nverdicts: 1 pass, 0 fail, 0 inconclusive";
    assert!(status.contains(counts), "{status}");
}

/// It dials again when its validator is back, and says goodbye when it is asked to stop.
#[tokio::test(flavor = "multi_thread")]
async fn comes_back_and_leaves() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let mut miner = PythonMiner::start(&validator, 1).await;
    validator.daemon.terminate();
    miner.daemon.wait_for("goodbye: DRAINING");
    validator.restart().await;
    validator.wait_for_miner(miner.key, true).await;
    passes(&validator, &miner, Mode::Audit, 256, 1).await;
    miner.daemon.terminate();
    validator.wait_for_miner(miner.key, false).await;
    assert!(miner.daemon.wait().success());
}
