//! A real client and a real server over a pipe.

use std::sync::Arc;
use std::time::Duration;

use assay_program::clock::unix_seconds;
use assay_protocol::channel::Channel;
use assay_protocol::identity::Identity;
use assay_protocol::successor::Successor;
use rustls::pki_types::UnixTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::certificate::{CertificateError, Facts, IssuedCertificate, authorities, own};
use crate::client::{SecuredStream, secure};
use crate::failure::TlsFailure;
use crate::provider::channel_of;
use crate::server::ServerTls;
use crate::trust::Trust;
use authority::{Authority, CertificateFiles};

#[path = "../../../../integration-tests/src/authority.rs"]
mod authority;

fn identity(seed: u8) -> Identity {
    Identity::from_seed(&[seed; 32])
}

fn server(seed: u8, issued: Option<IssuedCertificate>) -> ServerTls {
    ServerTls::new(own(&identity(seed), &[]).unwrap(), issued).unwrap()
}

fn issued(files: &CertificateFiles) -> IssuedCertificate {
    IssuedCertificate::load(&files.certificate, &files.key).unwrap()
}

/// A handshake with a server, and the channel that the server sees.
async fn shake(
    server: &ServerTls,
    host: &str,
    trust: &Trust,
) -> (Result<SecuredStream<DuplexStream>, TlsFailure>, Option<Channel>) {
    let (here, there) = duplex(1 << 16);
    let accept = server.accept(there);
    let served = tokio::spawn(async move {
        let mut stream = accept.await.ok()?;
        let channel = channel_of(stream.get_ref().1).unwrap();
        stream.write_all(b"served").await.ok()?;
        stream.flush().await.ok()?;
        Some(channel)
    });
    let mut secured = secure(here, host, trust).await;
    if let Ok(secured) = &mut secured {
        let mut heard = [0; 6];
        secured.stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"served");
    }
    (secured, served.await.unwrap())
}

/// A statement of one key for another.
fn vouch(old: &Identity, new: &Identity, until_unix_seconds: u64) -> Successor {
    Successor::sign(old.public_key(), new.public_key(), until_unix_seconds, |message| old.sign(message))
}

#[tokio::test]
async fn a_pinned_key_is_all_that_a_miner_needs() {
    let server = server(1, None);
    let key = identity(1).public_key();
    let (secured, there) = shake(&server, "validator.example", &Trust::Key(key)).await;
    let secured = secured.unwrap();
    assert_eq!((secured.key, Some(secured.channel)), (Some(key), there));
    let (again, _) = shake(&server, "validator.example", &Trust::Key(key)).await;
    assert_ne!(again.unwrap().channel, secured.channel, "each connection has an exporter of its own");
}

#[tokio::test]
async fn another_key_is_refused_and_ends_the_miner() {
    let (expected, found) = (identity(2).public_key(), identity(1).public_key());
    let failure = shake(&server(1, None), "a", &Trust::Key(expected)).await.0.unwrap_err();
    assert_eq!(failure, TlsFailure::WrongKey { expected, found });
    assert!(failure.needs_operator());
    let text = failure.to_string();
    assert!(text.contains(&found.to_string()) && text.contains("assay-validator address"), "{text}");
}

#[tokio::test]
async fn a_key_that_follows_the_pinned_one_is_accepted_while_its_statement_stands() {
    let (old, new) = (identity(1), identity(2));
    let trust = Trust::Key(old.public_key());
    let statement = |until| vouch(&old, &new, until);
    let presents = |statements: &[Successor]| ServerTls::new(own(&new, statements).unwrap(), None).unwrap();
    let (secured, _) = shake(&presents(&[statement(unix_seconds() + 3600)]), "a", &trust).await;
    assert_eq!(secured.unwrap().key, Some(new.public_key()));
    let forged = Successor { old_key: old.public_key(), ..vouch(&new, &new, u64::MAX) };
    for refused in [vec![], vec![statement(unix_seconds() - 1)], vec![forged]] {
        let failure = shake(&presents(&refused), "a", &trust).await.0.unwrap_err();
        assert!(matches!(failure, TlsFailure::WrongKey { .. }), "{failure}");
    }
}

#[tokio::test]
async fn the_first_use_tells_the_key() {
    let (secured, there) = shake(&server(1, None), "127.0.0.1", &Trust::FirstUse).await;
    let secured = secured.unwrap();
    assert_eq!((secured.key, Some(secured.channel)), (Some(identity(1).public_key()), there));
}

#[tokio::test]
async fn an_authoritys_certificate_is_for_its_names_and_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let trust = Trust::Authorities(Arc::new(authorities(&authority.file(folder.path())).unwrap()));
    let names = ["validator.example", "10.0.0.1", "2001:db8::1"];
    let files = authority.issue(folder.path(), &names, 2099);
    let server = server(1, Some(issued(&files)));
    for host in names {
        let (secured, there) = shake(&server, host, &trust).await;
        let secured = secured.unwrap();
        assert_eq!((secured.key, Some(secured.channel)), (None, there), "{host}");
    }
    let failure = shake(&server, "other.example", &trust).await.0.unwrap_err();
    let said = failure.to_string();
    let expected = "not for other.example, but for \"validator.example\", \"10.0.0.1\", \"2001:";
    assert!(matches!(failure, TlsFailure::WrongName { .. }) && said.contains(expected), "{said}");
    // A certificate that is renewed is presented from then on; an expired one is refused with its date.
    server.set_issued(Some(issued(&authority.issue(folder.path(), &names, 2020))));
    let failure = shake(&server, "10.0.0.1", &trust).await.0.unwrap_err();
    assert!(matches!(failure, TlsFailure::Expired { .. }) && failure.to_string().contains("2020-12-31"), "{failure}");
    assert!(!failure.needs_operator(), "it can be renewed");
    let [time, not_before] = [0, 1_767_225_600].map(|s| UnixTime::since_unix_epoch(Duration::from_secs(s)));
    let early = TlsFailure::from(&rustls::CertificateError::NotValidYetContext { time, not_before });
    assert!(early.to_string().contains("valid only from 2026-01-01 00:00:00 UTC: check"), "{early}");
    server.set_issued(Some(issued(&files)).filter(|_| false));
    let failure = shake(&server, "10.0.0.1", &trust).await.0.unwrap_err();
    assert_ne!(failure, TlsFailure::NotTls, "the validator's own certificate is no authority's: {failure}");
    let stranger = Authority::new().issue(folder.path(), &names, 2099);
    server.set_issued(Some(issued(&stranger)));
    assert_eq!(shake(&server, "10.0.0.1", &trust).await.0.unwrap_err(), TlsFailure::UnknownIssuer);
}

#[tokio::test]
async fn who_pins_the_key_gets_the_validators_own_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let files = Authority::new().issue(folder.path(), &["a"], 2099);
    let key = identity(1).public_key();
    let (secured, _) = shake(&server(1, Some(issued(&files))), "a", &Trust::Key(key)).await;
    assert_eq!(secured.unwrap().key, Some(key));
}

#[tokio::test]
async fn a_relay_has_two_channels() {
    let (validator, relay) = (server(1, None), server(3, None));
    let (of_miner, at_relay) = shake(&relay, "a", &Trust::FirstUse).await;
    let (of_relay, at_validator) = shake(&validator, "a", &Trust::FirstUse).await;
    let (of_miner, of_relay) = (of_miner.unwrap().channel, of_relay.unwrap().channel);
    assert_eq!((Some(of_miner), Some(of_relay)), (at_relay, at_validator));
    assert_ne!(Some(of_miner), at_validator);
}

#[tokio::test]
async fn what_does_not_speak_tls_is_named() {
    for (answer, expected) in [
        (&[0, 0, 18, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 128][..], TlsFailure::NotTls),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", TlsFailure::NotTls),
        // Alerts: handshake_failure, protocol_version, no_application_protocol.
        (&[21, 3, 3, 0, 2, 2, 40], TlsFailure::NotOwn),
        (&[21, 3, 3, 0, 2, 2, 70], TlsFailure::NothingInCommon),
        (&[21, 3, 3, 0, 2, 2, 120], TlsFailure::NotHttp2),
    ] {
        let (here, mut there) = duplex(1 << 16);
        there.write_all(answer).await.unwrap();
        let failure = secure(here, "a", &Trust::FirstUse).await.unwrap_err();
        assert_eq!(failure, expected);
    }
    let (here, there) = duplex(1 << 16);
    drop(there);
    assert!(matches!(secure(here, "a", &Trust::FirstUse).await, Err(TlsFailure::Closed(_))));
}

#[test]
fn certificate_files_are_checked_when_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = authority.issue(folder.path(), &["a"], 2099);
    let read = issued(&files);
    // rcgen's first moment is in 1975.
    assert_eq!((read.names, read.valid_unix_seconds), (vec!["a".to_owned()], 157_766_400..=4_102_358_400));
    let problem = |certificate: &std::path::Path, key: &std::path::Path| match IssuedCertificate::load(certificate, key)
    {
        Err(error @ (CertificateError::Content { .. } | CertificateError::File { .. })) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let CertificateFiles { certificate, key } = &files;
    assert!(problem(&folder.path().join("none"), key).contains("none"));
    assert!(problem(key, key).contains("no certificate in PEM"));
    assert!(problem(certificate, certificate).contains("no private key in PEM"));
    assert!(problem(folder.path(), key).contains("no regular file"));
    let elsewhere = tempfile::tempdir().unwrap();
    let other = authority.issue(elsewhere.path(), &["a"], 2099);
    assert!(problem(certificate, &other.key).contains("is not the key of the first certificate"));
    let certificate_text = std::fs::read(certificate).unwrap();
    std::fs::write(certificate, certificate_text.repeat(9)).unwrap();
    assert!(problem(certificate, key).contains("9 certificates, at most 8"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&other.key, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(problem(&other.certificate, &other.key).contains("mode 644"));
    }
}

#[test]
fn malformed_certificates_say_nothing() {
    let certificate = own(&identity(1), &[vouch(&identity(1), &identity(2), 9)]).unwrap();
    let der = certificate.cert[0].to_vec();
    let facts = Facts::of(&der).unwrap();
    assert_eq!((facts.key, facts.successors.len()), (Some(identity(1).public_key()), 1));
    for end in 0..der.len() {
        assert_eq!(Facts::of(&der[..end]), None);
    }
    assert_eq!(Facts::of(&[&der[..], &[0]].concat()), None, "trailing bytes");
    // A change of any byte causes no panic.
    for at in 0..der.len() {
        let mut changed = der.clone();
        changed[at] ^= 0x55;
        let _ = Facts::of(&changed);
    }
}
