//! TLS, and who may do without, by curl.

use std::process::{Command, Output};

use assay_integration_tests::authority::Authority;
use assay_integration_tests::daemon::{Daemon, program};
use assay_integration_tests::web::Caller;
use assay_protocol::identity::Identity;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use super::serving;

/// The bytes before the 32 of an Ed25519 key where a certificate names it (RFC 8410).
const ED25519_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

async fn curl(arguments: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "60"]).args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    output.expect("curl starts: scripts/test installs it")
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The validator's own certificate, for clients that pin its key, over both versions of HTTP.
#[tokio::test]
async fn the_key_of_the_validator_is_what_a_client_can_pin() {
    let (validator, address) = serving(&[]).await;
    let pin = |key: [u8; 32]| {
        let digest = Sha256::digest([&ED25519_PREFIX[..], &key].concat());
        format!("--pinnedpubkey=sha256//{}", BASE64_STANDARD.encode(digest)).replacen('=', " ", 1)
    };
    let url = format!("https://{address}/healthz");
    for version in ["--http1.1", "--http2"] {
        let pinned = pin(validator.key.0);
        let (flag, value) = pinned.split_once(' ').unwrap();
        let format = ["--write-out", "%{http_version}"];
        let answer = printed(&curl(&[&["--insecure", flag, value, version, &url][..], &format].concat()).await);
        assert_eq!(answer, if version == "--http2" { "ok\n2" } else { "ok\n1.1" });
    }
    let other = pin([7; 32]);
    let (flag, value) = other.split_once(' ').unwrap();
    let refused = curl(&["--insecure", flag, value, &url]).await;
    assert_eq!(refused.status.code(), Some(90), "another key: {refused:?}");
    let plain = printed(&curl(&["--include", &format!("http://{address}/healthz")]).await).to_ascii_lowercase();
    assert!(plain.ends_with("\r\n\r\nok\n"), "this machine may do without: {plain}");
    assert!(!plain.contains("strict-transport-security"), "{plain}");
}

/// A certificate of an authority is presented to browsers and other clients that pin nothing, and a reload replaces it.
#[tokio::test]
async fn the_certificate_of_an_authority_is_presented_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let roots = authority.file(folder.path()).display().to_string();
    let files = authority.issue(folder.path(), &["api.example", "127.0.0.1"], 2099);
    let flags = [format!("--tls-cert={}", files.certificate.display()), format!("--tls-key={}", files.key.display())];
    let (validator, address) = serving(&[&flags[0], &flags[1]]).await;
    let resolve = format!("api.example:{}:127.0.0.1", address.port());
    let url = format!("https://api.example:{}/healthz", address.port());
    let ask = ["--cacert", &roots, "--resolve", &resolve, &url];
    assert_eq!(printed(&curl(&ask).await), "ok\n", "a name of the certificate is a name of the validator");
    let headers = printed(&curl(&[&["--include"], &ask[..]].concat()).await).to_ascii_lowercase();
    assert!(headers.contains("strict-transport-security: max-age=31536000"), "{headers}");
    let none = curl(&["--resolve", &resolve, &url]).await;
    assert_eq!(none.status.code(), Some(60), "an authority that nobody trusts: {none:?}");
    let _ = authority.issue(folder.path(), &["other.example"], 2099);
    let reloaded = Caller::at_socket(&validator).post("/api/v1/reload", &()).await.expect(200);
    assert!(String::from_utf8_lossy(&reloaded.body).contains("tls_cert"));
    // Regression test: a parameter that says to change nothing was ignored.
    let tried = Caller::at_socket(&validator).post("/api/v1/reload?dry_run=true", &()).await.problem();
    assert_eq!(tried.code, assay_api::ProblemCode::Invalid);
    let refused = curl(&ask).await;
    assert_eq!(refused.status.code(), Some(60), "it is another one's now: {refused:?}");
}

/// A validator in a network of its own, with an address that is not loopback, and two requests from there.
const SCRIPT: &str = r#"
ip link set lo up
ip addr add 10.77.0.1/32 dev lo
"$VALIDATOR" serve --listen=127.0.0.1:7400 --http-listen=0.0.0.0:7480 --key-file="$FOLDER/validator.key" \
  --control-socket="$FOLDER/control.sock" --backend=cpu --cpu-memory=8MiB --challenge-on-connect=false &
until curl --silent --unix-socket "$FOLDER/control.sock" http://validator/healthz >"$FOLDER/up"; do sleep 0.05; done
echo "plaintext: $(curl --silent --max-time 60 --write-out ' %{http_code}' http://10.77.0.1:7480/healthz)" >&2
echo "encrypted: $(curl --silent --max-time 60 --insecure https://10.77.0.1:7480/healthz)" >&2
echo "this machine: $(curl --silent --max-time 60 http://127.0.0.1:7480/healthz)" >&2
wait
"#;

#[test]
fn another_machine_is_served_by_tls_alone() {
    let folder = tempfile::tempdir().unwrap();
    let _ = Identity::load_or_create(&folder.path().join("validator.key")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", SCRIPT]);
    command.env("VALIDATOR", program("assay-validator")).env("FOLDER", folder.path());
    let mut daemons = Daemon::spawn(&mut command);
    let refused = daemons.wait_for("plaintext: ").to_string();
    assert!(refused.contains("plaintext from another machine is refused"), "{refused}");
    assert!(daemons.wait_for("426").to_string().contains("426"));
    assert!(daemons.wait_for("encrypted: ").to_string().contains("ok"));
    assert!(daemons.wait_for("this machine: ").to_string().contains("ok"));
}
