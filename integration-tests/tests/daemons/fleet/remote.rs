//! Commands to a validator on another machine: over TLS, with a token, and their errors where that does not work.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Output, Stdio};
use std::time::Instant;

use assay_api::{ApiToken, CreateApiToken, Role};
use assay_integration_tests::authority::Authority;
use assay_integration_tests::daemon::{self, PATIENCE};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::identity::Identity;
use assay_protocol::verdict::Mode;
use serde_json::Value;

use crate::fleet::operator::{self, Said};

/// A validator that serves the network, as its operators elsewhere reach it.
struct Remote {
    validator: TestValidator,
    address: SocketAddr,
}

impl Remote {
    async fn start(policy: Policy) -> Self {
        let mut flags = policy.flags;
        flags.push("--http-listen=127.0.0.1:0".to_owned());
        let mut validator = TestValidator::start(&Policy { flags, ..policy }).await;
        let address = validator.http_address();
        Self { validator, address }
    }

    /// The validator's own key, pinned.
    fn url(&self) -> String {
        format!("https://{}#{}", self.address, self.validator.key)
    }

    async fn token(&self, role: Role) -> String {
        let token = CreateApiToken { role, name: format!("test-{role}"), expires_s: 3600 };
        let made: ApiToken = self.validator.operator().post("/tokens", &token).await.expect("a token is made");
        made.token
    }

    async fn say(&self, token: &str, words: &str) -> Said {
        ask(&self.url(), &[], Some(token), words).await
    }
}

/// A command with `--server`, as it is started.
fn command(url: &str, flags: &[String], token: Option<&str>, words: &str) -> std::process::Command {
    let mut command = daemon::command("assay-validator");
    // Words that look like options may end a command.
    let (name, rest) = words.split_once(' ').unwrap_or((words, ""));
    command.arg(name).arg(format!("--server={url}")).args(flags).args(rest.split(' ').filter(|word| !word.is_empty()));
    if let Some(token) = token {
        command.env("ASSAY_VALIDATOR_TOKEN", token);
    }
    command
}

fn said(output: Output) -> Said {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("programs print text");
    let code = output.status.code().expect("it ends by itself");
    Said { code, out: text(output.stdout), errors: text(output.stderr) }
}

async fn ask(url: &str, flags: &[String], token: Option<&str>, words: &str) -> Said {
    let mut command = command(url, flags, token, words);
    // The test's own threads go on meanwhile.
    said(tokio::task::spawn_blocking(move || command.output().expect("it starts")).await.expect("it ends"))
}

/// Fields that are measured when a document is made.
const MEASURED: [&str; 2] = ["round_trip_ms", "connected_seconds"];

/// A document without the figures that are measured when it is made; other text as it is.
fn without_measurements(text: &str) -> String {
    fn clear(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (_, measured) in fields.iter_mut().filter(|(name, _)| MEASURED.contains(&name.as_str())) {
                    assert!(measured.is_number() || measured.is_null(), "{measured}");
                    *measured = Value::Null;
                }
                fields.values_mut().for_each(clear);
            }
            Value::Array(values) => values.iter_mut().for_each(clear),
            _ => {}
        }
    }
    let Ok(mut document) = serde_json::from_str(text) else { return text.to_owned() };
    clear(&mut document);
    document.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_does_over_the_network_what_it_does_at_the_socket() {
    let remote = Remote::start(Policy::default()).await;
    let validator = &remote.validator;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let (key, token) = (miner.key.to_string(), remote.token(Role::Admin).await);
    let challenged = remote.say(&token, "challenge --mode=audit --json").await;
    assert!(matches!(challenged.code, 0 | 3), "{}", challenged.errors);
    let verdict: Value = serde_json::from_str(&challenged.out).unwrap();
    let id = verdict["challenge_id"].as_str().unwrap().to_owned();
    // Commands that only show print the same document, byte for byte.
    for words in [
        "miners --all --json".to_owned(),
        format!("devices --miner {key} --json"),
        "verdicts --json".to_owned(),
        format!("show {id} --json"),
        format!("show {} --json", &key[..8]),
        format!("history {} --json", &key[..8]),
        format!("receipt {id} --json"),
        format!("receipt {id} --token"),
        "enroll --list --json".to_owned(),
        "verdicts --outcome fail".to_owned(),
        "address".to_owned(),
    ] {
        let (name, rest) = words.split_once(' ').unwrap_or((&words, ""));
        let at_socket = || without_measurements(&operator::operate(validator, format!("{name} {rest}").trim_end()).out);
        let until = Instant::now() + PATIENCE;
        loop {
            let before = at_socket();
            let elsewhere = remote.say(&token, &words).await;
            assert_eq!(elsewhere.code, 0, "{words}: {}", elsewhere.errors);
            // Records that changed meanwhile are read again.
            if before == at_socket() {
                assert_eq!(without_measurements(&elsewhere.out), before, "{words}");
                break;
            }
            assert!(Instant::now() < until, "{words}: the records do not come to rest");
        }
    }
    // Output that changes between two commands, and commands that change something.
    for (words, part) in [
        ("status".to_owned(), "1 of at most 256"),
        ("miners".to_owned(), &key[..8]),
        ("enroll --label rack=7".to_owned(), ""),
        (format!("label {} rack=7", &key[..8]), "rack=7"),
        (format!("approve {}", &key[..8]), "approved"),
        (format!("forget {}", &key[..8]), "forgot 1 device"),
        ("round".to_owned(), "1 of 1 started in time"),
        ("challenge --all --mode=audit".to_owned(), "pass"),
        ("cancel --all".to_owned(), "no challenge runs"),
        ("reload".to_owned(), "no setting"),
        (format!("suspend {}", &key[..8]), "→ suspended"),
        (format!("resume {}", &key[..8]), "→ approved"),
        (format!("revoke {}", &key[..8]), "→ revoked"),
    ] {
        let done = remote.say(&token, &words).await;
        assert!(done.code == 0 || done.code == 3 && words.starts_with("challenge"), "{words}: {}", done.errors);
        assert!(done.out.contains(part), "{words}: {part} in {}", done.out);
    }
    // Who did it is noted by the token's name.
    let shown = remote.say(&token, &format!("history {key}")).await.out;
    assert!(shown.contains("revoke by") && shown.contains("test-admin"), "{shown}");
    for words in ["export /tmp/export", "backup /tmp/backup.db"] {
        let refused = remote.say(&token, words).await;
        assert!(refused.code == 64 && refused.errors.contains("files of its own machine"), "{}", refused.errors);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_does_not_suffice_is_told_which_does() {
    let remote = Remote::start(Policy::default()).await;
    let validator = &remote.validator;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let key = miner.key.to_string();
    let (read, operate) = (remote.token(Role::Read).await, remote.token(Role::Operate).await);
    for words in ["miners", "status", "verdicts", "devices"] {
        assert_eq!(remote.say(&read, words).await.code, 0, "{words}");
    }
    for words in ["challenge".to_owned(), format!("forget {key}"), format!("suspend {key}"), "round".to_owned()] {
        let done = remote.say(&read, &words).await;
        assert_eq!(done.code, 78, "{words}: {}", done.errors);
        assert!(
            done.errors.contains("role") && done.errors.contains("token create --role"),
            "{words}: {}",
            done.errors
        );
    }
    let refused = remote.say(&operate, "reload").await;
    assert!(refused.code == 78 && refused.errors.contains("admin"), "{}", refused.errors);
    assert!(matches!(remote.say(&operate, "challenge --mode=audit").await.code, 0 | 3));
    // No token, an unknown one, a malformed one.
    let unknown = format!("assay_read_{}", "A".repeat(43));
    for token in [None, Some(unknown.as_str())] {
        let refused = ask(&remote.url(), &[], token, "miners").await;
        assert!(refused.code == 78 && refused.errors.contains("--token-file"), "{}", refused.errors);
        assert!(!refused.errors.contains(&unknown), "{}", refused.errors);
    }
    let refused = ask(&remote.url(), &[], Some("hunter2"), "miners").await;
    assert!(refused.code == 78 && refused.errors.contains("ASSAY_VALIDATOR_TOKEN: expected"), "{}", refused.errors);
    assert!(!refused.errors.contains("hunter2"), "{}", refused.errors);
    // From a file, and from standard input.
    let file = validator.file("read.token");
    std::fs::write(&file, format!("{read}\n")).unwrap();
    let flags = [format!("--token-file={}", file.display())];
    assert_eq!(ask(&remote.url(), &flags, None, "miners").await.code, 0);
    let mut piped = command(&remote.url(), &["--token-file=-".to_owned()], None, "miners");
    piped.stdin(std::fs::File::open(&file).unwrap());
    assert!(piped.output().unwrap().status.success());
    // Nothing of this is for the socket.
    let given = operator::operate(validator, "miners --token-file=-");
    assert!(given.code == 64 && given.errors.contains("--server"), "{}", given.errors);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_known_by_its_key_or_by_an_authority() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = authority.issue(folder.path(), &["127.0.0.1"], 2099);
    let flags =
        vec![format!("--tls-cert={}", files.certificate.display()), format!("--tls-key={}", files.key.display())];
    let remote = Remote::start(Policy { flags, ..Policy::default() }).await;
    let (token, address) = (remote.token(Role::Read).await, remote.address);
    assert_eq!(remote.say(&token, "miners").await.code, 0, "by its own key, beside a certificate");
    let other = Identity::from_seed(&[0x51; 32]).public_key();
    let wrong = ask(&format!("https://{address}#{other}"), &[], Some(&token), "miners").await;
    assert!(wrong.code == 78 && wrong.errors.contains(&format!("{other} was expected")), "{}", wrong.errors);
    let https = format!("https://{address}");
    let ca = [format!("--server-ca={}", authority.file(folder.path()).display())];
    let trusted = ask(&https, &ca, Some(&token), "miners").await;
    assert_eq!(trusted.code, 0, "{}", trusted.errors);
    let strange = tempfile::tempdir().unwrap();
    let stranger = [format!("--server-ca={}", Authority::new().file(strange.path()).display())];
    for flags in [&stranger[..], &[]] {
        let refused = ask(&https, flags, Some(&token), "miners").await;
        assert!(refused.code == 74 && refused.errors.contains("--server-ca"), "{}", refused.errors);
    }
    // No server there; another program; miners' port; plaintext to another machine.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = ask(&format!("http://{free}"), &[], Some(&token), "miners").await;
    assert!(nobody.code == 74 && nobody.errors.contains("http_listen"), "{}", nobody.errors);
    let miners = format!("https://{}#{}", remote.validator.address, remote.validator.key);
    let not_http = ask(&miners, &[], Some(&token), "miners").await;
    assert!(not_http.code == 74 && not_http.errors.contains("does not answer as a validator"), "{}", not_http.errors);
    let plain = ask("http://192.0.2.1:7480", &[], Some(&token), "miners").await;
    assert!(plain.code == 64 && plain.errors.contains("--server-insecure"), "{}", plain.errors);
    let assay = ask(&format!("assay://{}", remote.validator.address), &[], Some(&token), "miners").await;
    assert!(assay.code == 64 && assay.errors.contains("http_listen"), "{}", assay.errors);
}

/// A command that runs while the test goes on.
fn begin(remote: &Remote, token: &str, words: &str) -> Child {
    let mut command = command(&remote.url(), &[], Some(token), words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_over_the_network_is_cancelled_and_outlives_no_validator() {
    let mut remote = Remote::start(Policy { iterations: 60_000, ..Policy::default() }).await;
    let mut miner = TestMiner::start(remote.validator.address, 1, &[]);
    remote.validator.wait_for_miner(miner.key, true).await;
    let token = remote.token(Role::Operate).await;
    let cancelled = begin(&remote, &token, "challenge --mode=audit --json");
    miner.daemon.wait_for("working");
    let interrupt = std::process::Command::new("kill").args(["-INT", &cancelled.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    let output = said(cancelled.wait_with_output().unwrap());
    let verdict: Value = serde_json::from_str(&output.out).unwrap_or_else(|error| panic!("{error}: {}", output.errors));
    assert_eq!((output.code, &verdict["reasons"][0]["code"]), (2, &"cancelled".into()), "{}", output.errors);
    miner.daemon.wait_for("cancelled");
    let lost = begin(&remote, &token, "challenge --mode=audit --wait=60");
    miner.daemon.wait_for("working");
    remote.validator.daemon.kill();
    let output = said(lost.wait_with_output().unwrap());
    assert!(
        output.code == 2 && output.errors.contains("ended the conversation before the verdict"),
        "{}",
        output.errors
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_keeps_its_mode_over_plaintext_of_this_machine() {
    let remote = Remote::start(Policy::default()).await;
    let miner = TestMiner::start(remote.validator.address, 1, &[]);
    remote.validator.wait_for_miner(miner.key, true).await;
    let token = remote.token(Role::Operate).await;
    let done = ask(&format!("http://{}", remote.address), &[], Some(&token), "challenge --mode=replay --json").await;
    assert!(matches!(done.code, 0 | 3), "{}", done.errors);
    let verdict: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(verdict["mode"], Mode::Replay.name());
}
