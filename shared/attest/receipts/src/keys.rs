//! JWK sets (RFC 7517): the public keys that receipts are signed with.

use std::collections::BTreeMap;

use assay_work::PublicKey;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bytes of the largest JWK set that is read: some hundred keys.
pub const MAX_KEY_SET_BYTES: usize = 64 << 10;

/// The id of a key: the thumbprint of its JWK (RFC 7638; RFC 8037, appendix A.3).
pub fn key_id(key: &PublicKey) -> String {
    let jwk = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, URL_SAFE_NO_PAD.encode(key.0));
    URL_SAFE_NO_PAD.encode(Sha256::digest(jwk))
}

/// Keys for checking receipts, by their ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeySet {
    keys: BTreeMap<String, ReceiptKey>,
}

/// One key of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceiptKey {
    pub public_key: PublicKey,
    /// From when on it is not to be used, in seconds since 1970.
    pub expires_s: Option<u64>,
}

/// A text is not a set of keys for receipts.
#[derive(Debug, thiserror::Error)]
pub enum KeySetError {
    /// Too long to be read.
    #[error("the key set has {0} bytes; at most {MAX_KEY_SET_BYTES} are read")]
    TooLarge(usize),
    /// Not the JSON of a JWK set.
    #[error("not a JWK set, such as `assay-validator receipt keys` prints: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A key of another length, or one that belongs to another id.
    #[error("key {0} of the JWK set is not the Ed25519 key of its id: take the set from the validator again")]
    WrongKey(String),
    /// Nothing to check a receipt with.
    #[error("the JWK set has no Ed25519 key: take the set that `assay-validator receipt keys` prints")]
    Empty,
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<serde_json::Value>,
}

#[derive(Serialize, Deserialize)]
struct Jwk {
    kty: String,
    crv: String,
    x: String,
    kid: String,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<u64>,
}

impl KeySet {
    /// Reads a JWK set. Keys of other kinds are passed over, as RFC 7517 asks.
    ///
    /// # Errors
    /// [`KeySetError`].
    pub fn parse(text: &str) -> Result<Self, KeySetError> {
        if text.len() > MAX_KEY_SET_BYTES {
            return Err(KeySetError::TooLarge(text.len()));
        }
        let set: JwkSet = serde_json::from_str(text)?;
        let mut keys = BTreeMap::new();
        for jwk in set.keys.into_iter().filter(is_for_receipts) {
            let jwk: Jwk = serde_json::from_value(jwk)?;
            let wrong = || KeySetError::WrongKey(jwk.kid.clone());
            let bytes = URL_SAFE_NO_PAD.decode(&jwk.x).map_err(|_| wrong())?;
            let public_key = PublicKey::try_from(bytes.as_slice()).map_err(|_| wrong())?;
            let is_new = keys.insert(jwk.kid.clone(), ReceiptKey { public_key, expires_s: jwk.exp }).is_none();
            if key_id(&public_key) != jwk.kid || !is_new {
                return Err(wrong());
            }
        }
        if keys.is_empty() { Err(KeySetError::Empty) } else { Ok(Self { keys }) }
    }

    /// A set of these keys, each with the end of its use.
    pub fn of(keys: impl IntoIterator<Item = (PublicKey, Option<u64>)>) -> Self {
        let entry = |(public_key, expires_s)| (key_id(&public_key), ReceiptKey { public_key, expires_s });
        Self { keys: keys.into_iter().map(entry).collect() }
    }

    /// The JWK set.
    pub fn to_json(&self) -> serde_json::Value {
        let jwk = |(id, key): (&String, &ReceiptKey)| Jwk {
            kty: "OKP".into(),
            crv: "Ed25519".into(),
            x: URL_SAFE_NO_PAD.encode(key.public_key.0),
            kid: id.clone(),
            alg: Some("EdDSA".into()),
            purpose: Some("sig".into()),
            exp: key.expires_s,
        };
        serde_json::json!({ "keys": self.keys.iter().map(jwk).collect::<Vec<_>>() })
    }

    /// The id of a key that can be used and is not in another set.
    pub(crate) fn lost_in(&self, other: &Self, now_s: u64) -> Option<&str> {
        let can_be_used = |key: &ReceiptKey| key.expires_s.is_none_or(|expires_s| expires_s > now_s);
        let mut ids = self.keys.iter().filter(|(_, key)| can_be_used(key)).map(|(id, _)| id);
        ids.find(|id| !other.keys.contains_key(*id)).map(String::as_str)
    }

    pub(crate) fn get(&self, id: &str) -> Option<&ReceiptKey> {
        self.keys.get(id)
    }
}

/// Whether an entry is for checking signatures with Ed25519, by its own words.
fn is_for_receipts(jwk: &serde_json::Value) -> bool {
    let is = |field: &str, wanted: &str| jwk.get(field).and_then(serde_json::Value::as_str) == Some(wanted);
    let may_be = |field, wanted| jwk.get(field).is_none() || is(field, wanted);
    is("kty", "OKP") && is("crv", "Ed25519") && may_be("use", "sig") && may_be("alg", "EdDSA")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and the thumbprint of RFC 8037, appendices A.2 and A.3.
    const X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    const THUMBPRINT: &str = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";

    fn key() -> PublicKey {
        PublicKey::try_from(URL_SAFE_NO_PAD.decode(X).unwrap().as_slice()).unwrap()
    }

    #[test]
    fn an_id_is_the_thumbprint_of_rfc_8037() {
        assert_eq!(key_id(&key()), THUMBPRINT);
    }

    #[test]
    fn a_set_is_read_as_it_is_written() {
        let set = KeySet::of([(key(), None), (PublicKey([7; 32]), Some(1_900_000_000))]);
        assert_eq!(KeySet::parse(&set.to_json().to_string()).unwrap(), set);
        assert_eq!(set.get(THUMBPRINT).unwrap().public_key, key());
    }

    #[test]
    fn keys_of_other_kinds_are_passed_over() {
        let mut json = KeySet::of([(key(), None)]).to_json();
        let others = serde_json::json!([
            { "kty": "oct", "kid": THUMBPRINT, "k": X, "alg": "HS256" },
            { "kty": "EC", "crv": "P-256", "kid": "b", "x": X, "y": X },
            { "kty": "OKP", "crv": "X25519", "kid": "c", "x": X },
            { "kty": "OKP", "crv": "Ed25519", "kid": "d", "x": X, "use": "enc" },
            7,
        ]);
        json["keys"].as_array_mut().unwrap().extend(others.as_array().unwrap().iter().cloned());
        assert_eq!(KeySet::parse(&json.to_string()).unwrap(), KeySet::of([(key(), None)]));
    }

    #[test]
    fn what_is_no_set_is_refused() {
        let jwk = |kid: &str, x: &str| serde_json::json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x });
        let set = |keys: &[serde_json::Value]| serde_json::json!({ "keys": keys }).to_string();
        for text in ["", "{}", "[]", "{\"keys\":7}", &"x".repeat(MAX_KEY_SET_BYTES + 1)] {
            assert!(matches!(KeySet::parse(text), Err(KeySetError::Malformed(_) | KeySetError::TooLarge(_))), "{text}");
        }
        assert!(matches!(KeySet::parse(&set(&[])), Err(KeySetError::Empty)));
        for keys in [
            vec![jwk("another", X)],
            vec![jwk(THUMBPRINT, &X[1..])],
            vec![jwk(THUMBPRINT, "!")],
            vec![jwk(THUMBPRINT, X), jwk(THUMBPRINT, X)],
        ] {
            assert!(matches!(KeySet::parse(&set(&keys)), Err(KeySetError::WrongKey(_))), "{keys:?}");
        }
    }
}
