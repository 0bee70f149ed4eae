//! Proxies that pass bytes on by CONNECT: TLS goes through them from end to end.

use std::ffi::OsString;
use std::net::SocketAddr;

use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A name that only the proxy knows.
const TARGET: &str = "validator.invalid:7400";
/// The header for `user:secret`.
const AUTHORIZATION: &str = "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=";

/// Connects clients that ask for [`TARGET`] with the right password to a validator, and reports the requests.
async fn proxy(validator: SocketAddr) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, validator, asked.clone()));
        }
    });
    (address, requests)
}

async fn serve(mut client: TcpStream, validator: SocketAddr, asked: mpsc::UnboundedSender<String>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let Ok(byte) = client.read_u8().await else { return };
        request.push(byte);
    }
    let request = String::from_utf8(request).expect("a request is a text");
    let answer = if !request.contains(AUTHORIZATION) {
        "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n"
    } else if !request.starts_with(&format!("CONNECT {TARGET} HTTP/1.1\r\n")) {
        "HTTP/1.1 403 Forbidden\r\n\r\n"
    } else {
        "HTTP/1.1 200 Connection established\r\n\r\n"
    };
    let _ = asked.send(request);
    if client.write_all(answer.as_bytes()).await.is_ok() && answer.contains("200") {
        let mut validator = TcpStream::connect(validator).await.unwrap();
        let _ = copy_bidirectional(&mut client, &mut validator).await;
    }
}

fn environment(url: String) -> Vec<(String, OsString)> {
    let none = ["ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"].map(|name| (name.to_owned(), OsString::new()));
    none.into_iter().chain([("HTTPS_PROXY".to_owned(), url.into())]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_passes_through_the_proxy_of_its_environment() {
    let validator = TestValidator::start(&Policy::default()).await;
    let (proxy, mut requests) = proxy(validator.address).await;
    let target = format!("assay://{TARGET}#{}", validator.key);
    let url = format!("http://user:secret@{proxy}");
    let miner = TestMiner::start_at(&target, &[], environment(url));
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, None).await.unwrap().expect_pass();
    assert!(requests.recv().await.unwrap().contains(&format!("Host: {TARGET}\r\n")));
    // This machine is reached without one.
    let local = format!("assay://{}#{}", validator.address, validator.key);
    let direct = TestMiner::start_at(&local, &[], environment("http://127.0.0.1:1".to_owned()));
    validator.wait_for_miner(direct.key, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_refuses_is_named_without_its_password() {
    let validator = TestValidator::start(&Policy::default()).await;
    let (proxy, _requests) = proxy(validator.address).await;
    let started = |target: &str, url: String| {
        TestMiner::start_at(&format!("assay://{target}#{}", validator.key), &[], environment(url))
    };
    let mut miner = started(TARGET, format!("http://{proxy}"));
    let line = miner.daemon.wait_for("asks for a user name and a password").to_string();
    assert!(line.contains(&proxy.to_string()), "{line}");
    let mut miner = started("other.invalid:1", format!("http://user:secret@{proxy}"));
    let line = miner.daemon.wait_for("refuses to connect to other.invalid:1 (403)").to_string();
    assert!(!line.contains("secret"), "{line}");
    let mut miner = started(TARGET, "socks5://user:secret@127.0.0.1:1".to_owned());
    let line = miner.daemon.wait_for("HTTPS_PROXY is no URL of an HTTP proxy").to_string();
    assert!(!line.contains("secret"), "{line}");
    assert_eq!(miner.daemon.wait().code(), Some(78));
}
