//! `assay-validator try` over a real sshd: a verdict, causes of failures, and a host that nothing is left on.

#![cfg(target_os = "linux")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::{PATIENCE, command, program, run};

const NAP: Duration = Duration::from_millis(20);

/// An sshd of this test alone, on a port of this machine. Dropped, it is killed.
struct Sshd {
    folder: tempfile::TempDir,
    port: u16,
    daemon: Child,
}

impl Sshd {
    fn start(settings: &str) -> Self {
        // sshd wants this folder where it runs as root.
        let _ = fs::create_dir("/run/sshd");
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        for key in ["host_key", "user_key", "other_key"] {
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &file(key)]).status();
            assert!(made.expect("ssh-keygen: install openssh-client").success());
        }
        fs::copy(file("user_key.pub"), file("authorized_keys")).unwrap();
        fs::create_dir(file("tmp")).unwrap();
        fs::create_dir(file("here")).unwrap();
        let configuration = format!(
            "ListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nPermitRootLogin yes\nSetEnv TMPDIR={}\n{settings}\n",
            file("host_key"),
            file("authorized_keys"),
            file("tmp")
        );
        fs::write(file("sshd_config"), configuration).unwrap();
        let until = Instant::now() + PATIENCE;
        // Another test may take a port that is free now.
        let (port, daemon) = loop {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut sshd = Command::new("/usr/sbin/sshd");
            sshd.args(["-D", "-f", &file("sshd_config"), "-E", &file("sshd.log"), "-p", &port.to_string()]);
            let mut daemon = sshd.stdin(Stdio::null()).spawn().expect("sshd: install openssh-server");
            let listens = format!("Server listening on 127.0.0.1 port {port}");
            let log = || fs::read_to_string(file("sshd.log")).unwrap_or_default();
            while !log().contains(&listens) && daemon.try_wait().unwrap().is_none() {
                assert!(Instant::now() < until, "{}", log());
                std::thread::sleep(NAP);
            }
            if log().contains(&listens) {
                break (port, daemon);
            }
            assert!(log().contains("Address already in use"), "{}", log());
        };
        let host_key = fs::read_to_string(file("host_key.pub")).unwrap();
        fs::write(file("known_hosts"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        Self { folder, port, daemon }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command, with ssh's options for this sshd; those of `options` come first, and count.
    fn command(&self, options: &[&str], arguments: &[&str]) -> Command {
        let mut command = command("assay-validator");
        command.args(["try", &format!("ssh://127.0.0.1:{}", self.port), "--n=256"]);
        for option in options {
            command.arg(format!("--ssh-option={option}"));
        }
        for (option, name) in [("IdentityFile", "user_key"), ("UserKnownHostsFile", "known_hosts")] {
            command.arg(format!("--ssh-option={option}={}", self.file(name).display()));
        }
        command.args(["--ssh-option=IdentitiesOnly=yes", "--ssh-option=StrictHostKeyChecking=yes"]);
        command.arg("--ssh-option=GlobalKnownHostsFile=/dev/null");
        if !arguments.iter().any(|argument| argument.starts_with("--policy-fields=")) {
            command.arg("--policy-fields=max_matrices=12");
        }
        if !arguments.iter().any(|argument| argument.starts_with("--miner-option=")) {
            for option in ["--backend=cpu", "--cpu-devices=1", "--cpu-memory=64MiB", "--cpu-threads=1"] {
                command.arg(format!("--miner-option={option}"));
            }
        }
        command.args(arguments).env("TMPDIR", self.file("here")).stdin(Stdio::null());
        command
    }

    fn output(&self, options: &[&str], arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.command(options, arguments).output().unwrap();
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
        (status.code(), stdout, stderr)
    }

    /// The entries of the folder where the host keeps what is copied.
    fn left(&self) -> Vec<PathBuf> {
        fs::read_dir(self.file("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// Waits until the miner runs there, or until it is gone with all its files.
    fn wait_until_it_runs(&self, runs: bool) {
        let until = Instant::now() + PATIENCE;
        while processes(&self.file("tmp")).is_empty() == runs || (!runs && !self.left().is_empty()) {
            assert!(Instant::now() < until, "runs = {runs}: {:?}", self.left());
            std::thread::sleep(NAP);
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Processes whose program is below a folder.
fn processes(folder: &Path) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let process = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    process
        .filter(|id: &i32| fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|exe| exe.starts_with(folder)))
        .collect()
}

#[test]
fn a_host_is_tried_and_left_as_it_was() {
    let sshd = Sshd::start("");
    let receipt = sshd.file("receipt.jwt");
    let (code, stdout, stderr) = sshd.output(&[], &[&format!("--receipt={}", receipt.display())]);
    assert!(matches!(code, Some(0 | 3)), "{stdout}{stderr}");
    assert!(stdout.starts_with("PASS") && stdout.contains("CPU device 0"), "{stdout}");
    assert!(stderr.contains("Nothing is left on ssh://127.0.0.1:"), "{stderr}");
    assert_eq!(sshd.left(), Vec::<PathBuf>::new());
    assert_eq!(processes(&sshd.file("tmp")), Vec::<i32>::new());
    let keys = format!("--keys={}", sshd.file("receipt.jwt.keys.json").display());
    let receipt = receipt.display().to_string();
    let compared = run("assay-validator", ["receipt", "compare", &receipt, &receipt, &keys]);
    assert!(matches!(compared.status.code(), Some(0 | 2)), "both are checked: {compared:?}");

    let (code, stdout, stderr) = sshd.output(&[], &["--json", "--kinds=f16,int8", "--seconds=1"]);
    assert!(matches!(code, Some(0 | 3)), "{stderr}");
    let verdicts: Vec<_> =
        serde_json::Deserializer::from_str(&stdout).into_iter::<serde_json::Value>().map(Result::unwrap).collect();
    for (verdict, kind) in verdicts.iter().zip([2, 1].into_iter().cycle()) {
        assert_eq!((&verdict["outcome"], &verdict["mode"]), (&"pass".into(), &"audit".into()), "{verdict:#}");
        assert_eq!(verdict["precision"], kind, "{verdict:#}");
    }
    assert!(verdicts.len() >= 2, "{stdout}");
}

/// The first verdict that is no pass ends a try of many challenges. It is a fail, or inconclusive where this machine was held
/// up meanwhile.
#[test]
fn a_try_ends_with_the_first_verdict_that_is_no_pass() {
    let sshd = Sshd::start("");
    let fields = "--policy-fields=max_matrices=12,commit_deadline=1s";
    let (code, stdout, stderr) =
        sshd.output(&[], &["--json", "--kinds=int8,f16", "--seconds=600", "--iterations=65536", fields]);
    let verdicts = serde_json::Deserializer::from_str(&stdout).into_iter::<serde_json::Value>().map(Result::unwrap);
    let outcomes: Vec<_> = verdicts.map(|verdict| verdict["outcome"].as_str().unwrap().to_owned()).collect();
    match (outcomes.as_slice(), code) {
        ([outcome], Some(1)) if outcome == "fail" => {}
        ([outcome], Some(2)) if outcome == "inconclusive" && stdout.contains("\"validator_overloaded\"") => {}
        other => panic!("{other:?}: {stdout}{stderr}"),
    }
}

/// Killed here, or with its connection cut, it leaves neither a process nor a file there.
#[test]
fn nothing_is_left_where_a_try_is_cut_short() {
    let sshd = Sshd::start("");
    let long = ["--iterations=65536"];
    let mut tried = sshd.command(&[], &long).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    sshd.wait_until_it_runs(true);
    tried.kill().unwrap();
    tried.wait().unwrap();
    sshd.wait_until_it_runs(false);

    let tried = sshd.command(&[], &long).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    sshd.wait_until_it_runs(true);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", tried.id())).unwrap();
    assert!(Command::new("kill").arg("-KILL").args(children.split_whitespace()).status().unwrap().success());
    let output = tried.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("ended the connection or its miner"), "{said}");
    sshd.wait_until_it_runs(false);
}

/// Ctrl-C cancels the challenge: a terminal sends it to ssh too, which must not end before the host is cleared.
#[test]
fn an_interrupted_try_clears_the_host() {
    let sshd = Sshd::start("");
    let mut command = sshd.command(&[], &["--iterations=65536"]);
    let tried = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    sshd.wait_until_it_runs(true);
    let here = || fs::read_dir(sshd.file("here")).unwrap().flatten().next().map(|entry| entry.path());
    let log = here().expect("its folder").join("validator.log");
    let until = Instant::now() + PATIENCE;
    while !fs::read_to_string(&log).unwrap_or_default().contains("challenge started") {
        assert!(Instant::now() < until, "the challenge never starts");
        std::thread::sleep(NAP);
    }
    assert!(Command::new("kill").args(["-INT", "--", &format!("-{}", tried.id())]).status().unwrap().success());
    let output = tried.wait_with_output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stdout.starts_with("INCONCLUSIVE") && stdout.contains("cancelled"), "{stdout}");
    assert!(stderr.contains("Nothing is left on ssh://"), "{stderr}");
    assert_eq!((sshd.left(), here()), (Vec::new(), None));
}

/// A host that takes connections and never answers.
#[test]
fn a_login_is_interrupted() {
    let sshd = Sshd::start("");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("Port={}", silent.local_addr().unwrap().port());
    let tried = sshd.command(&[&port], &[]).process_group(0).stderr(Stdio::piped()).spawn().unwrap();
    let (_login, _) = silent.accept().unwrap();
    let group = format!("-{}", tried.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    let output = tried.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(75), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    assert_eq!(fs::read_dir(sshd.file("here")).unwrap().count(), 0, "its own folder is removed");
    assert!(!Command::new("kill").args(["-0", "--", &group]).status().unwrap().success(), "ssh is gone too");
}

#[test]
fn each_failure_has_its_cause_and_cure() {
    let sshd = Sshd::start("");
    let file = |name: &str, bytes: &[u8]| {
        let path = sshd.file(name);
        fs::write(&path, bytes).unwrap();
        format!("--miner-program={}", path.display())
    };
    let own = fs::read(program("assay-miner")).unwrap();
    let other_machine = [&own[..18], if own[18] == 62 { &[183, 0] } else { &[62, 0] }, &own[20..64]].concat();
    // A version of the C library that there is none of.
    let mut newer = own.clone();
    let versions = (0..newer.len() - 9).filter(|at| newer[*at..].starts_with(b"GLIBC_2.3")).collect::<Vec<_>>();
    assert!(!versions.is_empty());
    versions.into_iter().for_each(|at| newer[at + 6] = b'9');
    let [newer, other_machine, not_runnable, script] = [
        file("newer", &newer),
        file("other-machine", &other_machine),
        file("not-runnable", &own[..64]),
        file("script", b"#!/bin/sh\necho no program at all\n"),
    ];
    let none_known = format!("UserKnownHostsFile={}", sshd.file("none").display());
    // This machine, which a GPU may be in, is the host.
    let (backend, code, cause) = match Path::new("/dev/nvidiactl").exists() {
        true => ("--miner-option=--backend=none", 2, "invalid value 'none' for '--backend"),
        false => ("--miner-option=--backend=cuda", 2, "has no NVIDIA driver: install it"),
    };
    let cases: [(&[&str], &[&str], i32, &str); 7] = [
        (&[], &[backend], code, cause),
        (&[], &[&newer], 2, "has an older C library than this miner"),
        (&[&none_known], &[], 2, "has a key that is unknown here: log in once by hand"),
        (&["Port=1"], &[], 2, "has no sshd on that port"),
        (&[], &[&other_machine], 78, "give its miner with --miner-program"),
        (&[], &[&not_runnable], 2, "cannot run this miner"),
        (&[], &[&script], 65, "is no program for Linux"),
    ];
    for (options, arguments, code, cause) in cases {
        let (ended, _, stderr) = sshd.output(options, arguments);
        assert_eq!(ended, Some(code), "{stderr}");
        assert!(stderr.contains(cause), "{cause}: {stderr}");
        assert!(!stderr.contains("look for assay-try"), "it says that it left nothing: {stderr}");
        assert_eq!(sshd.left(), Vec::<PathBuf>::new());
    }
    fs::copy(sshd.file("other_key.pub"), sshd.file("authorized_keys")).unwrap();
    let (ended, _, stderr) = sshd.output(&[], &[]);
    assert_eq!(ended, Some(2), "{stderr}");
    assert!(stderr.contains("refused the login: ssh to it has to work by hand"), "{stderr}");

    let full = "ForceCommand exec unshare --user --map-root-user --mount sh -c \
                'for at in \"$TMPDIR\" /var/tmp \"$HOME\" /dev/shm; do mount -t tmpfs -o size=1m none \"$at\" || exit; done; \
                eval \"$SSH_ORIGINAL_COMMAND\"'";
    let (ended, _, stderr) = Sshd::start(full).output(&[], &[]);
    assert_eq!(ended, Some(2), "{stderr}");
    assert!(stderr.contains("has no folder with room for the miner"), "{stderr}");

    let sshd = Sshd::start("AllowTcpForwarding no");
    let (ended, _, stderr) = sshd.output(&[], &[]);
    assert_eq!(ended, Some(2), "{stderr}");
    assert!(stderr.contains("forwards no ports: its sshd needs AllowTcpForwarding"), "{stderr}");
}
