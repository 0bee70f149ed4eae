//! A scenario in a browser: a script of Node with playwright-core and axe-core, which drives Debian's Chromium.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::PATIENCE;
use serde_json::Value;

/// How long a scenario may take in all: it waits for many things, each with a patience of its own.
const LIMIT: Duration = PATIENCE.saturating_mul(3);

/// A scenario under way. Dropped, it is gone.
pub struct Scenario {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Scenario {
    /// Starts `scenarios/NAME.mjs` with its data. Without its tools it fails: a skipped test would go unnoticed.
    pub fn start(name: &str, known: &Value) -> Self {
        let tools = std::env::var_os("ASSAY_BROWSER_TOOLS").expect(
            "ASSAY_BROWSER_TOOLS is not set: run scripts/test, or set it to a node_modules folder that has \
             playwright-core and axe-core",
        );
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/daemons/browser/scenarios").join(name);
        let mut command = Command::new("node");
        command.arg(script.with_extension("mjs")).arg(known.to_string()).env("ASSAY_BROWSER_TOOLS", tools);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("node can be started");
        let output = child.stdout.take().expect("standard output is a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines, seen: Vec::new() }
    }

    /// Waits until the script says this.
    pub fn wait_for(&mut self, said: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let line = self.lines.recv_timeout(until.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|error| panic!("no {said:?} from the script: {error}: {:#?}", self.seen));
            if line == said {
                return;
            }
            self.seen.push(line);
        }
    }

    /// Waits for the script's end, which is to be a good one.
    pub fn succeed(mut self) {
        let until = Instant::now() + LIMIT;
        loop {
            self.seen.extend(self.lines.try_iter());
            if let Some(status) = self.child.try_wait().expect("the script can be waited for") {
                assert!(status.success(), "{status}: {:#?}", self.seen);
                return;
            }
            assert!(Instant::now() < until, "the script does not end: {:#?}", self.seen);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
