//! An operator, who types commands at a validator.

use std::path::Path;
use std::process::Output;

use assay_integration_tests::daemon::run;
use assay_integration_tests::validator::TestValidator;
use serde_json::Value;

/// The output of a command, and its exit code.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub errors: String,
}

/// Runs a command of the validator's operator, given in words.
pub fn operate(validator: &TestValidator, command: &str) -> Said {
    operate_at(&validator.socket, &command.split(' ').collect::<Vec<_>>())
}

/// The same, at a socket, with the words apart: options come first.
pub fn operate_at(socket: &Path, words: &[&str]) -> Said {
    let socket = format!("--control-socket={}", socket.display());
    let (command, rest) = words.split_first().expect("a command");
    let Output { status, stdout, stderr } = run("assay-validator", [command, socket.as_str()].iter().chain(rest));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("programs print text");
    Said { code: status.code().expect("it ends by itself"), out: text(stdout), errors: text(stderr) }
}

/// The JSON that a command prints.
pub fn json(validator: &TestValidator, command: &str) -> Value {
    let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
    let said = operate(validator, format!("{name} --json {rest}").trim_end());
    assert_eq!(said.code, 0, "{command}: {}", said.errors);
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{command}: {error}: {}", said.out))
}

/// A command's output for people, without a terminal.
///
/// # Panics
/// When it fails, or prints anything that only a terminal shows.
pub fn plain(validator: &TestValidator, command: &str) -> String {
    let said = operate(validator, command);
    assert_eq!(said.code, 0, "{command}: {}", said.errors);
    assert!(!said.out.contains(['\x1b', '─', '│']) && !said.out.is_empty(), "{command}: {}", said.out);
    said.out
}
