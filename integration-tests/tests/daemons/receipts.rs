//! Receipts of a real verdict, checked by those who only have the validator's public keys: the command, and the
//! programs of docs/receipts.md in Python and Node, as the page has them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assay_api::{BeginChallenge, ProblemCode};
use assay_integration_tests::daemon::{Daemon, program, run};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, Ruling, SLOW_KERNEL, TestValidator};
use assay_integration_tests::web::Caller;
use assay_protocol::verdict::{Mode, Outcome, Reason, ReasonCode, Verdict};
use assay_receipts::{EatNonce, STATE_PASSING, Signer, Subject, read_trusted};
use assay_webhook::SigningSecret;
use assay_work::PublicKey;
use serde_json::{Value, json};

const NONCE: &str = "00112233445566778899aabbccddeeff";
const OTHER_NONCE: &str = "10112233445566778899aabbccddeeff";

/// A real receipt, and a folder as a renter has it: `receipt.jwt` and `keys.json`.
struct Renter {
    validator: TestValidator,
    ruling: Ruling,
    token: String,
    folder: tempfile::TempDir,
}

impl Renter {
    async fn new() -> Self {
        let (validator, miner) = TestMiner::with_validator(&Policy::showing_memory(), 1, &[SLOW_KERNEL]).await;
        let request = BeginChallenge {
            miner: Some(miner.key.to_string()),
            mode: Some(Mode::Audit),
            eat_nonce: Some(NONCE.into()),
            ..BeginChallenge::default()
        };
        let malformed = BeginChallenge { eat_nonce: Some("too short".into()), ..request.clone() };
        let refused = validator.run(malformed).await.unwrap_err();
        let is_invalid = refused.code() == Some(ProblemCode::Invalid);
        assert!(is_invalid && refused.to_string().contains("eat_nonce"), "{refused}");
        let ruling = validator.run(request).await.unwrap();
        ruling.expect_pass();
        let token = ruling.verdict.receipt.clone().expect("a verdict has a receipt");
        let renter = Self { validator, ruling, token, folder: tempfile::tempdir().unwrap() };
        let keys = renter.command(&["receipt", "keys", &renter.key_file()]);
        assert!(keys.status.success(), "{keys:?}");
        fs::write(renter.file("keys.json"), keys.stdout).unwrap();
        renter.present(&renter.token);
        renter
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn key_file(&self) -> String {
        format!("--key-file={}", self.validator.file("validator.key").display())
    }

    /// Puts a receipt where the checks read it.
    fn present(&self, token: &str) {
        fs::write(self.file("receipt.jwt"), format!("{token}\n")).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program("assay-validator"));
        command.args(arguments).current_dir(self.folder.path()).output().unwrap()
    }

    fn verify(&self, nonce: &str) -> (Option<i32>, Value) {
        let arguments = ["receipt", "verify", "receipt.jwt", "--keys=keys.json", "--json", "--nonce", nonce];
        let Output { status, stdout, .. } = self.command(&arguments);
        (status.code(), serde_json::from_slice(&stdout).unwrap())
    }

    /// The receipt that the validator would issue of the same verdict, at another time.
    fn issued_at(&self, now_s: u64) -> String {
        self.issued(now_s, |_| ())
    }

    /// The same of an edited verdict.
    fn issued(&self, now_s: u64, edit: impl FnOnce(&mut Verdict)) -> String {
        let mut verdict = Verdict::try_from(self.ruling.verdict.clone()).unwrap();
        edit(&mut verdict);
        let nonce: EatNonce = NONCE.parse().unwrap();
        let policy_ids = read_trusted(&self.token).unwrap().submods.host.ear_appraisal_policy_ids;
        let subject = Subject {
            verdict: &verdict,
            challenge_nonce: None,
            is_recognised: false,
            state: STATE_PASSING,
            group: "default",
            policy_id: &policy_ids[0],
            eat_nonce: Some(&nonce),
            findings: &[],
            lifetime_s: 60,
            now_s,
        };
        Signer::open(&self.validator.file("receipt.key"), "test").unwrap().issue(&subject).unwrap().token
    }

    /// The receipt with an outcome that it does not have, under the same signature.
    fn tampered(&self) -> String {
        use base64::Engine;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let [head, claims, signature] = self.token.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
        let claims = String::from_utf8(URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
        let more = claims.replacen("\"tops\":0.", "\"tops\":9.", 1);
        assert_ne!(more, claims);
        format!("{head}.{}.{signature}", URL_SAFE_NO_PAD.encode(more))
    }
}

/// The program in a block of the page.
fn on_the_page(language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/receipts.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, block) = page.split_once(&format!("<!-- {language} -->\n```")).expect("the page has the program");
    let (_, program) = block.split_once('\n').unwrap();
    program.split_once("\n```").unwrap().0.to_owned()
}

/// Runs the page's program against a presented receipt: whether it accepts, and its output.
fn accepts(renter: &Renter, language: &str, nonce: &str) -> (bool, String) {
    accepts_of(renter, language, [nonce, &hex::encode(&renter.ruling.verdict.miner_key), "1"])
}

/// The same for a nonce, a miner and the least bytes.
fn accepts_of(renter: &Renter, language: &str, asked: [&str; 3]) -> (bool, String) {
    let program = match language {
        "python" => std::env::var_os("ASSAY_PYTHON").expect("ASSAY_PYTHON is not set: run scripts/test"),
        _ => "node".into(),
    };
    let flag = if language == "python" { "-c" } else { "-e" };
    let mut command = Command::new(program);
    command.arg(flag).arg(on_the_page(language));
    if language == "node" {
        // The rest of the arguments are the program's.
        command.arg("node");
    }
    let output = command.args(asked).current_dir(renter.folder.path()).output().expect("it starts: run scripts/test");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renter_checks_a_receipt_with_public_keys_alone() {
    let mut renter = Renter::new().await;
    // No server has to be asked.
    renter.validator.daemon.terminate();
    renter.validator.daemon.wait();
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let (code, shown) = renter.verify(NONCE);
    let claims = &shown["claims"];
    assert_eq!(
        (code, &shown["valid"], claims["ear_status"].as_str()),
        (Some(0), &Value::Bool(true), Some("affirming"))
    );
    assert_eq!(claims["eat_nonce"], NONCE);
    let host = &claims["submods"]["host"];
    assert_eq!(host["ear_verifier_claims"]["challenge_id"], hex::encode(&renter.ruling.verdict.challenge_id));
    assert!(host["eat_nonce"].is_string(), "the challenge's nonce: {host}");
    assert_eq!(claims["iss"], renter.validator.key.to_string());
    let verify = |asked: &[&str]| {
        let verified = renter.command(&[&["receipt", "verify", "receipt.jwt", "--keys", "keys.json"], asked].concat());
        (verified.status.code(), String::from_utf8(verified.stdout).unwrap())
    };
    let (_, text) = verify(&[]);
    assert!(text.starts_with("VALID  affirming: ") && text.contains("Not proven: "), "{text}");
    assert_eq!(verify(&["--min-gib", "1"]).0, Some(65));
    // Regression test: a fail, which proves no memory, was refused as if it were another host's.
    let failed = renter.issued(now_s, |verdict| {
        verdict.outcome = Outcome::Fail;
        verdict.reasons = vec![Reason::new(ReasonCode::ProbeLate, "")];
    });
    renter.present(&failed);
    let (code, text) = verify(&["--min-gib", "1"]);
    assert!(code == Some(1) && text.starts_with("VALID  contraindicated: "), "{text}");
    renter.present(&renter.token);
    for language in ["python", "node"] {
        assert_eq!(accepts(&renter, language, NONCE), (true, String::new()), "{language}");
        let miner = hex::encode(&renter.ruling.verdict.miner_key);
        let bytes = (renter.ruling.verdict.whole.as_ref().unwrap().bytes_held + 1).to_string();
        for asked in [[OTHER_NONCE, &miner, "1"], [NONCE, &"7b".repeat(32), "1"], [NONCE, &miner, &bytes]] {
            let (accepted, said) = accepts_of(&renter, language, asked);
            assert!(!accepted && said.is_empty(), "{language}: {asked:?}: {said}");
        }
    }
    assert_eq!(
        (renter.verify(OTHER_NONCE).0, &renter.verify(OTHER_NONCE).1["code"]),
        (Some(65), &"other_nonce".into())
    );
    for (token, code, said) in [
        (renter.tampered(), "signature", ["InvalidSignatureError", "forged, altered or expired"]),
        (renter.issued_at(now_s - 7200), "expired", ["ExpiredSignatureError", "forged, altered or expired"]),
    ] {
        renter.present(&token);
        let (exit, shown) = renter.verify(NONCE);
        assert_eq!((exit, &shown["valid"], &shown["code"]), (Some(65), &Value::Bool(false), &code.into()), "{shown}");
        for (language, said) in ["python", "node"].into_iter().zip(said) {
            let (accepted, found) = accepts(&renter, language, NONCE);
            assert!(!accepted && found.contains(said), "{language}: {found}");
        }
    }
    // The expired receipt failed by its time alone: one made in the same way for now is accepted.
    renter.present(&renter.issued_at(now_s));
    assert!(accepts(&renter, "python", NONCE).0 && accepts(&renter, "node", NONCE).0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_receipts_are_compared() {
    let renter = Renter::new().await;
    // Of a year ago: it has expired, and states what was.
    let before = renter.issued_at(1_764_000_000);
    let less = renter.issued_at(1_764_000_060);
    let compare = |after: &str| {
        let output = renter.command(&["receipt", "compare", &before, after, "--keys=keys.json", "--json"]);
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), shown, String::from_utf8(output.stderr).unwrap())
    };
    let (code, shown, _) = compare("receipt.jwt");
    assert_eq!((code, &shown["result"], &shown["same_key"]), (Some(0), &"same".into(), &true.into()), "{shown:#}");
    assert_eq!(shown["after"]["miner_key"], hex::encode(&renter.ruling.verdict.miner_key));
    let (code, shown, _) = compare(&renter.issued(1_764_000_060, |verdict| {
        verdict.devices[0].work.bytes_held /= 2;
    }));
    assert_eq!((code, &shown["result"]), (Some(1), &"worse".into()), "{shown:#}");
    let worse: Vec<_> = shown["rows"].as_array().unwrap().iter().filter(|row| row["result"] == "worse").collect();
    assert_eq!((worse.len(), &worse[0]["item"]), (1, &"memory_bytes".into()), "{worse:?}");
    let (code, _, said) = compare(&renter.tampered());
    assert!(code == Some(65) && said.contains("the receipt after is refused: the signature does not hold"), "{said}");
    let verify = ["receipt", "verify", &before, "--keys=keys.json"];
    assert_eq!(renter.command(&verify).status.code(), Some(65), "it has expired");
    assert!(renter.command(&[&verify[..], &["--past"]].concat()).status.success());
    let compared = ["receipt", "compare", &before, &less, "--keys=keys.json", "--nonce"];
    let text = renter.command(&[&compared[..], &[NONCE]].concat());
    let other = renter.command(&[&compared[..], &[OTHER_NONCE]].concat());
    assert_eq!(other.status.code(), Some(65), "{other:?}");
    assert!(text.status.success() && text.stdout.starts_with(b"SAME  nothing is worse"), "{text:?}");
}

/// Sends a webhook's message, signed with this secret; gives the status line of the answer.
fn posted(address: &str, secret: &SigningSecret, message: &Value) -> String {
    let (body, now_s) = (message.to_string(), assay_program::clock::unix_seconds());
    let signature = secret.sign("id-1", now_s, body.as_bytes());
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\nwebhook-id: id-1\r\nwebhook-timestamp: {now_s}\r\n\
         webhook-signature: {signature}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_marketplace_takes_a_worse_host_off_its_list() {
    let renter = Renter::new().await;
    let secret = SigningSecret::random().unwrap();
    fs::write(renter.file("secret"), secret.text()).unwrap();
    let mut example = Command::new(std::env::var_os("ASSAY_PYTHON").expect("run scripts/test"));
    example.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/marketplace.py"));
    example.args(["--secret-file=secret", "--keys=keys.json", "--folder=listed", "--port=0", "--program"]);
    let mut example = Daemon::spawn(example.arg(program("assay-validator")).current_dir(renter.folder.path()));
    let line = example.wait_for("listening on ");
    let address = line.as_str().and_then(|line| line.strip_prefix("listening on http://")).unwrap();
    let miner = hex::encode(&renter.ruling.verdict.miner_key);
    let message = |token: &str| json!({ "type": "verdict", "miner": miner, "data": {}, "receipt": token });
    let other = SigningSecret::random().unwrap();
    assert!(posted(address, &other, &message(&renter.token)).contains("401"));
    for token in [&renter.tampered(), &renter.token, &renter.token] {
        assert!(posted(address, &secret, &message(token)).contains("204"));
    }
    example.wait_for(&format!("{miner} is listed"));
    let now_s = assay_program::clock::unix_seconds();
    assert!(
        posted(
            address,
            &secret,
            &message(&renter.issued(now_s, |verdict| {
                verdict.devices[0].work.bytes_held /= 2;
            }))
        )
        .contains("204")
    );
    example.wait_for(&format!("{miner} is off the list: memory_bytes"));
    assert!(renter.file(&format!("listed/{miner}.off")).exists());
    // Neither a new key of a host nor a receipt that speaks against it keeps it on the list.
    let renewed = renter.issued(now_s, |verdict| verdict.miner_key = PublicKey([7; 32]));
    let failed = renter.issued(now_s, |verdict| verdict.outcome = Outcome::Fail);
    for (host, token, why) in [("aa", renewed, "its receipts cannot be compared"), ("bb", failed, "a receipt speaks")] {
        for token in [&renter.token, &token] {
            let message = json!({ "type": "verdict", "miner": host, "data": {}, "receipt": token });
            assert!(posted(address, &secret, &message).contains("204"));
        }
        example.wait_for(&format!("{host} is off the list: {why}"));
    }
    // Nor silence: no receipt would come any more.
    let state = |to: &str| json!({ "type": "state", "miner": "cc", "data": { "to": to } });
    let listed = json!({ "type": "verdict", "miner": "cc", "data": {}, "receipt": renter.token });
    for message in [&listed, &state("suspect"), &state("expired")] {
        assert!(posted(address, &secret, message).contains("204"));
    }
    example.wait_for("cc is off the list: it is expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_month_is_reported_from_its_receipts() {
    let renter = Renter::new().await;
    let miner = hex::encode(&renter.ruling.verdict.miner_key);
    let claims = read_trusted(&renter.token).unwrap();
    let month = assay_program::utc::text(claims.iat)[..7].to_owned();
    let page = renter.file("report.html");
    let html = format!("--html={}", page.display());
    let report = operator(&renter.validator, &["report", "--miner", &miner, "--month", &month, "--json", &html]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["days_proven"], &report["receipts"]["affirming"]), (&1.into(), &1.into()), "{report:#}");
    let bytes = renter.ruling.verdict.whole.as_ref().unwrap().bytes_held;
    assert_eq!(report["bytes"]["least"], json!({ "value": bytes, "receipt": claims.jti }));
    assert_eq!((&report["keys"][0]["key"], &report["refused"]), (&miner.as_str().into(), &json!({})));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("Proof of compute, {month}")) && page.contains(&claims.jti));
    assert!(!page.contains("src=") && !page.contains("href="), "it needs nothing beside it");
    // Without a validator, from lines as an export has them and a bare token; what is forged is not counted.
    // Another host's receipt is no receipt of this one, though its row says so.
    let other = renter.issued(claims.iat, |verdict| verdict.miner_key = PublicKey([7; 32]));
    let row = |token: &str| json!({ "token": token, "miner": miner }).to_string();
    let lines = [row(&renter.token), row(&other), renter.tampered()].join("\n");
    fs::write(renter.file("receipts.jsonl"), lines).unwrap();
    let offline =
        ["report", "--miner", &miner, "--receipts=receipts.jsonl", "--keys=keys.json", "--month", &month, "--json"];
    let offline = renter.command(&offline);
    let offline: Value = serde_json::from_slice(&offline.stdout).unwrap();
    assert_eq!((&offline["bytes"], &offline["refused"]), (&report["bytes"], &json!({ "signature": 1 })));
    let both = ["report", "--miner", &miner, "--miner=07070707", "--receipts=receipts.jsonl", "--keys=keys.json"];
    let both = renter.command(&[&both[..], &["--month", &month, "--json"]].concat());
    let both: Value = serde_json::from_slice(&both.stdout).unwrap();
    assert_eq!((&offline["receipts"]["affirming"], &both["receipts"]["affirming"]), (&1.into(), &2.into()));
    for (arguments, code, said) in [
        (&["--miner", "abcd", "--month", "2026-13"][..], 64, "no month"),
        (&["--miner", "abcd", "--month", "2199-01"], 64, "it has not begun"),
        (&["--month", "2026-11"], 64, "--miner"),
        (
            &["--miner", "abcd", "--month", "1999-01", "--receipts=a", "--keys=absent.json"],
            74,
            "cannot read absent.json",
        ),
        (&["--miner", "0000", "--month", "2026-11", "--receipts=receipts.jsonl", "--keys=keys.json"], 2, "no receipt"),
    ] {
        let output = renter.command(&[&["report"], arguments].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && stderr.contains(said), "{arguments:?}: {stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_shows_the_receipt_of_its_last_verdict() {
    let (validator, mut miner) = TestMiner::with_validator(&Policy::default(), 1, &[]).await;
    let key_file = format!("--key-file={}", miner.file("miner.key").display());
    let shown = || run("assay-miner", ["receipt", &key_file]);
    let Output { status, stderr, .. } = shown();
    let said = String::from_utf8(stderr).unwrap();
    assert!(status.code() == Some(2) && said.contains("no verdict came with a receipt yet"), "{said}");
    for _ in 0..2 {
        let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
        // The miner has said so in its log, and before that kept the receipt.
        miner.daemon.wait_for("verdict: pass");
        let Output { status, stdout, .. } = shown();
        assert!(status.success());
        assert_eq!(String::from_utf8(stdout).unwrap().trim_end(), ruling.verdict.receipt.unwrap());
    }
}

/// Runs a command of the validator's operator, which must end well; gives its output.
fn operator(validator: &TestValidator, arguments: &[&str]) -> String {
    let key_file = format!("--key-file={}", validator.file("validator.key").display());
    let socket = format!("--control-socket={}", validator.socket.display());
    let output = run("assay-validator", arguments.iter().copied().chain([key_file.as_str(), socket.as_str()]));
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// The result of a check of a token with this set: the code of the refusal, or the id of the receipt.
fn checked(validator: &TestValidator, token: &str, set: &str) -> Result<String, String> {
    let keys = validator.file("keys.json");
    fs::write(&keys, set).unwrap();
    let keys = format!("--keys={}", keys.display());
    let output = run("assay-validator", ["receipt", "verify", token, "--json", &keys]);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    if shown["valid"] == true { Ok(text(&shown["claims"]["jti"])) } else { Err(text(&shown["code"])) }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_takes_receipts_and_replaces_their_key() {
    let (validator, _miner) = TestMiner::with_validator(&Policy::showing_memory(), 1, &[SLOW_KERNEL]).await;
    let file = validator.file("receipt.jwt");
    let take = || {
        let file = file.display().to_string();
        operator(&validator, &["challenge", "--mode=audit", "--eat-nonce", NONCE, "--receipt", &file]);
        let token = fs::read_to_string(&file).unwrap();
        // On a line of its own, so that a file of several can be made of them.
        token.strip_suffix('\n').unwrap().to_owned()
    };
    let old = take();
    let set = operator(&validator, &["receipt", "keys"]);
    let id = checked(&validator, &old, &set).unwrap();
    // From the records: by the receipt's id, and by the challenge's.
    let shown: Value = serde_json::from_str(&operator(&validator, &["receipt", &id, "--json"])).unwrap();
    let challenge = shown["claims"]["submods"]["host"]["ear_verifier_claims"]["challenge_id"].as_str().unwrap();
    assert_eq!((&shown["token"], &shown["nonce"]), (&old.as_str().into(), &NONCE.into()));
    assert_eq!(operator(&validator, &["receipt", challenge, "--token"]), old);
    assert!(operator(&validator, &["receipt", &id[..12]]).starts_with("affirming: "));
    // The running validator takes the new key at once; receipts of both can be checked.
    let rotated: Value =
        serde_json::from_str(&operator(&validator, &["receipt", "rotate", "--overlap=30d", "--json"])).unwrap();
    assert_eq!((&rotated["old_key_id"], &rotated["in_force"]), (&shown["key_id"], &true.into()));
    let new = take();
    let both = operator(&validator, &["receipt", "keys"]);
    assert_eq!(checked(&validator, &new, &set), Err("unknown_key".into()));
    assert!(checked(&validator, &old, &both).is_ok() && checked(&validator, &new, &both).is_ok());
    let shown: Value =
        serde_json::from_str(&operator(&validator, &["receipt", &checked(&validator, &new, &both).unwrap(), "--json"]))
            .unwrap();
    assert_eq!(shown["key_id"], rotated["key_id"]);
    operator(&validator, &["receipt", "rotate", "--overlap=0"]);
    let none = operator(&validator, &["receipt", "keys"]);
    let published: Value = Caller::at_socket(&validator).read("/.well-known/jwks.json").await;
    assert_eq!(published, serde_json::from_str::<Value>(&none).unwrap(), "the running validator gave it up too");
    assert_eq!(
        [&old, &new].map(|token| checked(&validator, token, &none)),
        [Err("unknown_key".into()), Err("unknown_key".into())]
    );
}
