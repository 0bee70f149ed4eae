//! A peer's words come to the log as a text in quotes, and no part of them passes for a field of the log.

use assay_integration_tests::daemon::Daemon;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::raw::{RawMiner, encoded, hello, proof};
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::message::{Hello, MinerMessage, RefusedCode, StopCode, ValidatorMessage};
use assay_protocol::wire::codec::session_server;
use assay_protocol::wire::v1::session_request::Message;
use assay_protocol::wire::v1::session_service_server::SessionService;
use assay_protocol::wire::v1::{SessionRequest, SessionResponse, session_response};
use prost::Message as _;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

use super::conversation::identity;

/// Printable, and written to look like the rest of a line of the log.
const HOSTILE: &str = r#"x" devices=9 miner=0000 session=77 y=""#;
/// Written so that a terminal would do something, or show nothing.
const HIDDEN: [&str; 7] = ["\u{61c}", "\u{200b}", "\u{2060}", "\u{e000}", "\u{a0}", "\u{3164}", "\u{1b}[2J"];

/// A line of the log in text, without the parts in quotes.
fn outside_quotes(line: &str) -> String {
    let (mut out, mut is_quoted, mut is_escaped) = (String::new(), false, false);
    for c in line.chars() {
        match c {
            '"' if !is_escaped => is_quoted = !is_quoted,
            c if !is_quoted => out.push(c),
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    assert!(!is_quoted, "quotes end: {line}");
    out
}

/// The words of a line's text that look like fields, and the line's own fields that a peer would like to write.
fn imitated(line: &Value) -> usize {
    let text = match line {
        Value::String(line) => outside_quotes(line),
        line => outside_quotes(line["message"].as_str().unwrap_or_default()),
    };
    ["devices=9", "miner=0000", "session=77", "y="].into_iter().filter(|field| text.contains(field)).count()
}

/// The same, where the text is a whole line of standard error.
fn line(daemon: &mut Daemon, part: &str) -> Value {
    let line = daemon.wait_for(part);
    let text = line.to_string();
    assert!(!text.contains(['\u{1b}', '\u{61c}', '\u{200b}', '\u{e000}']) && !text.contains("\\u001b"), "{text}");
    line
}

async fn connected(validator: &TestValidator, agent: &str) -> (RawMiner, Option<ValidatorMessage>) {
    let hello = Hello { agent: "x".repeat(agent.len()), ..hello(&identity()) };
    let mut request = SessionRequest::from(MinerMessage::Hello(hello.clone()));
    let Some(Message::Hello(written)) = &mut request.message else { unreachable!("it is a hello") };
    agent.clone_into(&mut written.agent);
    let mut miner = RawMiner::open(validator.address, request.encode_to_vec()).await.unwrap();
    let mut answer = miner.hear().await;
    if let Some(ValidatorMessage::Welcome(welcome)) = &answer {
        miner.say(proof(&hello, welcome, &identity())).await;
        answer = miner.hear().await;
    }
    (miner, answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miners_texts_in_the_validators_log() {
    for format in ["human", "json"] {
        let flags = vec![format!("--log-format={format}")];
        let mut validator = TestValidator::start(&Policy { flags, ..Policy::default() }).await;
        let (miner, answer) = connected(&validator, HOSTILE).await;
        assert!(matches!(answer, Some(ValidatorMessage::Accepted(_))), "{answer:?}");
        let entry = line(&mut validator.daemon, "miner connected");
        assert_eq!(imitated(&entry), 0, "{entry}");
        match &entry {
            Value::String(text) => assert!(text.contains(r#"agent="x\" devices=9 "#), "{text}"),
            entry => assert_eq!((&entry["agent"], &entry["devices"]), (&HOSTILE.into(), &0.into())),
        }
        miner.say(encoded(MinerMessage::Goodbye(StopCode::Busy, HOSTILE.into()))).await;
        let entry = line(&mut validator.daemon, "miner left");
        assert_eq!(imitated(&entry), 0, "{entry}");
        assert!(entry.to_string().contains("devices=9"), "it is there, in quotes: {entry}");
        for hidden in HIDDEN {
            let (_, answer) = connected(&validator, &format!("agent {hidden}x")).await;
            let is_refused = matches!(&answer, Some(ValidatorMessage::Refused { code: RefusedCode::Malformed, detail, .. }) if detail.starts_with("Hello.agent: "));
            assert!(is_refused, "{hidden:?}: {answer:?}");
            line(&mut validator.daemon, "no session");
        }
    }
}

type Answer = fn() -> Result<SessionResponse, Status>;

/// A validator that has nothing to say but this.
struct Answers(Answer);

#[tonic::async_trait]
impl SessionService for Answers {
    type SessionStream = tokio_stream::Iter<std::vec::IntoIter<Result<SessionResponse, Status>>>;

    async fn session(&self, _: Request<Streaming<SessionRequest>>) -> Result<Response<Self::SessionStream>, Status> {
        Ok(Response::new(tokio_stream::iter(vec![(self.0)()])))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validators_texts_in_the_miners_log() {
    let refusal = || {
        Ok(ValidatorMessage::Refused { code: RefusedCode::Version, detail: HOSTILE.into(), retry_after: None }.into())
    };
    let goodbye = || Ok(ValidatorMessage::Goodbye(StopCode::Busy, HOSTILE.into()).into());
    let broken = || Err(Status::internal(format!("{HOSTILE}{}", HIDDEN.concat())));
    let hidden = || {
        let goodbye = assay_protocol::wire::v1::Goodbye { code: 1, detail: HIDDEN.concat() };
        Ok(SessionResponse { message: Some(session_response::Message::Goodbye(goodbye)) })
    };
    let cases: [(&str, Answer); 4] = [
        ("refused this miner", refusal),
        ("ended the session", goodbye),
        ("the stream broke", broken),
        ("not printable", hidden),
    ];
    for (part, answer) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tonic::transport::Server::builder().add_service(session_server(Answers(answer)));
        let server = tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        for format in ["--log-format=human", "--log-format=json"] {
            let mut miner = TestMiner::start(address, 1, &[format]);
            let entry = line(&mut miner.daemon, part);
            assert_eq!(imitated(&entry), 0, "{entry}");
        }
        server.abort();
    }
}
