//! Reading the interchange form (WORK.md, JSON): every error names the field it is about.

use std::fmt;

use serde::de::{self, DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Fields that the vectors carry besides the object itself; passed over at the top level.
const ASIDE: [&str; 2] = ["_comment", "trace"];

/// Why a text is not the interchange form of an object.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The text is no JSON.
    #[error("not JSON: {0}")]
    Syntax(#[source] serde_json::Error),
    /// A field is missing, unknown, repeated, ill-sized or out of range.
    #[error("{path}: {cause}")]
    Field {
        /// Where, as in `shares[1].device_id`; `.` is the object itself.
        path: String,
        /// The reader's error, with the place in the text.
        #[source]
        cause: serde_json::Error,
    },
}

/// Reads an object from its interchange form. `_comment` and `trace` at the top level are passed over.
///
/// # Errors
/// [`JsonError`], naming the first field that is wrong.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    JsonObject::parse(text)?.read()
}

/// A reader of an object that a file holds under `name`, as the vectors do, or is itself.
///
/// # Errors
/// Those of [`from_json`]; the fields of an object held are named under it.
pub fn from_json_under<T: DeserializeOwned>(name: &'static str) -> impl Fn(&str) -> Result<T, JsonError> {
    move |text| JsonObject::parse(text)?.held_under(name).read()
}

/// A text of JSON in which no field is repeated, before it is read as an object of the interchange form.
#[derive(Debug)]
pub struct JsonObject {
    value: Value,
    /// The field of the text that holds the object.
    holder: Option<&'static str>,
}

impl JsonObject {
    /// Parses a text.
    ///
    /// # Errors
    /// [`JsonError`]: it is not JSON, or a field is repeated, at whatever depth.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let DistinctValue(value) = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            let path = error.path().to_string();
            let cause = error.into_inner();
            if cause.is_data() { JsonError::Field { path, cause } } else { JsonError::Syntax(cause) }
        })?;
        deserializer.end().map_err(JsonError::Syntax)?;
        Ok(Self { value, holder: None })
    }

    /// The object under `name`, where there is one, as in the vectors; else the object itself.
    pub fn held_under(mut self, name: &'static str) -> Self {
        match self.value.get_mut(name) {
            Some(held @ Value::Object(_)) => Self { value: held.take(), holder: Some(name) },
            _ => self,
        }
    }

    /// Whether the object has a field of this name.
    #[must_use]
    pub fn has(&self, field: &str) -> bool {
        self.value.get(field).is_some()
    }

    /// Reads the object. `_comment` and `trace` at its top level are passed over.
    ///
    /// # Errors
    /// [`JsonError`], naming the first field that is missing, unknown, ill-sized or out of range.
    pub fn read<T: DeserializeOwned>(mut self) -> Result<T, JsonError> {
        if let Some(object) = self.value.as_object_mut() {
            for name in ASIDE {
                object.remove(name);
            }
        }
        serde_path_to_error::deserialize(self.value).map_err(|error| {
            let path = match (self.holder, error.path().to_string()) {
                (None, path) => path,
                (Some(holder), path) if path == "." => holder.to_owned(),
                (Some(holder), path) => format!("{holder}.{path}"),
            };
            JsonError::Field { path, cause: error.into_inner() }
        })
    }
}

/// Any value, in which no object has a field twice: [`Value`] alone keeps the last one.
struct DistinctValue(Value);

impl<'de> Deserialize<'de> for DistinctValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DistinctVisitor).map(Self)
    }
}

struct DistinctVisitor;

impl<'de> Visitor<'de> for DistinctVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(DistinctValue(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(de::Error::custom(format_args!("duplicate field `{name}`")));
            }
            let DistinctValue(value) = fields.next_value()?;
            object.insert(name, value);
        }
        Ok(object.into())
    }
}

/// Reads a field that may be left out but holds a value where it is present: `null` is refused.
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
            (error(|c| c.replace(r#""n": 256,"#, r#""n": 256, "n": 256,"#)), ".: duplicate field `n`"),
            (error(|c| c.replace(r#""count": 3"#, r#""count": 3, "count": 4"#)), "shares[0]: duplicate field `count`"),
            (
                error(|c| c.replace(r#""passed over""#, r#"[{"a": 0, "b": {"a": 1, "a": 2}}]"#)),
                "_comment[0].b: duplicate field `a`",
            ),
        ];
        for (found, expected) in cases {
            assert!(found.contains(expected), "{found:?} does not say {expected:?}");
        }
        for text in [CHALLENGE.replace('}', ""), format!("{CHALLENGE}{{}}"), String::new()] {
            assert!(error(|_| text).starts_with("not JSON"));
        }
    }

    #[test]
    fn an_object_is_read_from_the_one_that_holds_it() {
        let read = from_json_under::<UncheckedChallenge>("challenge");
        let held = |challenge: &str| format!(r#"{{"evidence": 7, "challenge": {challenge}}}"#);
        assert_eq!(read(&held(CHALLENGE)).unwrap(), read(CHALLENGE).unwrap());
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert!(error(&held(&CHALLENGE.replace("256", "true"))).starts_with("challenge.n: invalid type"));
        assert!(error(&held("{}")).starts_with("challenge: missing field `version`"));
        assert!(error(&held("7")).starts_with("challenge: unknown field"), "a number is not it");
        let twice = format!(r#"{{"challenge": {CHALLENGE}, "challenge": {CHALLENGE}}}"#);
        assert!(error(&twice).starts_with(".: duplicate field `challenge`"));
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

    #[test]
    fn the_link_of_a_probe_may_be_left_out() {
        let probe = format!(r#"{{"seed": "{}", "walks": 64, "steps": 1, "rounds": 1}}"#, "00".repeat(32));
        let linked = |link: &str| from_json::<UncheckedProbe>(&probe.replace('}', &format!(r#", "link": {link}}}"#)));
        assert_eq!(from_json::<UncheckedProbe>(&probe).unwrap(), linked("0").unwrap());
        assert_eq!(linked("4294967295").unwrap().link, u32::MAX);
        assert!(linked("null").unwrap_err().to_string().starts_with("link: invalid type"));
    }
}
