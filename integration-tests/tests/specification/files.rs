//! The files of the vectors, each read as the test declares it.

use std::path::PathBuf;

use assay_work::{Challenge, UncheckedChallenge, from_json};
use serde::de::DeserializeOwned;

/// `integration-tests/vectors`.
pub fn vector_folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "vectors"].iter().collect()
}

/// A file of the vectors, as text.
pub fn vector_text(name: &str) -> String {
    let path = vector_folder().join(format!("{name}.json"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A file of the vectors, read as the test declares it; what the test does not declare must not be there.
pub fn vector<T: DeserializeOwned>(name: &str) -> T {
    serde_json::from_str(&vector_text(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A file of the vectors that is one object of the interchange form.
pub fn vector_object<T: DeserializeOwned>(name: &str) -> T {
    from_json(&vector_text(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A challenge of the vectors that breaks no rule.
pub fn checked(challenge: &UncheckedChallenge) -> Challenge {
    Challenge::try_from(challenge.clone()).unwrap()
}
