//! The files of the vectors, each read as the test declares it.

use std::cell::RefCell;
use std::path::PathBuf;

use assay_work::{Challenge, UncheckedChallenge, from_json};
use serde::de::DeserializeOwned;

/// The folder `integration-tests/vectors`.
pub fn vector_folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "vectors"].iter().collect()
}

thread_local! {
    /// The file that [`Wanted`] waits for on this thread, and whether it was read.
    static WANTED: RefCell<Option<(String, bool)>> = const { RefCell::new(None) };
}

/// A file that a test is to read, on this thread: as soon as it does, the test ends.
pub struct Wanted;

impl Wanted {
    pub fn file(name: &str) -> Self {
        WANTED.set(Some((name.to_owned(), false)));
        Self
    }

    pub fn was_read(self) -> bool {
        WANTED.take().is_some_and(|(_, was_read)| was_read)
    }

    fn note(name: &str) {
        let found = WANTED.with_borrow_mut(|wanted| match wanted {
            Some((file, was_read)) if file == name => {
                *was_read = true;
                true
            }
            _ => false,
        });
        if found {
            // Without a word about it, which a panic would have.
            std::panic::resume_unwind(Box::new(()));
        }
    }
}

/// A file of the vectors, as text.
pub fn vector_text(name: &str) -> String {
    Wanted::note(name);
    let path = vector_folder().join(format!("{name}.json"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A file of the vectors, read as the test declares it; fields that the test does not declare are an error.
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
