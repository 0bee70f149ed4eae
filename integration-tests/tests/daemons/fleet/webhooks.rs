//! Webhooks: a real HTTP server that is down and comes back, validators that are killed, and the examples of
//! docs/api.md, which check the messages.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use assay_integration_tests::authority::Authority;
use assay_integration_tests::daemon::{self, Daemon, PATIENCE};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::postgres::Postgres;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::Mode;
use assay_records::{Actor, EventKind, EventRecord, Location, NewWebhook, Records};
use assay_webhook::SigningSecret;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::operator::Said;

const PAGE: &str = include_str!("../../../../docs/api.md");
const NAP: Duration = Duration::from_millis(20);

/// A Python of the tests: no packages are needed.
fn python() -> Command {
    let python =
        std::env::var_os("ASSAY_PYTHON").expect("ASSAY_PYTHON is not set: run scripts/test, or set it to a Python");
    Command::new(python)
}

/// A request that the receiver had.
#[derive(Debug, Clone)]
struct Request {
    id: String,
    headers: Value,
    text: String,
    body: Value,
    answer: String,
}

/// A server in another process.
struct Receiver {
    folder: TempDir,
    url: String,
    daemon: Daemon,
    tls: Vec<String>,
}

impl Receiver {
    fn start(tls: Vec<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("answer"), "204").unwrap();
        let (daemon, url) = serve(folder.path(), "0", &tls);
        Self { folder, url, daemon, tls }
    }

    fn answer(&self, answer: &str) {
        // Replaced whole: it is read at any time.
        let new = self.folder.path().join("answer.new");
        fs::write(&new, answer).unwrap();
        fs::rename(new, self.folder.path().join("answer")).unwrap();
    }

    /// Ends it, as a crash does.
    fn kill(&mut self) {
        self.daemon.kill();
        self.daemon.wait();
    }

    /// Starts it again on its port.
    fn resume(&mut self) {
        let port = self.url.rsplit(':').next().unwrap().to_owned();
        (self.daemon, self.url) = serve(self.folder.path(), &port, &self.tls);
    }

    fn requests(&self) -> Vec<Request> {
        let text = fs::read_to_string(self.folder.path().join("requests")).unwrap_or_default();
        // A line may be half written.
        let read = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let request = |line: Value| {
            let text = line["body"].as_str().unwrap().to_owned();
            Request {
                id: line["headers"]["webhook-id"].as_str().unwrap().to_owned(),
                body: serde_json::from_str(&text).unwrap(),
                headers: line["headers"].clone(),
                answer: line["answer"].as_str().unwrap().to_owned(),
                text,
            }
        };
        read.map(request).collect()
    }

    /// The requests, once these fit.
    async fn wait_for(&self, what: &str, fit: impl Fn(&[Request]) -> bool) -> Vec<Request> {
        let until = Instant::now() + PATIENCE;
        loop {
            let requests = self.requests();
            if fit(&requests) {
                return requests;
            }
            assert!(Instant::now() < until, "{what}: {requests:#?}");
            tokio::time::sleep(NAP).await;
        }
    }
}

fn serve(folder: &Path, port: &str, tls: &[String]) -> (Daemon, String) {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/daemons/fleet/webhooks/receiver.py");
    let mut command = python();
    command.arg(script).arg(folder).arg(port).args(tls);
    let mut daemon = Daemon::spawn(&mut command);
    let line = daemon.wait_for("listening on ");
    let url = line.as_str().and_then(|line| line.strip_prefix("listening on ")).expect("its address").to_owned();
    (daemon, url)
}

/// Adds a webhook past the validator, which finds it; gives its id and its secret.
async fn add(records: &Records, url: &str, kinds: &[EventKind]) -> (String, SigningSecret) {
    let secret = SigningSecret::random().unwrap();
    let webhook = NewWebhook {
        url: format!("{url}/hook?token=hunter2"),
        target: url.to_owned(),
        kinds: kinds.to_vec(),
        secret: secret.bytes().to_vec(),
    };
    let added = records.add_webhook(&webhook, &Actor::validator()).await.expect("the records answer");
    (added.id, secret)
}

async fn records(validator: &TestValidator) -> Records {
    Records::open(&Location::File(validator.file("validator.db"))).await.expect("the records")
}

/// The example of the page in a language.
fn example(language: &str) -> &'static str {
    let fence = format!("```{language}\n");
    PAGE.split_once(&fence).and_then(|(_, rest)| rest.split_once("```")).expect("an example").0
}

/// The verdicts of the page's examples on requests: whether each is accepted.
fn verified(folder: &Path, secret: &SigningSecret, requests: &[(Value, String)]) -> [Vec<bool>; 2] {
    let ask: Vec<_> = requests.iter().map(|(headers, body)| json!({ "headers": headers, "body": body })).collect();
    let ask = json!({ "secret": secret.text(), "requests": ask }).to_string();
    let python_tail = "import json, sys\nasked = json.load(sys.stdin)\ndef good(request):\n    try:\n        \
        verify(asked['secret'], request['headers'], request['body'].encode())\n        return True\n    \
        except ValueError:\n        return False\nprint(json.dumps([good(request) for request in asked['requests']]))\n";
    let node_tail = "import { readFileSync } from \"node:fs\";\nconst asked = JSON.parse(readFileSync(0));\n\
        const good = ({ headers, body }) => { try { verify(asked.secret, headers, Buffer.from(body)); return true; } \
        catch { return false; } };\nconsole.log(JSON.stringify(asked.requests.map(good)));\n";
    let (python_file, node_file) = (folder.join("check.py"), folder.join("check.mjs"));
    fs::write(&python_file, format!("{}\n{python_tail}", example("python"))).unwrap();
    fs::write(&node_file, format!("{}\n{node_tail}", example("js"))).unwrap();
    let mut node = Command::new("node");
    [run(python().arg(python_file), &ask), run(node.arg(node_file), &ask)]
}

fn run(command: &mut Command, input: &str) -> Vec<bool> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}");
    serde_json::from_slice(&output.stdout).expect("a list")
}

/// Requests in the order of their numbers, and one that is repeated is the same to the byte.
fn expect_order(requests: &[Request]) {
    let mut known: BTreeMap<&str, &Request> = BTreeMap::new();
    let mut last = 0;
    for request in requests {
        let sequence = request.body["sequence"].as_i64().unwrap();
        assert_eq!(request.body["id"], request.id.as_str());
        match known.insert(&request.id, request) {
            Some(before) => assert_eq!(before.text, request.text),
            None => assert!(sequence > last, "{sequence} after {last}"),
        }
        last = last.max(sequence);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_is_signed_and_the_examples_of_the_page_check_it() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let issued = authority.issue(folder.path(), &["localhost"], 4000);
    let tls = [&issued.certificate, &issued.key].map(|path| path.display().to_string()).to_vec();
    let receiver = Receiver::start(tls);
    // Its authority is added while the validator runs.
    let trusted = ("SSL_CERT_FILE".to_owned(), Authority::new().file(folder.path()).into_os_string());
    let mut validator = TestValidator::start(&Policy { environment: vec![trusted], ..Policy::default() }).await;
    let records = records(&validator).await;
    let (_, secret) = add(&records, &receiver.url, &[EventKind::Verdict, EventKind::State]).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    validator.daemon.wait_for("name a file with it in SSL_CERT_FILE");
    authority.file(folder.path());
    let requests = receiver.wait_for("a verdict and a change of state", |requests| requests.len() >= 2).await;
    let kinds: Vec<_> = requests.iter().map(|request| request.body["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["verdict", "state"], "and nothing else");
    let verdict = &requests[0].body;
    assert_eq!((&verdict["verdict"]["outcome"], &verdict["data"]["outcome"]), (&"pass".into(), &"pass".into()));
    assert_eq!(verdict["verdict"]["miner_key"], miner.key.to_string());
    assert_eq!(verdict["receipt"].as_str().map(|token| token.split('.').count()), Some(3));
    assert_eq!(requests[1].body["data"]["to"], "passing");
    let Request { headers, text, .. } = &requests[0];
    let mut late = headers.clone();
    late["webhook-timestamp"] = "1614265330".into();
    late["webhook-signature"] = secret.sign(&requests[0].id, 1_614_265_330, text.as_bytes()).into();
    let mut another = headers.clone();
    another["webhook-id"] = "another".into();
    let asked = [
        (headers.clone(), text.clone()),
        (requests[1].headers.clone(), requests[1].text.clone()),
        (headers.clone(), text.replace("pass", "fail")),
        (another, text.clone()),
        (late, text.clone()),
    ];
    for found in verified(folder.path(), &secret, &asked) {
        assert_eq!(found, [true, true, false, false, false]);
    }
    let other = SigningSecret::random().unwrap();
    for found in verified(folder.path(), &other, &asked[..1]) {
        assert_eq!(found, [false]);
    }
}

/// The receiver does not answer, the validator is killed, the receiver is killed: each event still comes, in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_was_down_has_every_event_though_the_validator_was_killed() {
    let mut receiver = Receiver::start(Vec::new());
    let mut validator = TestValidator::start(&Policy::default()).await;
    let records = records(&validator).await;
    let first = records.last_event().await.unwrap() + 1;
    let (id, _) = add(&records, &receiver.url, &[]).await;
    receiver.wait_for("the first event", |requests| !requests.is_empty()).await;
    receiver.answer("hang");
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let hung = receiver.wait_for("a request without an answer", |r| r.iter().any(|r| r.answer == "hang")).await;
    let hung = hung.into_iter().find(|request| request.answer == "hang").unwrap();
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    // In mid-delivery.
    validator.daemon.kill();
    receiver.kill();
    validator.restart().await;
    validator.wait_for_miner(miner.key, true).await;
    validator.daemon.wait_for("the webhook failed, another attempt follows: cannot connect");
    receiver.answer("204");
    receiver.resume();
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    let last = records.last_event().await.unwrap();
    let has_all = |requests: &[Request]| requests.iter().any(|request| request.body["sequence"] == last);
    let requests = receiver.wait_for("the last event", has_all).await;
    expect_order(&requests);
    let taken: Vec<_> = requests.iter().filter(|request| request.answer == "204").collect();
    let mut sequences: Vec<_> = taken.iter().map(|request| request.body["sequence"].as_i64().unwrap()).collect();
    sequences.dedup();
    // Events that came after the last one was read are not compared.
    sequences.retain(|sequence| *sequence <= last);
    assert!(sequences.iter().copied().eq(first..=last), "each one and in order: {sequences:?} of {first} to {last}");
    assert!(taken.iter().any(|request| request.id == hung.id), "what hung came again");
    let verdicts = taken.iter().filter(|request| request.body["type"] == "verdict").count();
    assert!(verdicts >= 2, "{verdicts}");
    assert!(!validator.daemon.log().iter().any(|line| line.contains("hunter2")), "no secrets in the log");
    let webhook = records.webhook(&id).await.unwrap().unwrap();
    assert_eq!((webhook.disabled_ms, webhook.delivery.skipped), (None, 0));
}

/// Validators that share their records send each event once; when the one that sends is lost, another one goes on.
#[tokio::test(flavor = "multi_thread")]
async fn another_validator_goes_on_when_the_one_that_sends_is_lost() {
    let database = Postgres::shared().database();
    let records = Records::open(&database.location()).await.expect("the records");
    let receiver = Receiver::start(Vec::new());
    let policy = Policy { flags: vec![format!("--records={}", database.url())], ..Policy::default() };
    let mut validators = [TestValidator::start(&policy).await, TestValidator::start(&policy).await];
    // Each reports that it serves, a moment after it does.
    let until = Instant::now() + PATIENCE;
    let serving = |events: &[EventRecord]| events.iter().filter(|event| event.kind() == EventKind::Health).count();
    while serving(&records.events(0, 100).await.unwrap()) < validators.len() {
        assert!(Instant::now() < until, "both serve");
        tokio::time::sleep(NAP).await;
    }
    let first = records.last_event().await.unwrap() + 1;
    let (id, _) = add(&records, &receiver.url, &[]).await;
    let subject = format!("webhook:{id}");
    let until = Instant::now() + PATIENCE;
    let holder = loop {
        let leases = records.leases(None, PATIENCE).await.unwrap();
        if let Some(lease) = leases.into_iter().find(|lease| lease.subject == subject) {
            break lease.holder;
        }
        assert!(Instant::now() < until, "one of them takes the lease");
        tokio::time::sleep(NAP).await;
    };
    let all = records.validators().await.unwrap();
    let sender = all.iter().find(|validator| validator.instance == holder).unwrap().key.clone();
    let (lost, other) = validators.iter_mut().partition::<Vec<_>, _>(|validator| validator.key.to_string() == sender);
    let (lost, other) = (lost.into_iter().next().unwrap(), other.into_iter().next().unwrap());
    // Events of the validator that does not send.
    let miner = TestMiner::start(other.address, 1, &[]);
    other.wait_for_miner(miner.key, true).await;
    other.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    let last = records.last_event().await.unwrap();
    let has = |last: i64| move |requests: &[Request]| requests.iter().any(|request| request.body["sequence"] == last);
    let requests = receiver.wait_for("the other validator's events", has(last)).await;
    let sequences: Vec<_> = requests.iter().map(|request| request.body["sequence"].as_i64().unwrap()).collect();
    // More may have happened meanwhile.
    let until_last = sequences.iter().copied().take_while(|sequence| *sequence <= last);
    assert!(until_last.eq(first..=last), "each once: {sequences:?} of {first} to {last}");
    lost.daemon.kill();
    other.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    let last = records.last_event().await.unwrap();
    let requests = receiver.wait_for("events after the sender was lost", has(last)).await;
    expect_order(&requests);
    let mut sequences: Vec<_> = requests.iter().map(|request| request.body["sequence"].as_i64().unwrap()).collect();
    sequences.sort_unstable();
    sequences.dedup();
    assert!(sequences.into_iter().eq(first..=last));
}

/// Runs a command of several words.
fn operate(validator: &TestValidator, words: &str) -> Said {
    let socket = format!("--control-socket={}", validator.socket.display());
    let Output { status, stdout, stderr } = daemon::run("assay-validator", words.split(' ').chain([socket.as_str()]));
    let text = |bytes| String::from_utf8(bytes).expect("programs print text");
    Said { code: status.code().expect("it ends by itself"), out: text(stdout), errors: text(stderr) }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_add_test_list_and_remove_a_webhook() {
    let validator = TestValidator::start(&Policy::default()).await;
    let mut receiver = Receiver::start(Vec::new());
    let refused = operate(&validator, "webhook add http://169.254.169.254/latest");
    assert!(refused.code == 64 && refused.errors.contains("metadata"), "{}", refused.errors);
    let added = operate(&validator, &format!("webhook add {}/hook --kind miner_connected", receiver.url));
    assert_eq!(added.code, 0, "{}", added.errors);
    // The secret alone, so that it can go into a file.
    let secret: SigningSecret = added.out.trim_end().parse().unwrap_or_else(|_| panic!("no secret: {}", added.out));
    let listed = operate(&validator, "webhook list --json");
    let listed: Value = serde_json::from_str(&listed.out).unwrap_or_else(|error| panic!("{error}: {}", listed.errors));
    assert_eq!(listed[0]["kinds"], json!(["miner_connected"]));
    assert!(!listed.to_string().contains(added.out.trim_end()), "a secret is shown once");
    let id = &listed[0]["id"].as_str().unwrap()[..8];
    let tested = operate(&validator, &format!("webhook test {id}"));
    assert!(tested.code == 0 && tested.out.contains("took the message: HTTP status 204"), "{}", tested.errors);
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let came = |requests: &[Request]| requests.iter().any(|request| request.body["type"] == "miner_connected");
    let requests = receiver.wait_for("what happened", came).await;
    assert_eq!(requests[0].body["type"], "test");
    drop(secret);
    receiver.kill();
    let failed = operate(&validator, &format!("webhook test {id}"));
    assert!(failed.code != 0 && failed.errors.contains("does not take it"), "{}", failed.errors);
    let removed = operate(&validator, &format!("webhook remove {id}"));
    assert!(removed.code == 0 && removed.out.contains("nothing more is sent to"), "{}", removed.errors);
    assert_eq!(operate(&validator, "webhook list").out.trim_end(), "there is no webhook");
    assert_eq!(operate(&validator, &format!("webhook remove {id}")).code, 2);
}

/// A receiver that never answers holds up neither a verdict nor, for long, the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_never_answers_holds_nothing_up() {
    const VERDICTS: usize = 6;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut validator = TestValidator::start(&Policy::default()).await;
    let added = operate(&validator, &format!("webhook add http://{}/hook", listener.local_addr().unwrap()));
    assert_eq!(added.code, 0, "{}", added.errors);
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    // More verdicts than attempts can end meanwhile: one that waited would come after its attempt.
    for _ in 0..VERDICTS {
        validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    }
    let failed = validator.daemon.log().iter().filter(|line| line.contains("another attempt follows")).count();
    assert!(failed < VERDICTS, "{failed} attempts were waited for");
    validator.daemon.terminate();
    validator.daemon.wait_for("ends before a webhook had all events");
    assert_eq!(validator.daemon.wait().code(), Some(0));
}
