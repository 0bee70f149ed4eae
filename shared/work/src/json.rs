//! Reading the interchange form (WORK.md, JSON): every error names the field it is about.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// What the vectors carry besides the object itself; at the top level it is passed over.
const ASIDE: [&str; 2] = ["_comment", "trace"];

/// Why a text is not the interchange form of an object.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The text is no JSON.
    #[error("not JSON: {0}")]
    Syntax(#[source] serde_json::Error),
    /// A field is missing, unknown, ill-sized or out of range.
    #[error("{path}: {cause}")]
    Field {
        /// Where, as in `shares[1].device_id`; `.` is the object itself.
        path: String,
        /// What is wrong there.
        #[source]
        cause: serde_json::Error,
    },
}

/// Reads an object from its interchange form. `_comment` and `trace` at the top level are passed over.
///
/// # Errors
/// [`JsonError`], naming the first field that is wrong.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    let mut value: serde_json::Value = serde_json::from_str(text).map_err(JsonError::Syntax)?;
    if let Some(object) = value.as_object_mut() {
        for name in ASIDE {
            object.remove(name);
        }
    }
    serde_path_to_error::deserialize(value)
        .map_err(|e| JsonError::Field { path: e.path().to_string(), cause: e.into_inner() })
}

/// Reads a field that may be left out but, when there, holds a value: `null` is none.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evidence, UncheckedChallenge, UncheckedProbe};

    const CHALLENGE: &str = r#"{
        "_comment": "passed over", "version": 1, "challenge_id": "00000000000000000000000000000001",
        "nonce": "0000000000000000000000000000000000000000000000000000000000000002",
        "validator_key": "0000000000000000000000000000000000000000000000000000000000000003",
        "miner_key": "0000000000000000000000000000000000000000000000000000000000000004",
        "precision": 1, "n": 256, "iterations": 1,
        "shares": [{"device_id": "000000000000000000000000000000aa", "offset": 0, "count": 3}]}"#;

    fn error(change: impl FnOnce(&str) -> String) -> String {
        from_json::<UncheckedChallenge>(&change(CHALLENGE)).unwrap_err().to_string()
    }

    #[test]
    fn reads_what_is_right() {
        let challenge: UncheckedChallenge = from_json(CHALLENGE).unwrap();
        assert_eq!(challenge.shares[0].count, 3);
        assert_eq!(from_json::<UncheckedChallenge>(&serde_json::to_string(&challenge).unwrap()).unwrap(), challenge);
    }

    #[test]
    fn every_error_names_its_field() {
        let cases = [
            (error(|c| c.replace(r#""n": 256,"#, "")), "missing field `n`"),
            (error(|c| c.replace(r#""n": 256,"#, r#""n": 256, "m": 1,"#)), "unknown field `m`"),
            (error(|c| c.replace(r#""n": 256,"#, r#""n": -256,"#)), "n: invalid value"),
            (error(|c| c.replace(r#""n": 256,"#, r#""n": 4294967296,"#)), "n: invalid value"),
            (error(|c| c.replace(r#""n": 256,"#, r#""n": 256.0,"#)), "n: invalid type"),
            (error(|c| c.replace(r#""n": 256,"#, r#""n": "256","#)), "n: invalid type"),
            (error(|c| c.replace("0aa", "aa")), "shares[0].device_id: expected 32 hex digits, found 31"),
            (error(|c| c.replace("0aa", "0AA")), "shares[0].device_id: expected lower-case hex digits only"),
            (error(|c| c.replace(r#", "count": 3"#, "")), "shares[0]: missing field `count`"),
            (
                error(|c| c.replace(r#""count": 3"#, r#""count": 3, "trace": 0"#)),
                "shares[0].trace: unknown field `trace`",
            ),
        ];
        for (found, expected) in cases {
            assert!(found.contains(expected), "{found:?} does not say {expected:?}");
        }
        assert!(error(|c| c.replace('}', "")).starts_with("not JSON"));
    }

    #[test]
    fn a_signature_is_left_out_or_a_value() {
        let unsigned =
            format!(r#"{{"challenge_id": "{}", "devices": [], "checksum": "{}"}}"#, "00".repeat(16), "00".repeat(32));
        assert_eq!(from_json::<Evidence>(&unsigned).unwrap().signature, None);
        let null = unsigned.replace('}', r#", "signature": null}"#);
        assert!(from_json::<Evidence>(&null).unwrap_err().to_string().starts_with("signature: "));
    }

    #[test]
    fn a_probe_names_its_fields_too() {
        let short = format!(r#"{{"seed": "{}", "walks": 64, "steps": 1, "rounds": 1}}"#, "00".repeat(31));
        assert!(from_json::<UncheckedProbe>(&short).unwrap_err().to_string().starts_with("seed: expected 64"));
    }
}
