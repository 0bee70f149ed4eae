//! A secret key is in its file and in its daemon's memory, and nowhere else.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use assay_integration_tests::daemon::{Daemon, command, program};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::Mode;

/// A user that owns nothing.
const NOBODY: u32 = 65_534;

/// A secret in the forms in which it could be found.
struct Secret {
    raw: Vec<u8>,
    hex: String,
}

impl Secret {
    fn of(key_file: &Path) -> Self {
        let hex = fs::read_to_string(key_file).unwrap().trim_end().to_owned();
        Self { raw: hex::decode(&hex).unwrap(), hex }
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        contains(bytes, &self.raw) || contains(&bytes.to_ascii_lowercase(), self.hex.as_bytes())
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The parts of a process that this user can read: environment and files of a daemon are for root alone.
fn shown(process: u32) -> Vec<u8> {
    let read = |name: &str| fs::read(format!("/proc/{process}/{name}")).unwrap_or_default();
    let links = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
    let links = links.filter_map(|link| fs::read_link(link.ok()?.path()).ok());
    let links: Vec<u8> = links.flat_map(|link| link.into_os_string().into_encoded_bytes()).collect();
    [read("cmdline"), read("environ"), read("status"), links].concat()
}

/// The private memory that a process has written to, or could.
fn memory(process: u32) -> Vec<u8> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let memory = File::open(format!("/proc/{process}/mem")).unwrap();
    let mut found = Vec::new();
    for line in maps.lines().filter(|line| line.split(' ').nth(1) == Some("rw-p")) {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [from, to] = [from, to].map(|address| u64::from_str_radix(address, 16).unwrap());
        let mut bytes = vec![0; 4096];
        for page in (from..to).step_by(4096) {
            // A page that was never touched, or was given back meanwhile, has nothing.
            if memory.read_exact_at(&mut bytes, page).is_ok() && bytes.iter().any(|byte| *byte != 0) {
                found.extend_from_slice(&bytes);
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_in_no_log_argument_environment_or_worker() {
    let trace = vec!["--log=trace".to_owned()];
    let environment = vec![
        ("ASSAY_VALIDATOR_TOKEN".to_owned(), "assay_read_31415926535".into()),
        ("https_proxy".to_owned(), "http://user:31415926535@127.0.0.1:9".into()),
    ];
    let (mut validator, mut miner) =
        TestMiner::with_validator(&Policy { flags: trace, environment, ..Policy::default() }, 1, &["--log=trace"])
            .await;
    validator.challenge(miner.key, Some(Mode::Replay)).await.unwrap().expect_pass();
    let secrets = [Secret::of(&validator.file("validator.key")), Secret::of(&miner.file("miner.key"))];
    let workers = [validator.daemon.workers(1), miner.daemon.workers(1)];
    let workers: Vec<_> = workers.iter().flat_map(|workers| workers.values()).map(|id| id.cast_unsigned()).collect();
    assert_eq!(workers.len(), 2);
    for process in [validator.daemon.id(), miner.daemon.id()].iter().chain(&workers) {
        let shown = shown(*process);
        assert!(!shown.is_empty() && secrets.iter().all(|secret| !secret.is_in(&shown)), "process {process}");
    }
    for worker in workers {
        let shown = String::from_utf8_lossy(&shown(worker)).into_owned();
        for foreign in ["31415926535", "socket:", "validator.key", "miner.key"] {
            assert!(!shown.contains(foreign), "worker {worker} was given {foreign}: {shown}");
        }
        let memory = memory(worker);
        assert!(memory.len() > 1 << 16, "its memory was read");
        assert!(secrets.iter().all(|secret| !secret.is_in(&memory)), "worker {worker} has a key in its memory");
    }
    for daemon in [&mut validator.daemon, &mut miner.daemon] {
        let log = daemon.log().join("\n");
        assert!(log.contains("TRACE") && secrets.iter().all(|secret| !secret.is_in(log.as_bytes())));
    }
}

/// Beside the key itself, a daemon keeps nothing that it was read from. Only root may look.
#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_key_file_does_not_stay_in_memory() {
    let validator = TestValidator::start(&Policy::default()).await;
    let secret = Secret::of(&validator.file("validator.key"));
    let process = validator.daemon.id();
    match fs::read(format!("/proc/{process}/environ")) {
        Ok(_) => {
            let memory = memory(process);
            assert!(contains(&memory, &secret.raw), "the key itself is there: its memory was read");
            assert!(!contains(&memory, secret.hex.as_bytes()), "the text of its file is still there");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied, "this user is not root"),
    }
}

/// A command as a user that owns nothing, where this one may change users; else as this one.
fn as_other(mut command: Command) -> Command {
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn read_as_other(path: String) -> Output {
    let mut head = Command::new("head");
    head.args(["-c", "1"]).arg(path);
    as_other(head).output().unwrap()
}

/// A copy that can be run at once: a file that this process wrote could still be open in a process that another test is
/// about to start.
fn copy_program(name: &str, to: &Path) {
    assert!(Command::new("cp").arg(program(name)).arg(to).status().unwrap().success());
}

/// A process of the same user reads the memory of a program, but not that of a daemon.
#[test]
fn another_process_of_the_same_user_cannot_read_a_daemons_memory() {
    // The user that owns nothing may not come where the programs are built.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let copy = |name: &str| {
        let path = folder.path().join(name);
        copy_program(name, &path);
        path
    };
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut sleep = as_other(Command::new("sleep")).arg("1000").spawn().unwrap();
    // Until it runs the program, it is this test.
    while fs::read_to_string(format!("/proc/{}/comm", sleep.id())).unwrap() != "sleep\n" {
        std::thread::yield_now();
    }
    let readable = read_as_other(format!("/proc/{}/environ", sleep.id()));
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    assert!(readable.status.success(), "a program that does nothing against it can be read: {readable:?}");

    let mut serve = Command::new(copy("assay-validator"));
    serve.args(["serve", "--listen=127.0.0.1:0", "--log-format=json", "--mode=audit", "--backend=cpu"]);
    serve.args(["--cpu-devices=1", "--cpu-memory=8MiB"]).arg(format!("--key-file={}", path("state/validator.key")));
    serve.arg(format!("--control-socket={}", path("run/control.sock"))).env("HOME", folder.path());
    let mut validator = Daemon::spawn(&mut as_other(serve));
    validator.wait_for("listening");
    let mut run = Command::new(copy("assay-miner"));
    run.args(["run", "--validator=127.0.0.1:9", "--log-format=json", "--backend=cpu", "--cpu-devices=1"]);
    run.args(["--cpu-memory=8MiB"]).arg(format!("--key-file={}", path("state/miner.key"))).env("HOME", folder.path());
    let mut miner = Daemon::spawn(&mut as_other(run));
    miner.wait_for("connecting again");
    for process in [validator.id(), miner.id()] {
        for file in ["environ", "mem", "maps"] {
            let refused = read_as_other(format!("/proc/{process}/{file}"));
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(!refused.status.success() && said.contains("Permission denied"), "{file}: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_socket_is_its_users_alone() {
    let validator = TestValidator::start(&Policy::default()).await;
    assert_eq!(fs::metadata(&validator.socket).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Files of another user beside a key are not trusted; a key that root rotates stays its owner's.
#[test]
fn files_of_a_key_are_its_owners() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        // Only root can make one; root itself may read the files of all users.
        return;
    }
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (program_copy, key_file) = (folder.path().join("assay-miner"), folder.path().join("miner.key"));
    copy_program("assay-miner", &program_copy);
    let flag = format!("--key-file={}", key_file.display());
    assert!(command("assay-miner").args(["key", &flag]).output().unwrap().status.success());
    chown(&key_file, Some(1234), Some(1234)).unwrap();
    fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).unwrap();
    // Root rotates it, and it stays its owner's.
    assert!(command("assay-miner").args(["key", "rotate", &flag]).output().unwrap().status.success());
    for file in [key_file.clone(), key_file.with_extension("key.successors")] {
        let found = fs::metadata(&file).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (1234, 1234, 0o600), "{}", file.display());
    }
    let mut own = Command::new(&program_copy);
    own.args(["key", &flag]).uid(1234).gid(1234);
    assert!(own.output().unwrap().status.success());
    // A user who may write to the folder puts other statements there.
    let statements = key_file.with_extension("key.successors");
    let text = fs::read(&statements).unwrap();
    fs::remove_file(&statements).unwrap();
    fs::write(&statements, text).unwrap();
    chown(&statements, Some(NOBODY), Some(NOBODY)).unwrap();
    let refused = own.output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(78) && said.contains("belongs to another user (uid 65534)"), "{said}");
}
