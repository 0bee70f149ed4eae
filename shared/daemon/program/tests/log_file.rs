//! A log file that is renamed, and a level that changes, in a process of its own: a process has one log.

use std::fs;
use std::path::Path;

use assay_program::logging::{self, LogConfig, LogFormat, list};
use serde_json::Value;

fn lines(path: &Path) -> Vec<Value> {
    logging::flush();
    let log = fs::read_to_string(path).unwrap();
    log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn messages(path: &Path) -> Vec<String> {
    lines(path).iter().map(|line| line["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_renamed_file_is_replaced_and_the_level_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (path, old) = (folder.path().join("log"), folder.path().join("log.1"));
    let config =
        |filter: &str| LogConfig { format: LogFormat::Json, filter: filter.to_owned(), file: Some(path.clone()) };
    assert!(logging::reload(&config("info")).is_err(), "there is no log yet");
    let default = std::panic::take_hook();
    let guard = config("info").start().unwrap();
    // The test's own failures are shown as well.
    let logged = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        logged(info);
        default(info);
    }));
    tracing::info!(devices = list(["a", "b"]), tops = 0.5, "one");
    tracing::debug!("not shown");
    assert_eq!(messages(&path), ["one"]);
    assert_eq!(lines(&path)[0]["devices"], serde_json::json!(["a", "b"]));

    fs::rename(&path, &old).unwrap();
    tracing::info!("two");
    assert_eq!(messages(&old), ["one", "two"], "the open file is written to, whatever its name is");
    logging::reload(&config("debug")).unwrap();
    tracing::debug!("three");
    assert_eq!(messages(&path), ["three"]);
    assert_eq!(messages(&old), ["one", "two"]);

    // A reload that fails changes nothing.
    let missing = LogConfig { file: Some(folder.path().join("no/folder/log")), ..config("error") };
    assert!(logging::reload(&missing).unwrap_err().contains("no/folder/log"));
    assert!(logging::reload(&config("errors")).unwrap_err().contains("did you mean `error`?"));
    tracing::debug!("four");
    assert_eq!(messages(&path), ["three", "four"]);

    // Once more than there may be threads: each of them ended with its file.
    for _ in 0..10 {
        logging::reload(&config("debug")).unwrap();
        logging::flush();
    }

    let panicked = std::thread::Builder::new().name("unlucky".into()).spawn(|| panic!("for {}", "a test")).unwrap();
    panicked.join().unwrap_err();
    let last = lines(&path).pop().unwrap();
    assert_eq!((&last["message"], &last["thread"]), (&"panicked: for a test".into(), &"unlucky".into()));
    assert!(last["location"].as_str().unwrap().contains("log_file.rs:"), "{last}");
    tracing::info!("last");
    drop(guard);
    assert!(fs::read_to_string(&path).unwrap().ends_with('\n'));
    assert_eq!(messages(&path).last().unwrap(), "last");
}
