//! Mistakes of a miner's operator: each is refused at once, with the remedy.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::{PATIENCE, program, run};
use tempfile::TempDir;

const NAP: Duration = Duration::from_millis(10);
const DEVICES: [&str; 4] = ["--backend=cpu", "--cpu-memory=64MiB", "--cpu-threads=1", "--telemetry=off"];

fn vector(name: &str) -> String {
    format!("{}/vectors/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

fn miner(folder: &TempDir, arguments: &[&str]) -> Output {
    let key = format!("--key-file={}", folder.path().join("miner.key").display());
    run("assay-miner", arguments.iter().copied().chain([key.as_str()]))
}

fn refused(output: &Output, code: i32, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(parts.iter().all(|part| said.contains(part)), "{parts:?} in {said}");
}

/// `config check` refuses the settings that `run` refuses, in the same words, and `config show` does so after its
/// table.
#[test]
fn config_refuses_what_run_refuses() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, part) in [
        (&["--cpu-memory=900TiB"][..], "but this machine (or its container) has "),
        // Two devices take twice as much.
        (&["--cpu-devices=64", "--cpu-memory=1TiB"], "64 devices would take 67108864 MiB"),
        (&["--validator=127.0.0.1"], "such as 127.0.0.1:7400"),
        (&["--max-memory-percent=0"], "must be from 1 to 100"),
    ] {
        for command in [&["run"][..], &["config", "check"], &["config", "show"]] {
            let line: Vec<_> = command.iter().chain(flags).copied().collect();
            let output = miner(&folder, &line);
            refused(&output, 78, &[part]);
            assert_eq!(output.stdout.is_empty(), !command.ends_with(&["show"]), "{output:?}");
        }
    }
}

/// Regression test: `config check` passed a join token that `run` refuses.
#[test]
fn config_check_reads_the_join_token() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    let flag = format!("--join-token-file={}", token.display());
    for command in [&["run"][..], &["config", "check"]] {
        let line: Vec<_> = command.iter().copied().chain([flag.as_str(), "--validator=127.0.0.1:1"]).collect();
        refused(&miner(&folder, &line), 78, &["join_token_file = ", "No such file"]);
    }
    std::fs::write(&token, "two words").unwrap();
    refused(&miner(&folder, &["config", "check", &flag]), 78, &["join_token_file = "]);
    std::fs::write(&token, "assay-join-1").unwrap();
    for flag in [flag.as_str(), "--join-token-file=-"] {
        assert!(miner(&folder, &["config", "check", flag]).status.success(), "{flag}");
    }
}

#[test]
fn a_configuration_that_holds_is_said_to() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("miner.toml");
    std::fs::write(&file, "cpu_devices = 2\n").unwrap();
    let config = format!("--config={}", file.display());
    let output = miner(&folder, &["config", "check", &config]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(&format!(", 1 from {}", file.display())), "{output:?}");
    assert!(!folder.path().join("miner.key").exists(), "nothing was made");
}

/// A device has no end: it was read until memory was full.
#[test]
fn a_key_file_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_str().unwrap(), "/dev/zero"] {
        for command in [&["key"][..], &["run", "--backend=cpu", "--cpu-memory=8MiB"], &["devices", "--backend=cpu"]] {
            let flag = format!("--key-file={path}");
            let output = run("assay-miner", command.iter().copied().chain([flag.as_str()]));
            refused(&output, 78, &["is no regular file: name a file, such as ", "miner.key"]);
        }
    }
}

/// The file is tried before the work, which may take an hour.
#[test]
fn work_is_not_done_for_a_file_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/evidence.json").display().to_string();
    let (challenge, probe, here) = (vector("probe"), vector("probe"), folder.path().display().to_string());
    let work = ["work", "--challenge", &challenge, "--probe", &probe];
    for (flags, part) in [
        (["--out", &missing], "no is missing"),
        (["--out", &here], "cannot write"),
        (["--answer-out", &missing], "no is missing"),
    ] {
        let line: Vec<_> = work.iter().chain(&flags).chain(&DEVICES).copied().collect();
        let output = miner(&folder, &line);
        refused(&output, 74, &[part]);
        assert!(!String::from_utf8_lossy(&output.stderr).contains(" on backend "), "{output:?}");
    }
    // Regression test: a burn-in of hours ended so, and not by its verdict.
    for command in ["bench", "diag"] {
        let output = miner(&folder, &[command, "--n=256", "--rounds=1", "--svg", &missing]);
        refused(&output, 74, &["no is missing"]);
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let challenge = vector("one-device");
    let work = ["work", "--challenge", &challenge, "--out", "/dev/full"];
    let line: Vec<_> = work.iter().chain(&DEVICES).copied().collect();
    refused(&miner(&folder, &line), 74, &["cannot write /dev/full", "No space left"]);
}

/// The processes that a program started.
#[cfg(target_os = "linux")]
fn children(of: u32) -> Vec<String> {
    let parent = |process: &String| {
        let status = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        status.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let names = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name().display().to_string());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && parent(name) == Some(of)).collect()
}

#[cfg(target_os = "linux")]
fn runs(process: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/cmdline")).is_ok_and(|line| !line.is_empty())
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_commands_and_what_they_started() {
    use std::os::unix::process::CommandExt;

    for (command, has_workers) in [(["bench", "--n=8192"], false), (["devices", "--watch=60"], true)] {
        let folder = tempfile::tempdir().unwrap();
        let key_file = folder.path().join("miner.key");
        let mut child = Command::new(program("assay-miner"));
        child
            .args(command)
            .args(["--backend=cpu", "--cpu-memory=256MiB", "--cpu-threads=1", "--telemetry=off"])
            .arg(format!("--key-file={}", key_file.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A shell has its background processes ignore Ctrl-C.
        // SAFETY: signal(2) may be called between fork and exec.
        let heed = || match unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) } {
            libc::SIG_ERR => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        };
        // SAFETY: as above.
        unsafe { child.pre_exec(heed) };
        let mut child = child.spawn().unwrap();
        let until = Instant::now() + PATIENCE;
        while !key_file.exists() || has_workers && children(child.id()).is_empty() {
            assert!(Instant::now() < until, "{command:?} never starts");
            std::thread::sleep(NAP);
        }
        let started = children(child.id());
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "{command:?} does not end");
            std::thread::sleep(NAP);
        }
        while started.iter().any(|process| runs(process)) {
            assert!(Instant::now() < until, "{command:?} leaves {started:?}");
            std::thread::sleep(NAP);
        }
    }
}
