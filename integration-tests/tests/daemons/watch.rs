//! `assay-validator watch` in a real terminal: its drawing, its keys, and the terminal after it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::{self, PATIENCE};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::Mode;

use crate::terminals::terminal;

const COLUMNS: u16 = 80;
/// As many as [`terminal`] has.
const ROWS: u16 = 24;

/// A terminal's display, for the sequences that are used here.
struct Picture {
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// The bytes of a sequence, or of a character, that is not whole yet.
    rest: Vec<u8>,
    /// Whether another screen than the shell's is shown.
    is_alternate: bool,
    is_cursor_hidden: bool,
}

impl Picture {
    fn new() -> Self {
        let cells = vec![vec![' '; COLUMNS.into()]; ROWS.into()];
        Self { cells, row: 0, column: 0, rest: Vec::new(), is_alternate: false, is_cursor_hidden: false }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let taken = std::mem::take(&mut self.rest);
        let whole = std::str::from_utf8(&taken).map_or_else(|error| error.valid_up_to(), str::len);
        let mut text = std::str::from_utf8(&taken[..whole]).unwrap();
        while let Some(sign) = text.chars().next() {
            if sign != '\x1b' {
                self.put(sign);
                text = &text[sign.len_utf8()..];
                continue;
            }
            let Some(end) = text.bytes().skip(2).position(|byte| (0x40..=0x7e).contains(&byte)) else { break };
            assert_eq!(text.as_bytes()[1], b'[', "another sequence: {text:?}");
            self.obey(&text[2..=end + 2]);
            text = &text[end + 3..];
        }
        self.rest = [text.as_bytes(), &taken[whole..]].concat();
    }

    fn put(&mut self, sign: char) {
        assert!(!sign.is_control(), "{sign:?}");
        if self.row < ROWS.into() && self.column < COLUMNS.into() {
            self.cells[self.row][self.column] = sign;
        }
        self.column += 1;
    }

    fn obey(&mut self, sequence: &str) {
        let (parameters, last) = sequence.split_at(sequence.len() - 1);
        match (parameters, last) {
            ("?1049", _) => self.is_alternate = last == "h",
            ("?25", _) => self.is_cursor_hidden = last == "l",
            (_, "H") => {
                let (row, column) = parameters.split_once(';').unwrap_or(("1", "1"));
                (self.row, self.column) = (row.parse::<usize>().unwrap() - 1, column.parse::<usize>().unwrap() - 1);
            }
            ("2", "J") => self.cells = Self::new().cells,
            _ => {}
        }
    }

    fn text(&self) -> String {
        let line = |cells: &Vec<char>| cells.iter().collect::<String>().trim_end().to_owned();
        self.cells.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// `watch` in a terminal.
struct Watch {
    child: Child,
    keys: File,
    picture: Arc<Mutex<Picture>>,
    /// The terminal's other end, which shows how it is set.
    end: OwnedFd,
    before: Vec<u8>,
}

/// How a terminal is set.
fn settings(terminal: &impl AsRawFd) -> Vec<u8> {
    let mut found = std::mem::MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: the system fills in what there is room for; all of it is zeroed before.
    let found = unsafe {
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), found.as_mut_ptr()), 0);
        found.assume_init()
    };
    format!("{} {} {} {}", found.c_iflag, found.c_oflag, found.c_cflag, found.c_lflag).into_bytes()
}

impl Watch {
    fn start(arguments: &[String]) -> Self {
        let (mut shown, end) = terminal(COLUMNS);
        let before = settings(&end);
        let mut command = daemon::command("assay-validator");
        command.arg("watch").args(arguments).env("TERM", "xterm").env_remove("NO_COLOR");
        let its_end = File::from(end.try_clone().unwrap());
        command.stdin(its_end.try_clone().unwrap()).stdout(its_end.try_clone().unwrap()).stderr(its_end);
        let child = command.spawn().unwrap();
        let (keys, picture) = (shown.try_clone().unwrap(), Arc::new(Mutex::new(Picture::new())));
        let drawn = picture.clone();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(bytes @ 1..) = shown.read(&mut part) {
                drawn.lock().unwrap().take(&part[..bytes]);
            }
        });
        Self { child, keys, picture, end, before }
    }

    fn of(validator: &TestValidator) -> Self {
        Self::start(&[format!("--control-socket={}", validator.socket.display())])
    }

    fn text(&self) -> String {
        self.picture.lock().unwrap().text()
    }

    /// Waits until all of these are on the screen.
    async fn wait_for(&self, parts: &[&str]) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            if parts.iter().all(|part| text.contains(part)) {
                return text;
            }
            assert!(Instant::now() < until, "{parts:?} in\n{text}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until it has ended, and requires the terminal to be as it was.
    async fn ended(mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "it goes on:\n{}", self.text());
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        // What it wrote last may still be on its way.
        let is_back = |picture: &Picture| !picture.is_alternate && !picture.is_cursor_hidden;
        while !is_back(&self.picture.lock().unwrap()) {
            assert!(Instant::now() < until, "the shell's screen and its cursor are back");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(settings(&self.end), self.before, "the terminal is set as before");
        status
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_is_followed_through_a_challenge_and_a_restart() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let mut watch = Watch::of(&validator);
    watch.wait_for(&["live", "No miner has come yet", "0 pass, 0 do not", "q quits"]).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let key = miner.key.to_string();
    watch.wait_for(&[&key[..8], "yes", "fleet: 1"]).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    ruling.expect_pass();
    let id: String = ruling.verdict.challenge_id.iter().map(|byte| format!("{byte:02x}")).collect();
    watch.wait_for(&[&id[..8], "verdicts 1 pass"]).await;
    watch.press("\r");
    watch.wait_for(&[&key, "software", "assay-miner/", "Esc closes"]).await;
    watch.press("\x1b");
    watch.wait_for(&["q quits", "fleet: 1"]).await;
    watch.press("/zzzz\r");
    watch.wait_for(&["fleet: 0, with \"zzzz\"", "No miner is like that"]).await;
    watch.press("\x1b");
    watch.wait_for(&["fleet: 1"]).await;
    validator.daemon.kill();
    watch.wait_for(&["NOT CONNECTED, trying again: "]).await;
    validator.restart().await;
    let text = watch.wait_for(&["live", &id[..8]]).await;
    assert!(!text.contains("NOT CONNECTED"), "{text}");
    watch.press("q");
    assert!(watch.ended().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_gives_the_terminal_back() {
    let validator = TestValidator::start(&Policy::default()).await;
    for name in ["-TERM", "-INT"] {
        let watch = Watch::of(&validator);
        watch.wait_for(&["live"]).await;
        assert!(watch.picture.lock().unwrap().is_alternate && settings(&watch.end) != watch.before);
        let kill = std::process::Command::new("kill").args([name, &watch.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        assert!(watch.ended().await.success());
    }
    // A key that means the same where no signal comes.
    let mut watch = Watch::of(&validator);
    watch.wait_for(&["live"]).await;
    watch.press("\x03");
    assert!(watch.ended().await.success());
}

#[test]
fn without_a_terminal_or_a_validator_nothing_is_drawn() {
    let output = daemon::run("assay-validator", ["watch", "--control-socket=/nonexistent/socket"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(64) && said.contains("status --json"), "{said}");
}
