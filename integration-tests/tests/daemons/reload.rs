//! A configuration that changes under a running validator, and configurations that keep one from starting.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assay_integration_tests::daemon::{Daemon, PATIENCE, program, run};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::{Precision, PublicKey};
use serde_json::Value;
use tempfile::TempDir;

const VALIDATOR: &str = "assay-validator";

/// A validator whose configuration file the test writes.
pub struct Configured {
    pub validator: TestValidator,
    file: PathBuf,
    _folder: TempDir,
}

impl Configured {
    pub async fn start(policy: Policy, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("validator.toml");
        fs::write(&file, text).unwrap();
        let flags = policy.flags.iter().cloned().chain([format!("--config={}", file.display())]).collect();
        let validator = TestValidator::start(&Policy { flags, ..policy }).await;
        Self { validator, file, _folder: folder }
    }

    /// Writes another configuration and has it read: the line of the log that says so.
    pub fn reload(&mut self, text: &str) -> Value {
        fs::write(&self.file, text).unwrap();
        self.validator.daemon.hang_up();
        self.validator.daemon.wait_for("configuration ")
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ask(socket: &Path, arguments: &[&str]) -> Output {
    let socket = format!("--control-socket={}", socket.display());
    run(VALIDATOR, arguments.iter().copied().chain([socket.as_str()]))
}

pub fn allowing(keys: &[PublicKey]) -> String {
    format!("allowed_miners = {:?}\n", keys.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// Policy and log level change at once; settings that cannot are named.
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_puts_a_new_policy_into_effect() {
    let mut configured = Configured::start(Policy::default(), "kinds = [\"int8\"]\n").await;
    let miner = TestMiner::start(configured.validator.address, 1, &[]);
    configured.validator.wait_for_miner(miner.key, true).await;
    let kind = async |validator: &TestValidator| {
        let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
        ruling.expect_pass();
        ruling.verdict.precision
    };
    assert_eq!(kind(&configured.validator).await, Precision::Int8.code());
    let line = configured.reload("kinds = [\"fp8\"]\nmax_miners = 9\n");
    assert_eq!(line["changed"], serde_json::json!(["kinds"]), "{line}");
    let log = configured.validator.daemon.log().join("\n");
    assert!(log.contains("take a restart") && log.contains("max_miners"), "{log}");
    assert_eq!(kind(&configured.validator).await, Precision::Fp8.code());
    // Nothing has changed since, and max_miners still takes a restart.
    let output = ask(&configured.validator.socket, &["reload", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said, serde_json::json!({ "changed": [], "need_restart": ["max_miners"] }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_configuration_changes_nothing() {
    let mut configured = Configured::start(Policy::default(), "kinds = [\"int8\"]\n").await;
    let miner = TestMiner::start(configured.validator.address, 1, &[]);
    configured.validator.wait_for_miner(miner.key, true).await;
    for (text, why) in [
        ("kinds = [\"fp8\"]\nsampels = 3\n", "did you mean `samples`?"),
        ("kinds = [\"fp8\"]\nfill_percent = 98\n", "from 1 to 97"),
        ("kinds = [\"fp8\"]\nreplay_budget_s = 60\n", "it is gone, `policy_fields = [\"replay_budget=VALUE\"]`"),
        ("kinds = \n", "not valid TOML"),
    ] {
        let line = configured.reload(text);
        let said = line["message"].as_str().unwrap_or_default();
        assert!(said.contains("not reloaded, nothing has changed") && said.contains(why), "{line}");
        assert_eq!(line["level"], "ERROR");
        let refused = ask(&configured.validator.socket, &["reload"]);
        assert!(refused.status.code() == Some(78) && stderr(&refused).contains(why), "{}", stderr(&refused));
        configured.validator.daemon.wait_for("configuration ");
    }
    // The file of the receipts' key is read before anything is applied.
    let receipt_key = configured.validator.file("receipt.key");
    fs::set_permissions(&receipt_key, fs::Permissions::from_mode(0o644)).unwrap();
    let line = configured.reload("kinds = [\"fp8\"]\n");
    let said = line["message"].as_str().unwrap_or_default();
    assert!(said.contains("nothing has changed") && said.contains("receipt.key"), "{line}");
    let ruling = configured.validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    assert_eq!(ruling.verdict.precision, Precision::Int8.code());
}

/// A key that is taken off the list: its challenge is judged, then its session ends and its miner with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_is_allowed_no_more_ends_after_its_challenge() {
    let mut configured = Configured::start(Policy::default(), "").await;
    let [mut busy, mut idle, kept] = [(); 3].map(|()| TestMiner::start_pinned(&configured.validator, &[]));
    for miner in [&busy, &idle, &kept] {
        configured.validator.wait_for_miner(miner.key, true).await;
    }
    let held = busy.daemon.hold_devices();
    let challenge = configured.validator.ask(busy.key, Some(Mode::Audit)).await.unwrap();
    busy.daemon.wait_for("working");
    configured.reload(&allowing(&[kept.key]));
    assert_eq!(idle.daemon.wait().code(), Some(78), "only its operator can mend that");
    drop(held);
    challenge.ruling().await.unwrap().expect_pass();
    assert_eq!(busy.daemon.wait().code(), Some(78));
    configured.validator.wait_for_miner(busy.key, false).await;
    configured.validator.challenge(kept.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    // Back on the list, it is admitted again.
    configured.reload(&allowing(&[kept.key, idle.key]));
    idle.restart();
    configured.validator.wait_for_miner(idle.key, true).await;
}

/// The policy file is read again, whether its name has changed or not.
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_reads_the_policy_file_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.toml");
    fs::write(&file, "").unwrap();
    let text = format!("fleet_policy = {:?}\n", file.display().to_string());
    let mut configured = Configured::start(Policy::default(), &text).await;
    let miner = TestMiner::start(configured.validator.address, 1, &[]);
    configured.validator.wait_for_miner(miner.key, true).await;
    configured.validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    fs::write(&file, format!("[[miner]]\nkey = \"{}\"\ndevices = 2\n", miner.key)).unwrap();
    assert_eq!(configured.reload(&text)["changed"], serde_json::json!(["fleet_policy"]));
    let ruling = configured.validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    ruling.expect(ReasonCode::ExpectationMissed);
    fs::write(&file, "[[miner]]\nkey = 7\n").unwrap();
    assert_eq!(configured.reload(&text)["level"], "ERROR");
    let ruling = configured.validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    ruling.expect(ReasonCode::ExpectationMissed);
}

/// The level changes at once, and the log goes on in a new file.
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_changes_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let configure = |level: &str| {
        let text = format!("log = {level:?}\nlog_file = {:?}\n", path("log").display().to_string());
        fs::write(path("config.toml"), text).unwrap();
    };
    configure("info");
    let own = |flag: &str, name: &str| format!("--{flag}={}", path(name).display());
    let mut flags = vec!["serve".to_owned(), own("config", "config.toml"), own("key-file", "key")];
    flags.extend([own("control-socket", "s"), "--listen=127.0.0.1:0".into(), "--mode=audit".into()]);
    flags.extend(["--backend=cpu".to_owned(), "--cpu-memory=8MiB".into(), "--cpu-threads=1".into()]);
    let _validator = Daemon::start(VALIDATOR, &flags);
    let said = |name: &str, part: &str| {
        let until = std::time::Instant::now() + PATIENCE;
        loop {
            let text = fs::read_to_string(path(name)).unwrap_or_default();
            if text.contains(part) {
                return text;
            }
            assert!(std::time::Instant::now() < until, "{name} never says {part}: {text}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    said("log", "listening");
    fs::rename(path("log"), path("log.1")).unwrap();
    // At this level the reload itself is not worth a line.
    for (level, file) in [("error", "log"), ("info", "log")] {
        configure(level);
        let output = ask(&path("s"), &["reload", "--json"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("\"log\""), "{output:?}");
        assert!(path(file).exists());
    }
    let text = said("log", "configuration reloaded");
    // Regression test: settings that are refused left the log in the file that logrotate had renamed, and removes.
    fs::rename(path("log"), path("log.2")).unwrap();
    fs::write(path("config.toml"), "sampels = 3\n").unwrap();
    let refused = ask(&path("s"), &["reload"]);
    assert_eq!(refused.status.code(), Some(78), "{}", stderr(&refused));
    said("log", "configuration not reloaded");
    assert_eq!(text.matches("configuration reloaded").count(), 1, "{text}");
    assert!(!said("log.1", "listening").contains("configuration reloaded"));
}

/// The exit code and the output of a validator that ended.
struct Ended {
    code: Option<i32>,
    said: String,
}

/// A validator that must end without a signal, with files in a folder of its own.
fn serve(folder: &Path, more: &[&str]) -> Ended {
    serve_in(folder, more, &[])
}

/// The same, with variables of the environment.
fn serve_in(folder: &Path, more: &[&str], environment: &[(String, OsString)]) -> Ended {
    let own = [
        format!("--key-file={}", folder.join("key").display()),
        format!("--control-socket={}", folder.join("s").display()),
        "--listen=127.0.0.1:0".to_owned(),
        "--cpu-memory=8MiB".to_owned(),
        "--cpu-threads=1".to_owned(),
    ];
    let name = |flag: &str| flag.split('=').next().unwrap_or_default().to_owned();
    let own = own.iter().map(String::as_str).filter(|own| !more.iter().any(|flag| name(flag) == name(own)));
    let arguments: Vec<_> = ["serve"].into_iter().chain(own).chain(more.iter().copied()).map(str::to_owned).collect();
    let mut daemon = Daemon::start_in(VALIDATOR, &arguments, environment);
    let said = daemon.wait_for("error: ").as_str().unwrap_or_default().to_owned();
    Ended { code: daemon.wait().code(), said }
}

/// A configured backend without devices ends the validator, in any mode.
#[test]
fn a_backend_that_was_asked_for_has_to_be_there() {
    let folder = tempfile::tempdir().unwrap();
    for mode in ["--mode=audit", "--mode=auto", "--mode=replay"] {
        // Hides the GPUs of a machine that has some.
        let hidden = [("CUDA_VISIBLE_DEVICES".to_owned(), "-1".into())];
        let output = serve_in(folder.path(), &["--backend=cpu,cuda", mode], &hidden);
        let Ended { code, said } = output;
        assert_eq!(code, Some(78), "{mode}: {said}");
        assert!(said.contains("cuda") || said.contains("CUDA"), "{said}");
        let nowhere = [("ASSAY_WORKER_PROGRAM".to_owned(), "/nowhere/worker".into())];
        let Ended { code, said } = serve_in(folder.path(), &["--backend=cpu", mode], &nowhere);
        assert_eq!(code, Some(78), "{mode}: {said}");
        let Ended { code, said } = serve(folder.path(), &["--device=abacus", mode]);
        assert_eq!(code, Some(78), "{mode}: {said}");
        assert!(said.contains("abacus"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_file_serves_one_validator() {
    let validator = TestValidator::start(&Policy::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let key = format!("--key-file={}", validator.file("validator.key").display());
    let Ended { code, said } = serve(folder.path(), &["--backend=cpu", &key]);
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains(&format!("process {}", validator.daemon.id())), "{said}");
}

/// Regression test: systemd started a validator again without end whose records root had restored. Root runs it as another
/// user here, as root may open any file.
#[test]
fn records_of_another_user_are_for_the_operator() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("validator.db"), "SQLite format 3\0").unwrap();
    fs::set_permissions(path("validator.db"), fs::Permissions::from_mode(0o600)).unwrap();
    drop(assay_protocol::identity::Identity::load_or_create(&path("validator.key")).unwrap());
    let mut command = Command::new(program(VALIDATOR));
    command.args(["serve", "--listen=127.0.0.1:0", "--mode=audit", "--backend=cpu"]);
    command.arg(format!("--key-file={}", path("validator.key").display()));
    command.arg(format!("--control-socket={}", path("s").display()));
    if fs::metadata(folder.path()).unwrap().uid() == 0 {
        for name in ["", "validator.key"] {
            std::os::unix::fs::chown(path(name), Some(65_534), Some(65_534)).unwrap();
        }
        command.uid(65_534).gid(65_534);
    } else {
        fs::set_permissions(path("validator.db"), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let owner = fs::metadata(path("validator.db")).unwrap().uid();
    let mut daemon = Daemon::spawn(&mut command);
    daemon.wait_for(&format!("validator.db, of user {owner}, are not this user's to read and write: chown them"));
    assert_eq!(daemon.wait().code(), Some(78));
}

/// A port that is taken is said to be whose it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_names_its_holder() {
    let validator = TestValidator::start(&Policy::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let Ended { code, said } = serve(folder.path(), &["--backend=cpu", &format!("--listen={}", validator.address)]);
    assert_eq!(code, Some(74), "{said}");
    assert!(said.contains(&format!("assay-validator (process {})", validator.daemon.id())), "{said}");
    let elsewhere = ["--backend=cpu", "--listen=192.0.2.7:7400", "--insecure-allow-remote-plaintext"];
    let Ended { said, .. } = serve(folder.path(), &elsewhere);
    assert!(said.contains("no interface of this machine has that address"), "{said}");
}

/// `config show` refuses the settings that `serve` refuses, too, below the table.
#[test]
fn what_is_refused_is_shown_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("file"), "x").unwrap();
    let exposed =
        assay_protocol::identity::Identity::load_or_create(Path::new(&path("exposed"))).map(|_| path("exposed"));
    let exposed = exposed.unwrap();
    fs::set_permissions(&exposed, fs::Permissions::from_mode(0o644)).unwrap();
    let cases = [
        (format!("--key-file={exposed}"), "can be read by others"),
        (format!("--key-file={}", path("file")), "key"),
        (format!("--key-file={}", folder.path().display()), "a folder is there, where a file is expected"),
        (format!("--key-file={}/key", path("file")), "is a file, where a folder is expected"),
        (format!("--control-socket={}", path("file")), "a file that is not a socket is there"),
        (format!("--control-socket={}", path(&"x".repeat(110))), "too many for the path of a socket"),
        ("--allowed-miners=abcd".to_owned(), "expected 64 hex digits"),
        ("--listen=127.0.0.1:7400 --http-listen=127.0.0.1:7400".to_owned(), "listen has this port"),
        ("--iterations=0".to_owned(), "must be from 1"),
        (format!("--fleet-policy={}", path("missing")), "fleet_policy"),
        (format!("--fleet-policy={}", path("file")), "file"),
        (format!("--evidence={}", path("file")), "a file is there, where a folder is expected"),
        ("--evidence=s3:/x".to_owned(), "is no place for evidence"),
        (format!("--records={}", path("file")), "no database of SQLite"),
    ];
    for (flag, why) in cases {
        let flags: Vec<_> = flag.split(' ').collect();
        let shown = run(VALIDATOR, [&["config", "show"], &flags[..]].concat());
        let said = stderr(&shown);
        assert!(shown.status.code() == Some(78) && said.contains(why), "{flag}: {said}");
        assert!(String::from_utf8_lossy(&shown.stdout).contains("challenge_interval_s"), "the table is there");
        let checked = run(VALIDATOR, [&["config", "check"], &flags[..]].concat());
        assert!(checked.status.code() == Some(78) && stderr(&checked).contains(why), "{flag}: {checked:?}");
        assert!(checked.stdout.is_empty(), "{flag}: {checked:?}");
        let Ended { code, said } = serve(folder.path(), &[&["--backend=cpu"], &flags[..]].concat());
        assert!(code == Some(78) && said.contains(why), "{flag}: {said}");
    }
    let flags = [format!("--key-file={}", path("key")), format!("--control-socket={}", path("s"))];
    let checked = run(VALIDATOR, ["config", "check"].into_iter().chain(flags.iter().map(String::as_str)));
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && said.starts_with("the configuration is valid: "), "{checked:?}");
    assert!(said.contains(", 2 from flags"), "{said}");
    assert!(!folder.path().join("s").exists() && !folder.path().join("key").exists(), "nothing was made before");
}

/// Connections beyond the limit of open files wait, and are reported once.
#[tokio::test(flavor = "multi_thread")]
async fn too_few_files_are_reported_once_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let own = |flag: &str, name: &str| format!("--{flag}={}", folder.path().join(name).display());
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n 64; exec \"$@\"", "sh"])
        .arg(program(VALIDATOR))
        .args(["serve", "--log-format=json"]);
    command.args(["--listen=127.0.0.1:0", "--mode=audit", "--backend=cpu", "--cpu-memory=8MiB", "--cpu-threads=1"]);
    command.args([own("key-file", "key"), own("control-socket", "s")]).stdout(Stdio::null());
    let mut daemon = Daemon::spawn(&mut command);
    let line = daemon.wait_for("listening");
    let address = line["address"].as_str().unwrap().to_owned();
    daemon.wait_for("fewer files may be open than");
    let connections: Vec<_> = (0..64).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    let line = daemon.wait_for("connections of miners cannot be accepted");
    assert!(line.to_string().contains("LimitNOFILE=") && line.to_string().contains("64 now"), "{line}");
    // More attempts fail meanwhile; the operator reads of it once.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let said = daemon.log().iter().filter(|line| line.contains("cannot be accepted")).count();
    assert_eq!(said, 1);
    drop(connections);
}

/// A disk without room leaves neither half a key, which would be refused from then on, nor half a challenge.
#[test]
fn a_full_disk_leaves_no_torn_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let key = "ab".repeat(32);
    // A limit of 0 bytes for files stands for the disk: the write fails, and its signal is not heard.
    let full = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]).arg(program(VALIDATOR));
        let output = command.args(["challenge", "--devices=64", "--miner-key", &key]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(74), "{}", stderr(&output));
    };
    let (key_file, out) = (format!("--key-file={}", path("key").display()), format!("--out={}", path("out").display()));
    full(&[&key_file]);
    assert!(!path("key").exists());
    full(&["--validator-key", &key, &out]);
    assert!(!path("out").exists());
    let made = run(VALIDATOR, ["challenge", "--devices=64", "--miner-key", &key, &key_file, &out]);
    assert!(made.status.success() && path("key").exists() && path("out").exists(), "{}", stderr(&made));
    let output =
        Command::new(program(VALIDATOR)).args(["config", "show"]).stdout(File::create("/dev/full").unwrap()).output();
    let output = output.unwrap();
    assert!(output.status.code() == Some(74) && stderr(&output).contains("standard output"), "{}", stderr(&output));
}
