//! The log of verdicts of a real validator: proofs of receipts, a witness, kill -9, an old backup.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::{self, Daemon, PATIENCE, run};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_log::Witness;
use assay_protocol::identity::Identity;
use tokio::net::TcpSocket;

/// The witness's process. Dropped, it is killed.
struct WitnessProcess(Child);

impl Drop for WitnessProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A validator with a witness, and the folder of those who watch it.
struct Scene {
    validator: TestValidator,
    miner: TestMiner,
    folder: tempfile::TempDir,
    /// Where the witness will be, and its key: `URL#VKEY`.
    witness: String,
    /// Keeps its port from others; nobody listens.
    port: Option<TcpSocket>,
}

impl Scene {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = socket.local_addr().unwrap().port();
        let secret = Identity::load_or_create(&folder.path().join("witness/witness.key")).unwrap();
        let key = Witness::new(folder.path(), secret, Vec::new()).key().to_string();
        let witness = format!("http://127.0.0.1:{port}#{key}");
        let flags = vec![format!("--log-witnesses={witness}"), "--http-listen=127.0.0.1:0".to_owned()];
        let (validator, miner) = TestMiner::with_validator(&Policy { flags, ..Policy::default() }, 1, &[]).await;
        Self { validator, miner, folder, witness, port: Some(socket) }
    }

    /// Starts the witness that the validator has asked in vain.
    fn start_witness(&mut self) -> WitnessProcess {
        self.port = None;
        let (url, key) = self.witness.split_once('#').unwrap();
        let mut command = self.witness_at(url.trim_start_matches("http://"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), format!("{url}#{key}"), "as the validator's setting has it");
        WitnessProcess(child)
    }

    fn witness_at(&self, listen: &str) -> Command {
        let state = format!("--state={}", self.folder.path().join("witness").display());
        let mut command = daemon::command("assay-validator");
        command.args(["log", "witness", "--listen", listen, &state, "--validator", &self.validator.key.to_string()]);
        command
    }

    fn log(&self) -> PathBuf {
        self.validator.file(&format!("verdict-log/{}", self.validator.key))
    }

    fn vkey(&self) -> &str {
        self.witness.split_once('#').unwrap().1
    }

    /// A verdict, its receipt in a file, and the proof of that once the log has it.
    async fn receipt(&self, name: &str) -> [String; 2] {
        let ruling = self.validator.challenge(self.miner.key, None).await.unwrap();
        let [token, proof] = ["jwt", "tlog-proof"].map(|end| self.folder.path().join(format!("{name}.{end}")));
        std::fs::write(&token, ruling.verdict.receipt.clone().unwrap()).unwrap();
        let (id, until) = (hex::encode(&ruling.verdict.challenge_id), Instant::now() + PATIENCE);
        let Output { stdout, .. } = loop {
            let asked = self.operator(&["receipt", &id, "--proof"]);
            if asked.status.success() {
                break asked;
            }
            assert!(Instant::now() < until, "{asked:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        std::fs::write(&proof, stdout).unwrap();
        [token, proof].map(|path| path.display().to_string())
    }

    fn operator(&self, arguments: &[&str]) -> Output {
        let socket = format!("--control-socket={}", self.validator.socket.display());
        let key = format!("--key-file={}", self.validator.file("validator.key").display());
        run("assay-validator", arguments.iter().copied().chain([socket.as_str(), key.as_str()]))
    }

    /// The code of a check of a receipt with its proof, for which no validator is asked.
    fn check(&self, [token, proof]: &[String; 2], witness: bool) -> Option<i32> {
        let keys = self.folder.path().join("keys.json");
        std::fs::copy(self.validator.file("receipt.jwks.json"), &keys).unwrap();
        let keys = format!("--keys={}", keys.display());
        let mut arguments = vec!["receipt", "verify", token, &keys, "--proof", proof];
        arguments.extend(witness.then_some(["--witness", self.vkey()]).into_iter().flatten());
        let output = run("assay-validator", arguments);
        let is_refused = output.status.code() == Some(65);
        // Regression test: what was proved was not said.
        let said = String::from_utf8_lossy(&output.stdout).contains("entries are in the log, this receipt at index ");
        assert_ne!(said, is_refused, "{output:?}");
        output.status.code()
    }

    /// The result of `log verify` or `log watch` of a folder or URL.
    fn log_command(&self, command: &[&str], log: &str) -> (Option<i32>, String) {
        let key = self.validator.key.to_string();
        let output = run("assay-validator", ["log"].iter().chain(command).copied().chain([log, "--validator", &key]));
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    }

    /// Regression test: a folder above, which only its owner lists, kept the state from being written. Root runs it as
    /// another user here, as root may list any folder.
    fn watch_below_an_unlisted_folder(&self, log: &str) {
        let above = tempfile::tempdir().unwrap();
        let (folder, key) = (above.path().join("own"), self.validator.key.to_string());
        std::fs::create_dir(&folder).unwrap();
        let mut command = daemon::command("assay-validator");
        command.args(["log", "watch", "--once", log, "--validator", &key]);
        command.arg(format!("--state={}", folder.join("last").display()));
        if std::fs::metadata(&folder).unwrap().uid() == 0 {
            chown(&folder, Some(65_534), Some(65_534)).unwrap();
            command.uid(65_534).gid(65_534);
        }
        let mode = |bits| std::fs::set_permissions(above.path(), Permissions::from_mode(bits)).unwrap();
        mode(0o311);
        let output = command.output().unwrap();
        mode(0o700);
        assert!(output.status.success() && folder.join("last").exists(), "{output:?}");
    }

    fn watch(&self, log: &str) -> (Option<i32>, String) {
        let state = format!("--state={}", self.folder.path().join("last").display());
        self.log_command(&["watch", "--once", &state], log)
    }
}

/// Puts a copy of a folder in the place of another one.
fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-R").args([from, to]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_has_its_proof_and_the_log_goes_on_after_a_kill() {
    let mut scene = Scene::new().await;
    // The witness is away: the log goes on without.
    let first = scene.receipt("first").await;
    assert_ne!(scene.check(&first, false), Some(65));
    assert_eq!(scene.check(&first, true), Some(65), "nobody cosigned it");
    let witness = scene.start_witness();
    // Regression test: two witnesses with one folder cosigned a fork.
    let mut second = Daemon::spawn(&mut scene.witness_at("127.0.0.1:0"));
    second.wait_for(&format!("process {}", witness.0.id()));
    assert_eq!(second.wait().code(), Some(78));
    let second = scene.receipt("second").await;
    assert_eq!(scene.check(&[first[0].clone(), second[1].clone()], false), Some(65), "another receipt's");
    let url = format!("http://{}/log/{}", scene.validator.http_address(), scene.validator.key);
    let local = scene.log().display().to_string();
    // Cosigned soon after: what is in the log is not waiting for that.
    let cosigned = ["verify", "--witness", scene.vkey()];
    let until = Instant::now() + PATIENCE;
    while scene.log_command(&cosigned, &local).0 != Some(0) {
        assert!(Instant::now() < until, "{:?}", scene.log_command(&cosigned, &local));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (code, said) = scene.log_command(&cosigned, &url);
    assert!(
        code == Some(0) && said.contains("holds: 2 entries") && said.contains("cosigned by assay-witness/"),
        "{said}"
    );
    // Regression test: a watch without a kept checkpoint said that the log goes on.
    let (code, said) = scene.watch(&url);
    assert!(code == Some(0) && said.contains("begins, with nothing kept to compare: 2 entries"), "{said}");
    scene.watch_below_an_unlisted_folder(&url);

    let (mut expected, old) = (2, scene.folder.path().join("old"));
    copy(&scene.log(), &old);
    for round in 0..3 {
        // In the middle of whatever it does.
        let ruling = scene.validator.challenge(scene.miner.key, None).await.unwrap();
        assert!(ruling.verdict.receipt.is_some());
        scene.validator.daemon.kill();
        scene.validator.restart().await;
        scene.validator.wait_for_miner(scene.miner.key, true).await;
        let receipt = scene.receipt(&format!("after-{round}")).await;
        expected += 2;
        assert_ne!(scene.check(&receipt, false), Some(65));
        let (code, said) = scene.log_command(&["verify"], &local);
        assert!(code == Some(0) && said.contains(&format!("holds: {expected} entries")), "{said}");
        assert_eq!(scene.watch(&local).0, Some(0));
    }
    let newest = scene.folder.path().join("newest");
    scene.validator.daemon.kill();
    copy(&scene.log(), &newest);

    // An old backup of the folder: who kept a checkpoint sees it, and the validator does not append to it.
    copy(&old, &scene.log());
    let (code, said) = scene.watch(&local);
    assert!(code == Some(1) && said.contains("rolled back: it has 2 entries, and had 8"), "{said}");
    scene.validator.restart().await;
    scene.validator.daemon.wait_for("the records know of 8");
    scene.validator.wait_for_miner(scene.miner.key, true).await;
    let ruling = scene.validator.challenge(scene.miner.key, None).await.unwrap();
    assert!(ruling.verdict.receipt.is_some(), "verdicts do not wait for the log");
    let told = String::from_utf8(scene.operator(&["status"]).stdout).unwrap();
    assert!(told.contains("NOT APPENDED TO: \"the log has 2 entries and the records know of 8"), "{told}");
    scene.validator.daemon.kill();
    assert!(scene.log_command(&["verify"], &local).1.contains("holds: 2 entries"));

    // And where the records are as old as the log, the witness knows more.
    let records = scene.validator.file("validator.db");
    let aside = scene.folder.path().join("aside");
    std::fs::create_dir(&aside).unwrap();
    for name in ["validator.db", "validator.db-wal", "validator.db-shm"] {
        let _ = std::fs::rename(scene.validator.file(name), aside.join(name));
    }
    scene.validator.restart().await;
    scene.validator.daemon.wait_for("the witness cosigned 8 entries, the log has 2");
    scene.validator.daemon.kill();
    for name in ["validator.db", "validator.db-wal", "validator.db-shm"] {
        let _ = std::fs::remove_file(scene.validator.file(name));
        let _ = std::fs::rename(aside.join(name), scene.validator.file(name));
    }
    assert!(records.exists());

    copy(&newest, &scene.log());
    scene.validator.restart().await;
    scene.validator.wait_for_miner(scene.miner.key, true).await;
    scene.receipt("last").await;
    let (code, said) = scene.watch(&local);
    assert!(
        code == Some(0) && said.contains("goes on: 10 entries"),
        "the verdict of the meantime is there too: {said}"
    );
    // Regression test: records that are older than the log were taken without a word.
    scene.validator.daemon.kill();
    for name in ["validator.db", "validator.db-wal", "validator.db-shm"] {
        let _ = std::fs::remove_file(scene.validator.file(name));
    }
    scene.validator.restart().await;
    scene.validator.daemon.wait_for("the log has verdicts that the records do not know");
    drop(witness);
}
