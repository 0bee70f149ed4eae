//! Whether the store can be written now: an operation that fails or hangs is trouble until one succeeds. Lasting
//! trouble stays, even if operations succeed meanwhile: damage, and a file that is gone from its place.

use parking_lot::Mutex;
use std::fmt::Display;
use std::time::Duration;

use sqlx::sqlite::SqliteError;
use tokio::sync::watch;

/// How long an operation may take before the store counts as not writable: a disk that hangs gives no error.
pub(crate) const SLOW_LIMIT: Duration = Duration::from_secs(5);

/// Primary result codes of SQLite for a file that is damaged: SQLITE_CORRUPT, SQLITE_NOTADB.
const SQLITE_DAMAGE: [i32; 2] = [11, 26];
/// The same of PostgreSQL: data_corrupted, index_corrupted.
const POSTGRES_DAMAGE: [&str; 2] = ["XX001", "XX002"];

/// The causes that keep the store from being written.
#[derive(Debug)]
pub(crate) struct StoreTrouble {
    place: String,
    causes: Mutex<Causes>,
    told: watch::Sender<Option<String>>,
}

/// Trouble that lasts until it is repaired.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StoreDefect {
    /// The file is not under its name any more.
    Moved,
    /// The database found its files damaged.
    Damaged,
}

#[derive(Debug, Default)]
struct Causes {
    /// The first error of each [`StoreDefect`].
    lasting: [Option<String>; 2],
    /// The database's error, where the last attempt failed.
    error: Option<String>,
    /// Operations that wait for longer than [`SLOW_LIMIT`].
    slow: usize,
}

impl Causes {
    fn sentence(&self) -> Option<String> {
        match self {
            Self { lasting: [Some(why), _] | [None, Some(why)], .. } => Some(why.clone()),
            Self { error: Some(error), .. } => Some(error.clone()),
            Self { slow: 0, .. } => None,
            Self { slow, .. } => Some(format!("operations that have waited for longer than {SLOW_LIMIT:?}: {slow}")),
        }
    }
}

impl StoreTrouble {
    pub(crate) fn new(place: String) -> Self {
        Self { place, causes: Mutex::default(), told: watch::Sender::new(None) }
    }

    pub(crate) fn now(&self) -> Option<String> {
        self.told.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<String>> {
        self.told.subscribe()
    }

    /// Notes how the last attempt ended.
    pub(crate) fn note(&self, error: Option<String>) {
        self.change(|causes| causes.error = error);
    }

    /// Notes lasting trouble, or its repair; the first error stands, and is logged with its paths.
    pub(crate) fn lasting(&self, what: StoreDefect, why: Option<String>) {
        let (mut found, mut repaired) = (None, false);
        self.change(|causes| {
            let known = &mut causes.lasting[what as usize];
            match why {
                Some(why) if known.is_none() => {
                    *known = Some(without_paths(&why));
                    found = Some(why);
                }
                Some(_) => {}
                None => repaired = known.take().is_some(),
            }
        });
        if let Some(why) = found {
            tracing::error!(records = self.place, "{why}");
        }
        if repaired {
            tracing::info!(records = self.place, "the records are whole and in their place again");
        }
    }

    /// Notes damage, where an error shows it.
    pub(crate) fn seen(&self, error: &sqlx::Error) {
        if is_damage(error) {
            self.damaged(Some(error.to_string()));
        }
    }

    /// Notes damage, or its repair.
    pub(crate) fn damaged(&self, what: Option<String>) {
        let why = what.map(|what| {
            format!(
                "the records are damaged ({what}): no challenge starts; mend their disk, or stop the validator and restore \
                 a backup"
            )
        });
        self.lasting(StoreDefect::Damaged, why);
    }

    pub(crate) fn is_damaged(&self) -> bool {
        let causes = self.causes.lock();
        causes.lasting[StoreDefect::Damaged as usize].is_some()
    }

    /// Notes an operation that waits for long, for as long as the returned value lives.
    pub(crate) fn slow(&self) -> impl Drop + use<'_> {
        self.change(|causes| causes.slow += 1);
        SlowGuard(self)
    }

    fn change(&self, change: impl FnOnce(&mut Causes)) {
        let mut causes = self.causes.lock();
        change(&mut causes);
        let now = causes.sentence();
        // Under the lock, so that the last change is sent last.
        self.told.send_if_modified(|told| {
            let is_other = *told != now;
            *told = now;
            is_other
        });
    }
}

struct SlowGuard<'a>(&'a StoreTrouble);

impl Drop for SlowGuard<'_> {
    fn drop(&mut self) {
        self.0.change(|causes| causes.slow -= 1);
    }
}

/// What is said without the words that are paths: where things lie on a machine is for its log.
pub(crate) fn without_paths(said: &impl Display) -> String {
    // SQLite speaks of I/O.
    let is_path = |word: &str| word.contains(['/', '\\']) && word != "I/O";
    said.to_string().split(' ').map(|word| if is_path(word) { "…" } else { word }).collect::<Vec<_>>().join(" ")
}

/// Whether a database found its own files damaged.
pub(crate) fn is_damage(error: &sqlx::Error) -> bool {
    let Some((error, code)) = error.as_database_error().and_then(|error| Some((error, error.code()?))) else {
        return false;
    };
    if error.try_downcast_ref::<SqliteError>().is_none() {
        return POSTGRES_DAMAGE.contains(&&*code);
    }
    code.parse::<i32>().is_ok_and(|code| SQLITE_DAMAGE.contains(&(code & 0xff)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordsError;

    #[test]
    fn clients_are_told_no_path() {
        let trouble = StoreTrouble::new(String::new());
        trouble.damaged(Some("invalid page in block 0 of \"/var/lib/db/base/5\"".to_owned()));
        let told = trouble.now().unwrap();
        assert!(told.contains("(invalid page in block 0 of …") && told.contains("restore a backup"), "{told}");
        let source = sqlx::Error::Protocol("could not extend file \"base/5/26\": disk I/O error".to_owned());
        let error = RecordsError::from(source).doing("record a verdict");
        let told = error.to_string();
        assert!(told.starts_with("cannot record a verdict in the records: "), "{told}");
        assert!(told.ends_with(": could not extend file … disk I/O error"), "{told}");
        assert!(std::error::Error::source(&error).unwrap().to_string().contains("base/5/26"), "the log has it");
    }
}
