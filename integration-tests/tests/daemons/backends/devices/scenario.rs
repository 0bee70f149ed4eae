//! A process loads its driver once, so each scenario of a test is a process of its own: the test's own program again,
//! with that test alone, and the scenario's name and settings in its environment.

use std::env;
use std::ffi::OsString;
use std::panic::Location;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Names the scenario that a process is for.
const SCENARIO: &str = "ASSAY_TEST_SCENARIO";
/// Printed by a scenario that ran to its end: a process that ran no scenario has not passed.
const PASSED: &str = "the scenario passed";
/// The longest that a scenario may take. It is for hangs; a slow machine stays far below it.
const LIMIT: Duration = Duration::from_secs(900);

/// The variables that a scenario's process has beside those of this one, and those that it lacks.
pub struct Environment {
    pub absent: Vec<&'static str>,
    pub present: Vec<(String, OsString)>,
}

/// The full name of the test function `test` of the file that calls this: the file is a module beside this one.
#[track_caller]
pub fn test_of_this_file(test: &str) -> String {
    let module = Path::new(Location::caller().file()).file_stem().expect("a caller has a file");
    format!("backends::devices::{}::{test}", module.display())
}

/// Runs `body` in a process of its own; in such a process, if it is for this scenario. `test` is the test function's
/// full name, `name` differs from scenario to scenario of it.
pub fn run(test: &str, name: &str, environment: impl FnOnce() -> Environment, body: impl FnOnce()) {
    match env::var(SCENARIO) {
        Ok(this) if this == name => {
            body();
            println!("{PASSED}");
        }
        Ok(_) => {}
        Err(_) => {
            let (success, text) = start(test, name, environment());
            assert!(success && text.contains(PASSED), "scenario {name:?} of {test} {text}");
        }
    }
}

/// The same, where the process is to end before `body` is done, and to say so, or with such a status.
pub fn run_to_failure(
    test: &str,
    name: &str,
    says: &str,
    environment: impl FnOnce() -> Environment,
    body: impl FnOnce(),
) {
    match env::var(SCENARIO) {
        Ok(this) if this == name => body(),
        Ok(_) => {}
        Err(_) => {
            let (success, text) = start(test, name, environment());
            assert!(!success && text.contains(says), "scenario {name:?} of {test} {text}");
        }
    }
}

fn start(test: &str, name: &str, environment: Environment) -> (bool, String) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    for name in environment.absent {
        command.env_remove(name);
    }
    command.env(SCENARIO, name).envs(environment.present);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    let output = thread::scope(|scope| {
        let waiting = scope.spawn(|| child.wait_with_output().unwrap());
        let start = Instant::now();
        while !waiting.is_finished() {
            if start.elapsed() > LIMIT {
                // SAFETY: a signal to the process started above, which has not been waited for yet.
                unsafe { libc::kill(id.cast_signed(), libc::SIGKILL) };
            }
            thread::sleep(Duration::from_millis(5));
        }
        waiting.join().unwrap()
    });
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.success(), format!("ended with {}:\n{}", output.status, text.join("\n")))
}
