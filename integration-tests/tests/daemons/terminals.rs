//! The output of commands on terminals of several widths, in pipes, and for mistyped words.

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Stdio};

use assay_integration_tests::daemon;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::Policy;

/// A terminal of this width, with 24 lines: its display, and its other end.
pub fn terminal(columns: u16) -> (File, OwnedFd) {
    let size = libc::winsize { ws_row: if columns == 0 { 0 } else { 24 }, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut shown, mut end) = (0, 0);
    let (name, modes) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: both numbers are written where there is room for them; the size is only read.
    assert_eq!(unsafe { libc::openpty(&raw mut shown, &raw mut end, name, modes, &raw const size) }, 0);
    // SAFETY: both were just opened, and nothing else owns them.
    unsafe { (File::from_raw_fd(shown), OwnedFd::from_raw_fd(end)) }
}

/// The output of a command on a terminal of this width.
fn shown(command: &mut Command, columns: u16) -> String {
    let (mut terminal, end) = terminal(columns);
    let end = File::from(end);
    command.stdin(Stdio::null()).stdout(end.try_clone().unwrap()).stderr(end);
    let mut child = command.spawn().unwrap();
    // The command has the only other end from here on: it holds its own copies.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let reader = std::thread::spawn(move || {
        let mut shown = Vec::new();
        let mut part = [0; 4096];
        // A terminal without another end is an error and no end.
        while let Ok(bytes @ 1..) = terminal.read(&mut part) {
            shown.extend_from_slice(&part[..bytes]);
        }
        String::from_utf8(shown).unwrap()
    });
    child.wait().unwrap();
    reader.join().unwrap().replace('\r', "")
}

fn fits(shown: &str, columns: usize) {
    assert!(shown.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{shown}");
}

fn command(name: &str, arguments: &str) -> Command {
    let mut command = daemon::command(name);
    command.args(arguments.split(' ')).env("TERM", "xterm");
    // Where CI is set, help has colours on every terminal: build services take them.
    for name in ["CI", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_whole_and_lines_fit_at_every_width() {
    let (validator, miner) = TestMiner::with_validator(&Policy::default(), 2, &[]).await;
    let (key, socket) = (miner.key.to_string(), format!("--control-socket={}", validator.socket.display()));
    let miners = |more: &str| command("assay-validator", &format!("miners{more} {socket}"));
    for columns in [80, 100] {
        let narrow = shown(&mut miners(""), columns);
        fits(&narrow, columns.into());
        assert!(narrow.split_whitespace().any(|word| word == &key[..8]), "{narrow}");
        let wide = shown(&mut miners(" --wide"), columns);
        assert!(wide.split_whitespace().any(|word| word == key), "{wide}");
        assert!(wide.contains(&validator.address.ip().to_string()), "{wide}");
    }
    // A terminal that does not know its width, one that is too narrow, and none.
    let file = String::from_utf8(miners("").output().unwrap().stdout).unwrap();
    for plain in [shown(&mut miners(""), 0), shown(&mut miners(""), 20), file] {
        assert!(!plain.contains(['─', '═']), "{plain}");
        let lines: Vec<_> =
            plain.lines().map(|line| line.split("   ").filter(|cell| !cell.is_empty()).count()).collect();
        assert!(lines.len() == 2 && lines[0] == lines[1], "as many cells as names:\n{plain}");
    }
}

#[test]
fn settings_fit_a_terminal_and_are_plain_in_a_pipe() {
    for name in ["assay-validator", "assay-miner"] {
        let show =
            || command(name, "config show --key-file /a/rather/long/path/to/the/folder/with/keys/in/it/secret.key");
        for columns in [80, 100] {
            let shown = shown(&mut show(), columns);
            fits(&shown, columns.into());
            assert!(shown.contains('═') && shown.contains(" insecure_allow_remote_plaintext "), "{shown}");
        }
        let plain = String::from_utf8(show().output().unwrap().stdout).unwrap();
        assert!(plain.starts_with("setting ") && !plain.contains(['─', '═']), "{plain}");
        assert!(plain.contains("/a/rather/long/path/to/the/folder/with/keys/in/it/secret.key"), "{plain}");
        assert_eq!(plain, shown(&mut show(), 0), "a terminal without a width");
    }
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let folder = tempfile::tempdir().unwrap();
    let log = format!(
        "devices --backend=cpu --cpu-memory=8MiB --cpu-threads=1 --log=debug --key-file={}/k",
        folder.path().display()
    );
    for line in ["--help", "serv", &log] {
        let coloured = |variable: (&str, &str)| {
            let mut command = command("assay-miner", line);
            shown(command.env(variable.0, variable.1), 100).contains("\u{1b}[")
        };
        assert!(coloured(("TERM", "xterm")), "{line}");
        for variable in [("TERM", "dumb"), ("NO_COLOR", "1"), ("CLICOLOR", "0")] {
            assert!(!coloured(variable), "{line} {variable:?}");
        }
    }
}

#[test]
fn a_switch_is_typed_with_and_without_an_equals_sign() {
    let value = |arguments: &str| {
        let output = command("assay-validator", arguments).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), json["challenge_on_connect"]["value"].clone(), String::from_utf8(output.stderr).unwrap())
    };
    for (line, on) in [("", true), (" true", true), (" false", false), ("=false", false)] {
        let (code, found, error) = value(&format!("config show --json --challenge-on-connect{line}"));
        assert_eq!((code, found), (Some(0), on.into()), "{line}: {error}");
    }
    for line in [" flase", "=flase", " no"] {
        let (code, _, error) = value(&format!("config show --json --challenge-on-connect{line}"));
        assert_eq!(code, Some(64), "{error}");
        for part in ["'--challenge-on-connect'", "--challenge-on-connect=false", "--challenge-on-connect false"] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let mut show = command("assay-validator", "config show --json");
    for name in ["CONFIG", "LISTEN", "MAX_MINERS", "ALLOWED_MINERS", "LOG", "REFLECTION", "MODE"] {
        show.env(format!("ASSAY_VALIDATOR_{name}"), "");
    }
    let output = show.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(shown.as_object().unwrap().values().all(|setting| setting["origin"]["layer"] == "default"), "{shown}");
}
