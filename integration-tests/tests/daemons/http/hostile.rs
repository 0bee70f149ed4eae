//! Clients that send requests that no honest one does.

use std::time::{Duration, Instant};

use assay_api::{ProblemCode, Role, ServerStatus};
use assay_integration_tests::daemon::PATIENCE;
use assay_integration_tests::web::Caller;
use hyper::Method;
use hyper::body::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::serving;

/// How often something is tried that is to become possible.
const NAP: Duration = Duration::from_millis(20);

/// The answer to these bytes until the connection ends.
async fn answer_to(address: std::net::SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // It may be closed before all was sent.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the validator ends it");
    drop(read);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn malformed_requests_end_their_connection_and_nothing_else() {
    let (_validator, address) = serving(&[]).await;
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "x".repeat(64 << 10));
    let many: String = (0..200).map(|number| format!("X-{number}: 1\r\n")).collect();
    let many = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{many}Connection: close\r\n\r\n");
    let two = "POST /api/v1/rounds HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!";
    let both =
        "POST /api/v1/rounds HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\nConnection: close\r\n\r\nhello";
    let hostless = "GET /api/v1/status HTTP/1.1\r\nConnection: close\r\n\r\n";
    let hosts = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    for (request, statuses) in [
        // Bytes beyond the bound may have the answer lost with a reset.
        (long.as_str(), &["431", "400", ""][..]),
        (&many, &["431", "400"]),
        (two, &["400"]),
        (both, &["400"]),
        (hostless, &["400"]),
        (hosts, &["400"]),
        ("\0\0\0\0\r\n\r\n", &["400"]),
        ("GET /%ff%00/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", &["404"]),
    ] {
        let answer = answer_to(address, request.as_bytes()).await;
        let start = request.chars().take(60).collect::<String>();
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(statuses.contains(&status), "{start:?}: {answer}");
    }
    assert_eq!(Caller::at(address).get("/healthz").await.body, "ok\n", "others are served");
}

#[tokio::test]
async fn bodies_are_bounded_and_must_be_what_is_asked_for() {
    let (validator, address) = serving(&[]).await;
    let caller = Caller::of_role(&validator, address, Role::Admin).await;
    let json = caller.clone().with("content-type", "application/json");
    let post = |caller: Caller, path: &'static str, body: Vec<u8>| async move {
        caller.send(Method::POST, path, Bytes::from(body)).await.problem().code
    };
    let tokens = "/api/v1/join-tokens";
    assert_eq!(post(json.clone(), tokens, vec![b' '; 65 << 10]).await, ProblemCode::TooLarge);
    assert_eq!(post(caller.clone(), tokens, b"{}".to_vec()).await, ProblemCode::UnsupportedMediaType);
    let form = caller.clone().with("content-type", "application/x-www-form-urlencoded");
    assert_eq!(post(form, tokens, b"expires_s=1".to_vec()).await, ProblemCode::UnsupportedMediaType);
    assert_eq!(post(json.clone(), tokens, b"{".to_vec()).await, ProblemCode::Malformed);
    assert_eq!(post(json.clone(), tokens, b"{}".to_vec()).await, ProblemCode::Invalid, "a field is missing");
    let unknown = br#"{"expires_s": 60, "labels": {}, "role": "admin"}"#.to_vec();
    assert_eq!(post(json.clone(), tokens, unknown).await, ProblemCode::Invalid, "an unknown field");
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(post(json.clone(), tokens, deep.into_bytes()).await, ProblemCode::Invalid);
    let labels: serde_json::Map<_, _> = (0..33).map(|number| (format!("l{number}"), "1".into())).collect();
    let many = serde_json::json!({ "expires_s": 60, "labels": labels });
    assert_eq!(caller.post(tokens, &many).await.problem().code, ProblemCode::Invalid);
}

#[tokio::test]
async fn paths_and_methods_that_are_none_are_problems() {
    let (validator, address) = serving(&[]).await;
    let caller = Caller::of_role(&validator, address, Role::Admin).await;
    let code = |answer: assay_integration_tests::web::Answer| answer.problem().code;
    for path in ["/api/v1", "/api/v1/", "/api/v2/miners", "/api/v1/minersx", "/api/v1/%2e%2e/status"] {
        assert_eq!(code(caller.get(path).await), ProblemCode::NotFound, "{path}");
    }
    let put = caller.send(Method::PUT, "/api/v1/status", Bytes::new()).await;
    assert!(put.header("allow").is_some_and(|allow| allow.contains("GET")), "{put:?}");
    assert_eq!(code(put), ProblemCode::MethodNotAllowed);
    for (path, expected) in [
        ("/api/v1/miners/zz", ProblemCode::Invalid),
        ("/api/v1/miners/abc", ProblemCode::Invalid),
        ("/api/v1/miners/abcd", ProblemCode::NotFound),
        ("/api/v1/verdicts/%ff%fe", ProblemCode::Invalid),
        ("/api/v1/verdicts/abcdef", ProblemCode::NotFound),
        ("/api/v1/receipts/abcd", ProblemCode::NotFound),
        ("/api/v1/miners?limit=0", ProblemCode::Invalid),
        ("/api/v1/miners?limit=1001", ProblemCode::Invalid),
        ("/api/v1/miners?limit=x", ProblemCode::Invalid),
        ("/api/v1/miners?sort=id", ProblemCode::Invalid),
        ("/api/v1/miners?state=happy", ProblemCode::Invalid),
        ("/api/v1/miners?label=rack", ProblemCode::Invalid),
        ("/api/v1/miners?cursor=nonsense", ProblemCode::Invalid),
        ("/api/v1/verdicts?since=-1", ProblemCode::Invalid),
        ("/api/v1/verdicts?code=nonsense", ProblemCode::Invalid),
        ("/api/v1/events?after=-1", ProblemCode::Invalid),
        ("/api/v1/events?kinds=nonsense", ProblemCode::Invalid),
    ] {
        assert_eq!(code(caller.get(path).await), expected, "{path}");
    }
}

/// A client that keeps connections open keeps no other out, and a connection without a request is closed.
#[tokio::test]
async fn silent_connections_are_closed_and_crowds_are_bounded() {
    let (validator, address) = serving(&[]).await;
    let reader = Caller::of_role(&validator, address, Role::Read).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let mut half = TcpStream::connect(address).await.unwrap();
    half.write_all(b"GET /healthz HTTP/1.1\r\nHost: local").await.unwrap();
    let mut crowd = Vec::new();
    for _ in 0..100 {
        crowd.push(TcpStream::connect(address).await.unwrap());
    }
    let _: ServerStatus = reader.read("/api/v1/status").await;
    drop(crowd);
    for stream in [&mut silent, &mut slow, &mut half] {
        let mut rest = Vec::new();
        // Closed or reset, but not open.
        let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the validator ends it");
    }
    let _: ServerStatus = reader.read("/api/v1/status").await;
}

#[tokio::test]
async fn one_caller_has_so_many_streams_and_no_more() {
    let (validator, address) = serving(&[]).await;
    let reader = Caller::of_role(&validator, address, Role::Read).await;
    let mut streams = Vec::new();
    for _ in 0..32 {
        streams.push(reader.follow("/api/v1/events").await);
    }
    let problem = reader.get("/api/v1/events").await.problem();
    assert_eq!((problem.code, problem.retry_after_s), (ProblemCode::TooManyRequests, Some(10)));
    let other = Caller::of_role(&validator, address, Role::Read).await;
    drop(other.follow("/api/v1/events").await);
    drop(streams);
    // A connection that its client closed is noticed at once.
    let until = Instant::now() + PATIENCE;
    while reader.try_follow("/api/v1/events").await.is_none() {
        assert!(Instant::now() < until, "places are given back");
        tokio::time::sleep(NAP).await;
    }
}
