//! A validator with pages, and what lets one in to them: asked for over its control socket.

use assay_integration_tests::validator::{Policy, TestValidator};
use assay_records::Role;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Starts one that serves pages on a port that the system chooses.
pub async fn start() -> TestValidator {
    let flags = vec!["--http-listen=127.0.0.1:0".to_owned()];
    TestValidator::start(&Policy { flags, ..Policy::default() }).await
}

/// An address that signs a browser in, once.
pub async fn login_url(validator: &TestValidator, role: Role) -> String {
    let made = post(validator, "login-codes", &json!({ "role": role })).await;
    made["url"].as_str().unwrap_or_else(|| panic!("no page is served: {made}")).to_owned()
}

/// A token of the API.
pub async fn token(validator: &TestValidator, role: Role) -> String {
    let made = post(validator, "tokens", &json!({ "role": role, "name": "browser", "expires_s": 600 })).await;
    made["token"].as_str().unwrap_or_else(|| panic!("no token: {made}")).to_owned()
}

async fn post(validator: &TestValidator, what: &str, body: &Value) -> Value {
    let mut stream = UnixStream::connect(&validator.socket).await.expect("the validator serves its socket");
    let body = body.to_string();
    let request = format!(
        "POST /api/v1/{what} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("the validator reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the validator answers");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
    assert!(head.starts_with("HTTP/1.1 201"), "{answer}");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}
