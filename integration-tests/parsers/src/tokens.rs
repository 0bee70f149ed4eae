//! Receipts and the keys that check them.

use std::sync::LazyLock;

use assay_protocol::identity::Identity;
use assay_receipts::{Claims, KeySet, ReceiptExpectations, Tier, key_id, read_trusted, verify};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::honest::NOW_S;
use crate::text;

static SIGNER: LazyLock<Identity> = LazyLock::new(|| Identity::from_seed(&[3; 32]));
/// Seconds that the clocks may differ.
const LEEWAY_S: u64 = 60;

fn verified(token: &str) -> Option<Claims> {
    let keys = KeySet::of([(SIGNER.public_key(), None)]);
    let expect = ReceiptExpectations { now_s: NOW_S, leeway_s: LEEWAY_S, ..ReceiptExpectations::default() };
    verify(token, &keys, &expect).ok()
}

/// A token; and a text of claims, signed by a trusted key. A token without such a signature is never accepted.
pub fn receipt(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Ok(claims) = read_trusted(text) {
        let json = serde_json::to_value(&claims).expect("claims become JSON");
        assert_eq!(serde_json::from_value::<Claims>(json).expect("claims that were written are read"), claims);
    }
    if verified(text).is_some() {
        let (message, signature) = text.rsplit_once('.').expect("a token has parts");
        assert_eq!(signature, URL_SAFE_NO_PAD.encode(SIGNER.sign(message.as_bytes()).0), "a forged receipt");
    }
    let header = format!(r#"{{"alg":"EdDSA","typ":"eat+jwt","kid":"{}"}}"#, key_id(&SIGNER.public_key()));
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(data));
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(SIGNER.sign(message.as_bytes()).0));
    let Some(claims) = verified(&token) else { return };
    assert_eq!(read_trusted(&token).expect("a verified receipt has claims"), claims);
    assert!(claims.exp.saturating_add(LEEWAY_S) > NOW_S && claims.iat <= NOW_S + LEEWAY_S);
    let host = &claims.submods.host;
    if claims.ear_status == Tier::Affirming {
        assert!(host.ear_status == Tier::Affirming && host.ear_verifier_claims.outcome == "pass");
    }
}

/// A JWK set, which is read again as it is written.
pub fn receipt_keys(data: &[u8]) {
    let Some(Ok(keys)) = text(data).map(KeySet::parse) else { return };
    assert_eq!(KeySet::parse(&keys.to_json().to_string()).expect("a set that was written is read"), keys);
}
