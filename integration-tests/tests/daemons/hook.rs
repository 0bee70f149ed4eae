//! The command or URL of `on_event`: a real script, a real HTTP server, and both when they fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::{self, PATIENCE};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::Mode;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn policy(hook: &str) -> Policy {
    Policy { flags: vec![format!("--on-event={hook}")], ..Policy::default() }
}

/// A script in a folder.
fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("a hook.sh");
    // Another process writes it: a worker that another test starts meanwhile would inherit the file from this one, and no
    // system runs a file that someone may still write.
    let script = format!("#!/bin/sh\ncd '{}' || exit 9\n{text}\n", folder.display());
    let write = "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let written = Command::new("sh").args(["-c", write]).arg(&path).arg(script).status().unwrap();
    assert!(written.success());
    path
}

/// The events that a script put into files, once one of them is `last`.
async fn events(folder: &Path, last: impl Fn(&Value) -> bool) -> Vec<Value> {
    let until = Instant::now() + PATIENCE;
    loop {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let read = files.filter_map(|path| serde_json::from_str(&fs::read_to_string(path).ok()?).ok());
        let mut events: Vec<Value> = read.collect();
        if events.iter().any(&last) {
            events.sort_by_key(|event| event["sequence"].as_u64());
            return events;
        }
        assert!(Instant::now() < until, "no such event came: {events:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_given_each_event_and_one_that_fails_first_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    // Whole files only, so that the test reads none that is half written. The first verdict fails once.
    let text = "cat > in.$$\n\
        if grep -q '\"type\":\"verdict\"' in.$$ && mkdir failed-once; then rm in.$$; echo 'not yet' >&2; exit 3; fi\n\
        mv in.$$ \"$1.$$.json\"";
    let hook = script(folder.path(), text);
    let mut validator = TestValidator::start(&policy(&format!("'{}' 'an event'", hook.display()))).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    ruling.expect_pass();
    let failed = validator.daemon.wait_for("another attempt follows");
    let said = failed["message"].as_str().unwrap();
    assert!(said.contains("exit status: 3") && said.contains("not yet"), "{failed}");
    // What follows waits for what failed.
    let found = events(folder.path(), |event| event["type"] == "state").await;
    let key = miner.key.to_string();
    assert_eq!(names(&found), ["health", "miner_connected", "verdict", "state"]);
    assert_eq!((&found[0]["data"]["serving"], &found[0]["sequence"]), (&true.into(), &1.into()));
    let connected = &found[1]["data"];
    assert_eq!((&connected["key"], &connected["devices"]), (&key.as_str().into(), &1.into()));
    assert_eq!((&connected["address"], &found[1]["miner"]), (&"127.0.0.1".into(), &key.as_str().into()));
    let verdict = &found[2]["verdict"];
    assert_eq!((&verdict["outcome"], &verdict["miner_key"]), (&"pass".into(), &key.as_str().into()));
    assert!(
        folder.path().read_dir().unwrap().any(|e| e.unwrap().file_name().to_str().unwrap().starts_with("an event."))
    );
    // The last events come before the validator is gone.
    drop(miner);
    events(folder.path(), |event| event["type"] == "miner_left").await;
    validator.daemon.terminate();
    assert_eq!(validator.daemon.wait().code(), Some(0));
    let is_last = |event: &Value| event["type"] == "health" && event["data"]["serving"] == false;
    let found = events(folder.path(), is_last).await;
    assert_eq!(names(&found), ["health", "miner_connected", "verdict", "state", "miner_left", "health"]);
}

/// One request: its head and its body.
async fn request(stream: &mut tokio::net::TcpStream) -> (String, Value) {
    let mut bytes = Vec::new();
    loop {
        let mut block = [0; 4096];
        let count = stream.read(&mut block).await.unwrap();
        assert!(count > 0, "the request is whole: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&block[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() == length.unwrap_or(usize::MAX) {
            return (head.to_owned(), serde_json::from_str(body).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_server_is_posted_each_event_and_one_that_refuses_first_is_asked_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hooks/assay?token=secret", listener.local_addr().unwrap());
    let mut validator = TestValidator::start(&policy(&url)).await;
    let mut sequences = Vec::new();
    for answer in ["503 Service Unavailable", "204 No Content"] {
        let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        let (head, event) = request(&mut stream).await;
        assert!(head.starts_with("POST /hooks/assay?token=secret HTTP/1.1\r\n"), "{head}");
        assert!(head.to_ascii_lowercase().contains("content-type: application/json"), "{head}");
        assert_eq!(event["type"], "health");
        sequences.push(event["sequence"].clone());
        stream.write_all(format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await.unwrap();
    }
    assert_eq!(sequences[0], sequences[1]);
    let failed = validator.daemon.wait_for("another attempt follows");
    assert!(failed["message"].as_str().unwrap().contains("503"), "{failed}");
    assert!(!validator.daemon.log().iter().any(|line| line.contains("token")), "no secrets in the log");
    // The next one is a verdict.
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    loop {
        let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        let (_, event) = request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        if event["type"] == "verdict" {
            assert_eq!(event["verdict"]["outcome"], "pass");
            break;
        }
    }
}

/// A hook that never ends holds up no verdict, and is killed when its time is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_hangs_holds_nothing_up() {
    const VERDICTS: usize = 6;
    let folder = tempfile::tempdir().unwrap();
    let hook = script(folder.path(), "echo $$ > running.$$\nexec sleep 1000");
    let mut validator = TestValidator::start(&policy(&format!("'{}'", hook.display()))).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    // More verdicts than are delivered at once, while the first events hang: one that waited would come after its hook.
    for _ in 0..VERDICTS {
        validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    }
    let killed = validator.daemon.log().iter().filter(|line| line.contains("was killed")).count();
    assert!(killed < VERDICTS, "{killed} hooks were waited for");
    let failed = validator.daemon.wait_for("was killed");
    assert!(failed["message"].as_str().unwrap().contains("10s"), "{failed}");
    // Nor does it hold up the end: the validator waits for it a little, and says what it did not have.
    validator.daemon.terminate();
    validator.daemon.wait_for("ends before a webhook had all events");
    assert_eq!(validator.daemon.wait().code(), Some(0));
}

#[test]
fn a_hook_that_cannot_be_is_refused_at_the_start() {
    for (hook, said) in [
        ("ftp://alerts.example/", "expected a command, or a URL of http:// or https://"),
        ("notify 'me", "a quote is not closed"),
        ("http://me:word@alerts.example/", "a user in the URL is not supported"),
    ] {
        let refused = daemon::run("assay-validator", ["serve", "--listen=127.0.0.1:0", &format!("--on-event={hook}")]);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && text.contains(said) && text.contains("on_event"), "{hook}: {text}");
    }
}
