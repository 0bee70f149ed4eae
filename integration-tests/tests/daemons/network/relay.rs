//! A relay that ends TLS between a miner and a validator has no session, unless both operators say that it is theirs.

use assay_integration_tests::authority::Authority;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::raw::{hello, transcript};
use assay_integration_tests::relay::{Relay, Upstream};
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_miner::connection::open;
use assay_miner::http2;
use assay_protocol::identity::Identity;
use assay_protocol::message::{MinerMessage, RefusedCode, ValidatorMessage};
use assay_transport::client::{SecuredStream, secure};
use assay_transport::trust::Trust;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

const ENDS_TLS: &str = "something between miner and validator ends TLS";

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_is_refused_by_the_miner_whatever_it_trusts() {
    let validator = TestValidator::start(&Policy::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = authority.issue(folder.path(), &["127.0.0.1"], 2099);
    let relay = Relay::start(validator.address, Upstream::Tls(validator.key), Some(&files)).await;
    let target = format!("assay://{}", relay.address);
    // An authority that was deceived, and a first use of the relay's own key.
    let trusts = format!("--validator-ca={}", authority.file(folder.path()).display());
    let token = format!("assay-join-{}", "5a".repeat(32));
    for flag in [&trusts[..], "--trust-on-first-use"] {
        let has_token = vec![("ASSAY_MINER_JOIN_TOKEN".to_owned(), token.clone().into())];
        let mut miner = TestMiner::start_at(&target, &[flag], has_token);
        // Again and again: it may be gone the next time.
        for _ in 0..2 {
            let line = miner.daemon.wait_for(ENDS_TLS).to_string();
            assert!(line.contains("Remove it") && line.contains("tls_proxy"), "{line}");
        }
        assert!(!miner.file("known_validators").exists(), "a relay's key is not kept");
        assert!(validator.miners().await.iter().all(|connected| connected.miner_key != miner.key));
        assert!(relay.saw(&miner.key.0) && !relay.saw(token.as_bytes()), "the hello is there, and no token");
    }
}

/// The validator's answer to a miner that takes every welcome, at the other end of a relay.
async fn refusal(relay: &Relay) -> (RefusedCode, String) {
    let stream = TcpStream::connect(relay.address).await.unwrap();
    let SecuredStream { stream, channel, .. } = secure(stream, "127.0.0.1", &Trust::FirstUse).await.unwrap();
    let http = http2::connect("validator", true, stream).await.unwrap();
    let identity = Identity::from_seed(&[7; 32]);
    let hello = hello(&identity);
    let (say, queue) = mpsc::channel(4);
    say.send(MinerMessage::Hello(hello.clone())).await.unwrap();
    let mut heard = Box::pin(open(http, ReceiverStream::new(queue)));
    let Some(Ok(ValidatorMessage::Welcome(welcome))) = heard.next().await else { panic!("no welcome") };
    let transcript = transcript(&hello, &welcome, channel);
    assert!(transcript.check_welcome(&welcome.signature).is_err(), "the welcome was for another connection");
    say.send(MinerMessage::Proof(identity.sign(&transcript.proof_message()), None)).await.unwrap();
    match heard.next().await {
        Some(Ok(ValidatorMessage::Refused { code, detail, .. })) => (code, detail),
        other => panic!("no refusal but {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_is_refused_by_the_validator_too() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let relay = Relay::start(validator.address, Upstream::Tls(validator.key), None).await;
    let (code, detail) = refusal(&relay).await;
    assert!(code == RefusedCode::Signature && detail.contains(ENDS_TLS), "{detail}");
    validator.daemon.wait_for(ENDS_TLS);
    assert!(validator.miners().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_of_the_operators_passes_with_the_flag_on_both_sides_alone() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = authority.issue(folder.path(), &["127.0.0.1"], 2099);
    let trusts = format!("--validator-ca={}", authority.file(folder.path()).display());
    let with_flag = Policy { flags: vec!["--tls-proxy".to_owned()], ..Policy::default() };
    for (policy, miners_flag, expected) in [
        (&with_flag, Some("--tls-proxy"), None),
        (&with_flag, None, Some("tls_proxy is set on the other side and not on this one")),
        (&Policy::default(), Some("--tls-proxy"), Some("tls_proxy is set on this side and not on the other one")),
        (&Policy::default(), None, Some(ENDS_TLS)),
    ] {
        let validator = TestValidator::start(policy).await;
        let proxy = Relay::start(validator.address, Upstream::Plaintext, Some(&files)).await;
        let flags: Vec<_> = [Some(&trusts[..]), miners_flag].into_iter().flatten().collect();
        let mut miner = TestMiner::start_at(&format!("assay://{}", proxy.address), &flags, Vec::new());
        match expected {
            Some(sentence) => drop(miner.daemon.wait_for(sentence)),
            None => {
                validator.wait_for_miner(miner.key, true).await;
                validator.challenge(miner.key, None).await.unwrap().expect_pass();
            }
        }
    }
}
