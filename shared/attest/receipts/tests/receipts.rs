//! Receipts as they are issued and checked: statements, refusals, and changes of keys.

use std::path::Path;
use std::time::Duration;

use assay_protocol::identity::Identity;
use assay_protocol::verdict::{
    Bound, DeviceWork, HIDING_RULE, Hiding, Mode, NamedDevice, Outcome, Reason, ReasonCode, UnchallengedDevice,
    Verdict, Work, outcome_of,
};
use assay_receipts::{
    Claims, EatNonce, KeySet, MAX_TOKEN_BYTES, Receipt, ReceiptError, ReceiptExpectations, STATE_PASSING, Signer,
    SignerError, Subject, SubjectFinding, Tier, device_label, key_id, key_set_file, verify,
};
use assay_work::{ChallengeId, DeviceId, Nonce, PublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::{Value, json};

#[path = "receipts/keys.rs"]
mod keys;

const NOW: u64 = 1_900_000_000;
const DAY_S: u64 = 86_400;
const RENTERS: &str = "00112233445566778899aabbccddeeff";

/// A signer with a key of its own.
struct Issuer {
    folder: tempfile::TempDir,
    signer: Signer,
}

impl Issuer {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let signer = Signer::open(&folder.path().join("receipt.key"), "assay-validator/0.0.0").unwrap();
        Self { folder, signer }
    }

    fn key_file(&self) -> std::path::PathBuf {
        self.folder.path().join("receipt.key")
    }

    fn identity(&self) -> Identity {
        Identity::load_or_create(&self.key_file()).unwrap()
    }

    /// A token with this header and these claims, signed by the issuer's key.
    fn signed(&self, header: &Value, claims: &str) -> String {
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.identity().sign(message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.0))
    }

    fn header(&self) -> Value {
        json!({ "alg": "EdDSA", "typ": "eat+jwt", "kid": key_id(&self.identity().public_key()) })
    }

    fn pass(&self) -> Receipt {
        self.signer.issue(&subject(&verdict(Vec::new()))).unwrap()
    }
}

fn device(number: u8) -> DeviceWork {
    let work = Work {
        matrices: 1200,
        bytes_held: 80_000_000_123,
        multiply_accumulates: 659_706_976_665_600,
        seconds: 1.1,
        tops: 1_199.467_23,
        probe_bytes: 1 << 30,
        probe_seconds: 0.01,
        probe_gb_per_s: 107.374_182_4,
        samples: 128,
        segments: 32,
        claimed_seconds: Some(1.0),
    };
    let hiding = Hiding {
        rate_per_s: 6e14,
        rate_is_shown_only: true,
        computed: 0.01,
        over_buses: 0.02,
        share: 0.030_000_000_04,
        rule: HIDING_RULE,
        ..Hiding::default()
    };
    let name = format!("NVIDIA H200 \"{number}\"");
    DeviceWork {
        device_id: DeviceId([number; 16]),
        name,
        work,
        claimed_telemetry: None,
        sweep: None,
        rates: Vec::new(),
        hiding: Some(hiding),
    }
}

fn verdict(reasons: Vec<Reason>) -> Verdict {
    let devices = vec![device(1), device(2)];
    let keys = (PublicKey([6; 32]), PublicKey([7; 32]));
    Verdict {
        mode: Some(Mode::Audit),
        n: 8192,
        iterations: 2,
        iterations_checked: 2,
        whole: devices[0].work.clone(),
        devices,
        work_bounds: vec![Bound { fraction: 0.01, log2_probability: -1.855_999_999_96 }],
        iteration_bounds: vec![Bound { fraction: 0.05, log2_probability: f64::NEG_INFINITY }],
        round_trip_ms: Some(0.2),
        recent_challenges: 1,
        ..Verdict::without_work(ChallengeId([5; 16]), keys.0, keys.1, reasons, NOW - 3)
    }
}

fn subject(verdict: &Verdict) -> Subject<'_> {
    Subject {
        verdict,
        challenge_nonce: Some(Nonce([9; 32])),
        is_recognised: true,
        state: STATE_PASSING,
        group: "default",
        policy_id: "default:0123456789abcdef",
        eat_nonce: None,
        findings: &[],
        lifetime_s: DAY_S,
        now_s: NOW,
    }
}

fn check(issuer: &Issuer, token: &str) -> Result<Claims, ReceiptError> {
    verify(token, &issuer.signer.key_set(NOW), &ReceiptExpectations { now_s: NOW, ..ReceiptExpectations::default() })
}

fn stated(issuer: &Issuer, subject: &Subject<'_>) -> Claims {
    check(issuer, &issuer.signer.issue(subject).unwrap().token).unwrap()
}

#[test]
fn a_pass_states_what_the_work_shows() {
    let issuer = Issuer::new();
    let receipt = issuer.pass();
    let claims = check(&issuer, &receipt.token).unwrap();
    assert_eq!((&claims.jti, claims.iat, claims.exp), (&receipt.id, NOW, NOW + DAY_S));
    assert_eq!((receipt.issued_s, receipt.expires_s, receipt.id.len()), (NOW, NOW + DAY_S, 32));
    assert_eq!((claims.iss, claims.sub, claims.ear_status), (PublicKey([7; 32]), PublicKey([6; 32]), Tier::Affirming));
    let host = &claims.submods.host;
    assert_eq!(host.eat_nonce.as_ref().unwrap().as_str(), URL_SAFE_NO_PAD.encode([9; 32]));
    let found = &host.ear_verifier_claims;
    assert_eq!(
        (found.outcome.as_str(), found.mode.as_deref(), found.state.as_str()),
        ("pass", Some("audit"), "passing")
    );
    let soundness = found.soundness.as_ref().unwrap();
    // A bound may only be rounded up, and no probability is stated as 0.
    assert_eq!(soundness.work[0].log2_probability_at_most, -1.855_999_999);
    assert_eq!(soundness.iterations[0].log2_probability_at_most, -1e6);
    let device = &claims.submods.devices[&device_label(DeviceId([1; 16]))];
    let proven = device.ear_verifier_claims.proven.unwrap();
    assert_eq!((proven.bytes, proven.tops, proven.gb_per_s), (80_000_000_123, 1_199.467_23, 107.374_182_4));
    assert_eq!(device.ear_verifier_claims.hidden_share_at_most, Some(0.030_000_001));
    assert_eq!(device.ear_attester_claims.as_ref().unwrap().claimed_model, "NVIDIA H200 \"1\"");
    // The vector carries the status, for readers who look at nothing else.
    let json = serde_json::to_value(&claims).unwrap();
    assert_eq!(json["submods"]["host"]["ear_trustworthiness_vector"], json!({ "instance-identity": 2, "hardware": 2 }));
    let label = device_label(DeviceId([1; 16]));
    assert_eq!(json["submods"][&label]["ear_trustworthiness_vector"], json!({ "hardware": 2 }));
    assert_eq!(json["submods"]["host"]["ear_appraisal_policy_ids"], json!(["default:0123456789abcdef"]));
    assert_eq!(json["eat_profile"], "tag:ietf.org,2026:rats/ear#04");
    assert!(json["submods"][&label]["ear_verifier_claims"].to_string().find("H200").is_none());
}

#[test]
fn a_model_is_in_no_other_place_than_the_claims_of_the_miner() {
    let issuer = Issuer::new();
    let mut json = serde_json::to_value(check(&issuer, &issuer.pass().token).unwrap()).unwrap();
    for number in [1, 2] {
        let submodule = &mut json["submods"][device_label(DeviceId([number; 16]))];
        assert!(submodule["ear_attester_claims"].take().to_string().contains("H200"));
    }
    assert!(!json.to_string().contains("H200"), "{json}");
}

#[test]
fn what_speaks_against_a_pass_is_in_its_status() {
    let issuer = Issuer::new();
    let pass = verdict(Vec::new());
    let quarantined = stated(&issuer, &Subject { state: "quarantined", ..subject(&pass) });
    assert_eq!(quarantined.ear_status, Tier::Warning);
    assert_eq!(quarantined.submods.host.ear_trustworthiness_vector.hardware, 32);
    let mut without_memory = pass.clone();
    without_memory.whole.bytes_held = 0;
    assert_eq!(stated(&issuer, &subject(&without_memory)).ear_status, Tier::Warning, "no memory was shown");
    let finding = |enforced| SubjectFinding {
        code: "too_fast".into(),
        enforced,
        device_id: Some(DeviceId([1; 16])),
        detail: "three times the model's rate".into(),
    };
    let (shadow, enforced) = ([finding(false)], [finding(true)]);
    let shadowed = stated(&issuer, &Subject { findings: &shadow, ..subject(&pass) });
    assert_eq!((shadowed.ear_status, shadowed.submods.host.ear_verifier_claims.findings.len()), (Tier::Affirming, 1));
    let found = stated(&issuer, &Subject { findings: &enforced, ..subject(&pass) });
    let status = |number: u8| found.submods.devices[&device_label(DeviceId([number; 16]))].ear_status;
    assert_eq!((found.ear_status, status(1), status(2)), (Tier::Contraindicated, Tier::Contraindicated, Tier::None));
    let hardware = |number: u8| found.submods.devices[&device_label(DeviceId([number; 16]))].ear_trustworthiness_vector;
    assert_eq!((hardware(1).hardware, hardware(2).hardware), (96, 0));
    let unknown = stated(&issuer, &Subject { is_recognised: false, ..subject(&pass) });
    assert_eq!(unknown.submods.host.ear_trustworthiness_vector.instance_identity, Some(0));
}

#[test]
fn a_failure_names_its_devices_and_proves_nothing() {
    let issuer = Issuer::new();
    let reason = Reason::on_device(ReasonCode::AuditElement, DeviceId([2; 16]), "row 3, column 4");
    let failed = verdict(vec![reason]);
    let claims = stated(&issuer, &subject(&failed));
    let status = |number: u8| claims.submods.devices[&device_label(DeviceId([number; 16]))].ear_status;
    assert_eq!((claims.ear_status, status(1), status(2)), (Tier::Contraindicated, Tier::None, Tier::Contraindicated));
    let found = &claims.submods.host.ear_verifier_claims;
    assert_eq!((found.reasons[0].code.as_str(), found.reasons[0].class.as_str()), ("audit_element", "forged"));
    let json = serde_json::to_string(&claims).unwrap();
    assert!(!json.contains("proven") && !json.contains("soundness") && !json.contains("hidden"), "{json}");
    let forged = verdict(vec![Reason::new(ReasonCode::CommitmentSignature, "")]);
    let vector = stated(&issuer, &subject(&forged)).submods.host.ear_trustworthiness_vector;
    assert_eq!(vector.instance_identity, Some(99), "AR4SI: the cryptographic check failed");
}

/// Results that held stay proven where only another device is missing, but the receipt affirms nothing.
#[test]
fn a_missing_device_leaves_figures_and_no_affirmation() {
    let issuer = Issuer::new();
    let missing = verdict(vec![Reason::on_device(ReasonCode::DeviceMissing, DeviceId([3; 16]), "gone")]);
    let claims = stated(&issuer, &subject(&missing));
    assert_eq!(claims.ear_status, Tier::None);
    assert!(claims.submods.host.ear_verifier_claims.proven.is_some());
}

#[test]
fn the_largest_receipt_is_below_the_bound() {
    let issuer = Issuer::new();
    let name = "\"".repeat(128);
    let reasons: Vec<_> = (0..=255)
        .map(|i| Reason::on_device(ReasonCode::AbandonedRepeatedly, DeviceId([i; 16]), "\\".repeat(1024)))
        .collect();
    let named = |i| NamedDevice { device_id: DeviceId([i; 16]), name: name.clone() };
    // Figures are in it where the work held, long reasons where it did not.
    for reasons in [reasons, vec![Reason::new(ReasonCode::DeviceMissing, "\"".repeat(1024))]] {
        let count = reasons.len() as u64;
        let largest = Verdict {
            devices: (0..64).map(|i| DeviceWork { name: name.clone(), ..device(i) }).collect(),
            work_bounds: vec![Bound { fraction: 0.123_456_789, log2_probability: -123_456.123_456_789 }; 16],
            not_challenged: (0..64)
                .map(|i| UnchallengedDevice { device_id: DeviceId([i; 16]), name: name.clone(), slots: 1 })
                .collect(),
            missing_devices: (0..64).map(named).collect(),
            ..verdict(reasons)
        };
        let finding =
            SubjectFinding { code: "c".repeat(99), enforced: false, device_id: None, detail: "\"".repeat(9999) };
        let (findings, nonce) = (vec![finding; 300], EatNonce::of_bytes(&[1; 64]).unwrap());
        let state = "s".repeat(999);
        let subject =
            Subject { findings: &findings, eat_nonce: Some(&nonce), state: &state, group: &state, ..subject(&largest) };
        let token = issuer.signer.issue(&subject).unwrap().token;
        assert!(token.len() <= MAX_TOKEN_BYTES / 3 * 2, "{}", token.len());
        let found = check(&issuer, &token).unwrap().submods.host.ear_verifier_claims;
        assert_eq!(found.reasons.len() as u64 + found.reasons_left_out, count);
        assert_eq!((found.findings.len(), found.findings_left_out), (16, 284));
    }
}

#[test]
fn every_altered_byte_is_refused() {
    let issuer = Issuer::new();
    let token = issuer.pass().token;
    check(&issuer, &token).unwrap();
    let keys = issuer.signer.key_set(NOW);
    let expect = ReceiptExpectations { now_s: NOW, ..ReceiptExpectations::default() };
    for at in 0..token.len() {
        // The next character of the alphabet differs in the lowest bit first, which the last character does not use.
        for with in [b'A', b'B', b'_', b'.', b'=', token.as_bytes()[at] ^ 1, token.as_bytes()[at] ^ 0x20] {
            let mut altered = token.clone().into_bytes();
            altered[at] = with;
            let Ok(altered) = String::from_utf8(altered) else { continue };
            assert!(altered == token || verify(&altered, &keys, &expect).is_err(), "{with} at {at}");
        }
        assert!(verify(&token[..at], &keys, &expect).is_err(), "cut at {at}");
    }
    for longer in
        [format!("{token}A"), format!("{token}="), format!("{token}."), format!("{token}\n"), format!(" {token}")]
    {
        assert!(verify(&longer, &keys, &expect).is_err(), "{longer}");
    }
}

#[test]
fn tokens_that_are_not_signed_with_ed25519_are_refused() {
    let issuer = Issuer::new();
    let claims = URL_SAFE_NO_PAD.decode(issuer.pass().token.split('.').nth(1).unwrap()).unwrap();
    let claims = String::from_utf8(claims).unwrap();
    let with = |field: &str, value: Value| {
        let mut header = issuer.header();
        header[field] = value;
        header
    };
    for none in ["none", "None", "NONE"] {
        let signed = issuer.signed(&with("alg", none.into()), &claims);
        let unsigned = format!("{}.", signed.rsplit_once('.').unwrap().0);
        assert_eq!(check(&issuer, &unsigned), Err(ReceiptError::Unsigned));
        assert_eq!(check(&issuer, &signed), Err(ReceiptError::Unsigned));
    }
    // The public key as the secret of a MAC: a verifier that takes the algorithm from the token would accept anybody's
    // signature.
    for secret in
        [issuer.identity().public_key().0.to_vec(), issuer.signer.key_set(NOW).to_json().to_string().into_bytes()]
    {
        let mut header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::HS256);
        header.kid = Some(key_id(&issuer.identity().public_key()));
        header.typ = Some("eat+jwt".into());
        let json: Value = serde_json::from_str(&claims).unwrap();
        let key = jsonwebtoken::EncodingKey::from_secret(&secret);
        let token = jsonwebtoken::encode(&header, &json, &key).unwrap();
        assert_eq!(check(&issuer, &token), Err(ReceiptError::Algorithm("HS256".into())));
        let said = check(&issuer, &token).unwrap_err().to_string();
        assert!(said.contains("HS256") && said.contains("EdDSA"), "{said}");
    }
    for (header, error) in [
        (with("alg", "ES256".into()), ReceiptError::Algorithm("ES256".into())),
        (with("crit", json!(["exp"])), ReceiptError::Extensions),
        (with("typ", "JWT".into()), ReceiptError::Type("JWT".into())),
        (with("kid", Value::Null), ReceiptError::NoKeyId),
        (with("kid", "another".into()), ReceiptError::UnknownKey("another".into())),
        (with("alg", 7.into()), ReceiptError::NotToken),
    ] {
        assert_eq!(check(&issuer, &issuer.signed(&header, &claims)), Err(error));
    }
    // A key that the token brings along is not used.
    let forger = Issuer::new();
    let mut header = forger.header();
    header["jwk"] = forger.signer.key_set(NOW).to_json()["keys"][0].clone();
    assert!(matches!(check(&issuer, &forger.signed(&header, &claims)), Err(ReceiptError::UnknownKey(_))));
    header["kid"] = issuer.header()["kid"].clone();
    assert_eq!(check(&issuer, &forger.signed(&header, &claims)), Err(ReceiptError::Signature));
}

#[test]
fn what_is_no_receipt_is_refused() {
    let issuer = Issuer::new();
    let good = serde_json::to_value(check(&issuer, &issuer.pass().token).unwrap()).unwrap();
    let with = |pointer: &str, value: Value| {
        let mut claims = good.clone();
        *claims.pointer_mut(pointer).unwrap() = value;
        claims.to_string()
    };
    check(&issuer, &issuer.signed(&issuer.header(), &good.to_string())).unwrap();
    for claims in [
        "{}".to_owned(),
        "[]".to_owned(),
        "not json".to_owned(),
        with("/eat_profile", "tag:github.com,2023:veraison/ear".into()),
        with("/submods", json!({})),
        with("/iat", json!(1.5)),
        with("/exp", "soon".into()),
        with("/submods/host/eat_nonce", "short".into()),
        with("/submods/host/ear_status", "none".into()),
        with("/submods/host/ear_verifier_claims/outcome", "fail".into()),
        with(&format!("/submods/{}/ear_status", device_label(DeviceId([1; 16]))), "contraindicated".into()),
    ] {
        let refused = check(&issuer, &issuer.signed(&issuer.header(), &claims));
        assert!(matches!(refused, Err(ReceiptError::NotReceipt(_))), "{claims}: {refused:?}");
    }
    for text in ["", ".", "..", "a.b", "a.b.c.d", "receipt", "!.!.!", "e30.e30.e30", "W10.e30.AA"] {
        assert_eq!(check(&issuer, text), Err(ReceiptError::NotToken), "{text}");
    }
    let large = "A".repeat(MAX_TOKEN_BYTES + 1);
    assert_eq!(check(&issuer, &large), Err(ReceiptError::TooLarge(MAX_TOKEN_BYTES + 1)));
    // Claims of later versions are passed over.
    let mut newer = good.clone();
    newer["later"] = json!({ "a": 1 });
    newer["submods"]["host"]["later"] = json!(1);
    check(&issuer, &issuer.signed(&issuer.header(), &newer.to_string())).unwrap();
}

#[test]
fn times_and_nonces_are_held_against_the_callers() {
    let issuer = Issuer::new();
    let (verdict, nonce): (_, EatNonce) = (verdict(Vec::new()), RENTERS.parse().unwrap());
    let token = issuer.signer.issue(&Subject { eat_nonce: Some(&nonce), ..subject(&verdict) }).unwrap().token;
    let keys = issuer.signer.key_set(NOW);
    let at = |now_s, leeway_s| {
        verify(&token, &keys, &ReceiptExpectations { now_s, leeway_s, ..ReceiptExpectations::default() })
    };
    assert!(at(NOW, 0).is_ok() && at(NOW + DAY_S - 1, 0).is_ok() && at(NOW + DAY_S + 59, 60).is_ok());
    assert_eq!(at(NOW + DAY_S, 0), Err(ReceiptError::Expired { ago_s: 0 }));
    assert_eq!(at(NOW + DAY_S + 60, 60), Err(ReceiptError::Expired { ago_s: 60 }));
    assert_eq!(at(NOW - 61, 60), Err(ReceiptError::FromFuture { ahead_s: 61 }));
    assert!(at(NOW - 60, 60).is_ok());
    let asked = |token: &str, nonce: &str| {
        verify(
            token,
            &keys,
            &ReceiptExpectations { now_s: NOW, nonce: Some(&nonce.parse().unwrap()), ..ReceiptExpectations::default() },
        )
    };
    assert_eq!(asked(&token, RENTERS).unwrap().eat_nonce, Some(nonce));
    let other = RENTERS.replace("00", "01");
    let refused = asked(&token, &other).unwrap_err();
    assert_eq!(refused, ReceiptError::OtherNonce { expected: other, found: RENTERS.into() });
    assert_eq!(asked(&issuer.pass().token, RENTERS), Err(ReceiptError::NoNonce(RENTERS.into())));
}

#[test]
fn a_receipt_is_about_whom_and_as_much_as_the_caller_says() {
    let issuer = Issuer::new();
    let (token, keys) = (issuer.pass().token, issuer.signer.key_set(NOW));
    let asked = |expect: ReceiptExpectations<'_>| {
        verify(&token, &keys, &ReceiptExpectations { now_s: NOW, ..expect }).map(|_| ())
    };
    let (miner, validator) = (Some(PublicKey([6; 32])), Some(PublicKey([7; 32])));
    let all = ReceiptExpectations { miner, validator, min_bytes: 80_000_000_123, ..ReceiptExpectations::default() };
    assert_eq!(asked(all), Ok(()));
    let code = |expect| asked(expect).unwrap_err().code();
    assert_eq!(code(ReceiptExpectations { miner: validator, ..all }), "other_miner");
    assert_eq!(code(ReceiptExpectations { validator: miner, ..all }), "other_validator");
    assert_eq!(code(ReceiptExpectations { min_bytes: 80_000_000_124, ..all }), "too_little_memory");
    let failed = verdict(vec![Reason::new(ReasonCode::ProbeLate, "")]);
    let token = issuer.signer.issue(&subject(&failed)).unwrap().token;
    let refused =
        verify(&token, &keys, &ReceiptExpectations { now_s: NOW, min_bytes: 1, ..ReceiptExpectations::default() })
            .unwrap_err();
    assert_eq!(refused, ReceiptError::TooLittleMemory { expected: 1, found: 0 }, "a fail proves nothing");
}

fn figures() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), any::<f64>()]
}

fn works() -> impl Strategy<Value = Work> {
    (any::<u64>(), figures(), figures(), figures(), figures()).prop_map(|(bytes_held, seconds, tops, probe, rate)| {
        Work { bytes_held, seconds, tops, probe_seconds: probe, probe_gb_per_s: rate, ..Work::default() }
    })
}

fn reasons() -> impl Strategy<Value = Reason> {
    (0..ReasonCode::ALL.len(), any::<String>(), proptest::option::of(0_u8..4)).prop_map(|(code, detail, device)| {
        Reason { code: ReasonCode::ALL[code], detail, device_id: device.map(|number| DeviceId([number; 16])) }
    })
}

prop_compose! {
    fn verdicts()(
        works in proptest::collection::vec((works(), any::<String>(), figures()), 0..4),
        whole in works(),
        reasons in proptest::collection::vec(reasons(), 0..3),
        mode in prop_oneof![Just(None), Just(Some(Mode::Audit)), Just(Some(Mode::Replay))],
        // Also one that its reasons do not lead to.
        outcome in prop_oneof![3 => Just(None), 1 => Just(Some(Outcome::Pass)), 1 => Just(Some(Outcome::Fail))],
        bound in (figures(), figures()),
    ) -> Verdict {
        let devices = works.into_iter().enumerate().map(|(number, (work, name, share))| {
            let hiding = device(0).hiding.map(|hiding| Hiding { share, ..hiding });
            DeviceWork { device_id: DeviceId([number as u8; 16]), name, work, rates: Vec::new(), hiding, claimed_telemetry: None, sweep: None }
        });
        Verdict {
            devices: devices.collect(),
            whole,
            precision: assay_work::Precision::Int8,            mode,
            outcome: outcome.unwrap_or(outcome_of(&reasons)),
            work_bounds: vec![Bound { fraction: bound.0, log2_probability: bound.1 }],
            ..verdict(reasons)
        }
    }
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_stated(
        verdict in verdicts(), state in any::<String>(), group in any::<String>(), detail in any::<String>(),
    ) {
        let issuer = Issuer::new();
        let finding = SubjectFinding { code: state.clone(), enforced: false, device_id: None, detail };
        let subject = Subject { state: &state, group: &group, findings: &[finding], ..subject(&verdict) };
        let token = issuer.signer.issue(&subject).unwrap().token;
        let claims = check(&issuer, &token).unwrap();
        let signed = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        prop_assert_eq!(serde_json::to_string(&claims).unwrap(), String::from_utf8(signed).unwrap());
    }

    #[test]
    fn only_a_pass_is_affirmed(
        verdict in verdicts(), state in prop_oneof![3 => Just("passing"), 1 => Just("suspect")], enforced in any::<bool>(),
    ) {
        let issuer = Issuer::new();
        let finding = SubjectFinding { code: "device_moved".into(), enforced, device_id: None, detail: String::new() };
        let claims = stated(&issuer, &Subject { state, findings: &[finding], ..subject(&verdict) });
        let devices = claims.submods.devices.values();
        let statuses = devices.map(|device| device.ear_status).chain([claims.ear_status, claims.submods.host.ear_status]);
        let is_good = verdict.outcome == Outcome::Pass && verdict.reasons.is_empty() && state == "passing" && !enforced;
        for status in statuses {
            prop_assert_eq!(status == Tier::Affirming, is_good, "{:?}", claims);
        }
        let host = &claims.submods.host.ear_verifier_claims;
        let devices_proven = claims.submods.devices.values().any(|d| d.ear_verifier_claims.proven.is_some());
        if verdict.mode.is_none() || !verdict.work_held() {
            prop_assert!(host.proven.is_none() && host.soundness.is_none() && !devices_proven);
        }
    }

    #[test]
    fn no_text_is_a_receipt(text in any::<String>(), parts in proptest::array::uniform3("[A-Za-z0-9_-]{0,40}")) {
        let keys = KeySet::of([(PublicKey([7; 32]), None)]);
        let expect = ReceiptExpectations { now_s: NOW, ..ReceiptExpectations::default() };
        prop_assert!(verify(&text, &keys, &expect).is_err());
        prop_assert!(verify(&parts.join("."), &keys, &expect).is_err());
    }
}
