//! The validators that a miner trusted on first use, in a file: `host:port key unix-seconds`, one a line. A fourth word
//! is the key that an operator gave, which the key of the line follows.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use assay_program::address::Address;
use assay_program::utc;
use assay_work::PublicKey;
use parking_lot::Mutex;

/// The largest file that is read: hundreds of validators.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// The head of a new file.
const HEADER: &str = "# Validators that this miner trusts since their first use: address, key, when (seconds since 1970).\n\
                      # Remove a line to trust whatever key the address has next.\n";

/// The file with the validators that are known.
#[derive(Debug)]
pub struct KnownValidators {
    path: PathBuf,
    /// Those that could not be written, as on a full disk; known to this process alone. Held while the file is changed.
    unwritten: Mutex<Vec<(Address, KnownValidator)>>,
}

/// A validator that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownValidator {
    pub key: PublicKey,
    /// The time of its first use, in seconds since 1970.
    pub since_unix_seconds: u64,
    /// The key that the operator gave, where this one follows it.
    pub follows: Option<PublicKey>,
    /// The line in the file, from 1; `None` where it could not be written.
    pub line: Option<usize>,
}

/// A validator has another key than the one that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the key of the validator at {address} has changed: it was {} since {}, now it is {found}. Ask the validator's \
     operator whether that is right; if it is, {}",
    .known.key, utc::text(.known.since_unix_seconds), forgetting(.known, .file)
)]
pub struct ChangedKey {
    /// The address at which it was dialled.
    pub address: Address,
    /// The known key.
    pub known: KnownValidator,
    /// The key that it has now.
    pub found: PublicKey,
    pub file: PathBuf,
}

/// The file cannot be used. No validator is trusted then.
#[derive(Debug, thiserror::Error)]
pub enum KnownError {
    /// It could not be read or written.
    #[error("known validators {path}: {source}")]
    File {
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line has another form.
    #[error("known validators {path}, line {line}: expected `host:port key unix-seconds`: correct or remove the line")]
    Line {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

impl KnownValidators {
    /// The file of this name; it is made with the first validator that is kept.
    pub const fn new(path: PathBuf) -> Self {
        Self { path, unwritten: Mutex::new(Vec::new()) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The known key of the validator at an address: where an operator gave a key, among those that follow it; else
    /// among those that were trusted on first use. One that could not be written is newer than the file's.
    pub fn find(&self, address: &Address, given: Option<PublicKey>) -> Result<Option<KnownValidator>, KnownError> {
        let written = self.find_written(address, given)?;
        let unwritten = self.unwritten.lock();
        let unwritten = unwritten.iter().find(|(at, known)| at == address && known.follows == given);
        Ok(unwritten.map(|(_, known)| known.clone()).or(written))
    }

    /// Keeps a validator's key from now on, in the place of one that was known for the address and the given key. Where
    /// it cannot be written, this process knows it all the same.
    pub fn keep(
        &self,
        address: &Address,
        key: PublicKey,
        given: Option<PublicKey>,
        now_unix_seconds: u64,
    ) -> Result<(), KnownError> {
        let known = KnownValidator { key, since_unix_seconds: now_unix_seconds, follows: given, line: None };
        let mut unwritten = self.unwritten.lock();
        unwritten.retain(|(at, known)| at != address || known.follows != given);
        let written = self.write(address, &known);
        if written.is_err() {
            unwritten.push((address.clone(), known));
        }
        written
    }

    fn find_written(&self, address: &Address, given: Option<PublicKey>) -> Result<Option<KnownValidator>, KnownError> {
        let lines = self.lines()?;
        Ok(lines.into_iter().find(|(at, known)| at == address && known.follows == given).map(|(_, known)| known))
    }

    fn write(&self, address: &Address, new: &KnownValidator) -> Result<(), KnownError> {
        let KnownValidator { key, since_unix_seconds, follows, .. } = new;
        let replaced = self.find_written(address, *follows)?.and_then(|known| known.line);
        let text = self.read()?;
        let mut kept = if text.is_empty() { HEADER.to_owned() } else { String::new() };
        for (line, number) in text.lines().zip(1..) {
            if Some(number) != replaced {
                kept.push_str(line);
                kept.push('\n');
            }
        }
        let follows = follows.map_or_else(String::new, |given| format!(" {given}"));
        // A string takes every text.
        let _ = writeln!(kept, "{address} {key} {since_unix_seconds}{follows}");
        self.replace(&kept).map_err(|source| self.file_error(source))
    }

    fn lines(&self) -> Result<Vec<(Address, KnownValidator)>, KnownError> {
        let text = self.read()?;
        let of_interest = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
        let lines = text.lines().zip(1..).filter(|(line, _)| of_interest(line));
        lines
            .map(|(text, line)| parse(text, line).ok_or_else(|| KnownError::Line { path: self.path.clone(), line }))
            .collect()
    }

    fn read(&self) -> Result<String, KnownError> {
        match fs::metadata(&self.path) {
            Ok(found) if !found.is_file() => return Err(self.file_error(io::Error::other("is no regular file"))),
            Ok(found) if found.len() > MAX_FILE_BYTES => {
                return Err(self.file_error(io::Error::other("is larger than 64 KiB: remove lines")));
            }
            _ => {}
        }
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(self.file_error(error)),
        }
    }

    /// A crash leaves the old file or the new one.
    fn replace(&self, text: &str) -> io::Result<()> {
        let temporary = self.path.with_added_extension("new");
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)
    }

    fn file_error(&self, source: io::Error) -> KnownError {
        KnownError::File { path: self.path.clone(), source }
    }
}

/// How an operator has a key forgotten.
fn forgetting(known: &KnownValidator, file: &Path) -> String {
    known
        .line
        .map_or_else(|| "restart the miner".to_owned(), |line| format!("remove line {line} of {}", file.display()))
}

fn parse(text: &str, line: usize) -> Option<(Address, KnownValidator)> {
    let mut words = text.split_whitespace();
    let (address, key, since) = (words.next()?, words.next()?, words.next()?);
    let follows = words.next().map(str::parse).transpose().ok()?;
    if words.next().is_some() {
        return None;
    }
    let known =
        KnownValidator { key: key.parse().ok()?, since_unix_seconds: since.parse().ok()?, follows, line: Some(line) };
    Some((address.parse().ok()?, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::TempDir, KnownValidators) {
        let folder = tempfile::tempdir().unwrap();
        let known = KnownValidators::new(folder.path().join("state/known_validators"));
        (folder, known)
    }

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn a_validator_is_known_from_its_first_use_on() {
        let (_folder, known) = file();
        let (a, b, key) = (address("validator.example:7400"), address("[2001:db8::1]:1"), PublicKey([7; 32]));
        assert_eq!(known.find(&a, None).unwrap(), None);
        known.keep(&a, key, None, 1_767_225_599).unwrap();
        known.keep(&b, PublicKey([8; 32]), None, 5).unwrap();
        let found = known.find(&a, None).unwrap().unwrap();
        assert_eq!(found, KnownValidator { key, since_unix_seconds: 1_767_225_599, follows: None, line: Some(3) });
        assert_eq!(known.find(&b, None).unwrap().unwrap().line, Some(4));
        assert_eq!(known.find(&address("validator.example:7401"), None).unwrap(), None);
        let changed = ChangedKey { address: a, known: found, found: PublicKey([9; 32]), file: known.path().into() };
        let text = changed.to_string();
        for part in ["0707", "2025-12-31 23:59:59 UTC", "0909", "remove line 3 of", "known_validators"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_follows_a_given_key_is_apart_and_is_replaced() {
        let (_folder, known) = file();
        let (a, given) = (address("a:1"), PublicKey([1; 32]));
        known.keep(&a, PublicKey([2; 32]), Some(given), 1).unwrap();
        assert_eq!(known.find(&a, None).unwrap(), None, "it was not trusted on first use");
        known.keep(&a, PublicKey([3; 32]), Some(given), 2).unwrap();
        let found = known.find(&a, Some(given)).unwrap().unwrap();
        assert_eq!((found.key, found.since_unix_seconds, found.line), (PublicKey([3; 32]), 2, Some(3)));
        assert_eq!(known.find(&a, Some(PublicKey([9; 32]))).unwrap(), None, "another key was given since");
    }

    /// On a full disk each connection would be a first use, which takes any key.
    #[test]
    fn a_key_that_cannot_be_written_is_known_to_this_process() {
        let (_folder, known) = file();
        let (a, b) = (address("a:1"), address("b:1"));
        known.keep(&a, PublicKey([1; 32]), None, 1).unwrap();
        let temporary = known.path().with_file_name("known_validators.new");
        fs::create_dir(&temporary).unwrap();
        for (address, key) in [(&a, 2), (&b, 3)] {
            known.keep(address, PublicKey([key; 32]), None, 5).unwrap_err();
            let found = known.find(address, None).unwrap().unwrap();
            assert_eq!((found.key, found.line), (PublicKey([key; 32]), None));
        }
        let changed = ChangedKey {
            address: b.clone(),
            known: known.find(&b, None).unwrap().unwrap(),
            found: PublicKey([9; 32]),
            file: known.path().into(),
        };
        assert!(changed.to_string().ends_with("if it is, restart the miner"), "{changed}");
        assert_eq!(known.find(&b, Some(PublicKey([1; 32]))).unwrap(), None, "no key that follows a given one");
        fs::remove_dir(&temporary).unwrap();
        known.keep(&b, PublicKey([3; 32]), None, 6).unwrap();
        assert_eq!(known.find(&b, None).unwrap().unwrap().line, Some(4), "it is in the file now");
    }

    #[test]
    fn a_malformed_file_trusts_nobody() {
        let (_folder, known) = file();
        known.keep(&address("a:1"), PublicKey([1; 32]), None, 1).unwrap();
        for line in ["a:1", "a:1 00 1", "a:1 x y z", "a 0707 1"] {
            fs::write(known.path(), format!("# comment\n\n{line}\n")).unwrap();
            assert!(matches!(known.find(&address("a:1"), None), Err(KnownError::Line { line: 3, .. })), "{line}");
            assert!(known.keep(&address("b:1"), PublicKey([1; 32]), None, 1).is_err(), "{line}");
        }
        fs::write(known.path(), vec![b'#'; 70_000]).unwrap();
        assert!(matches!(known.find(&address("a:1"), None), Err(KnownError::File { .. })));
        #[cfg(unix)]
        assert!(KnownValidators::new("/dev/zero".into()).find(&address("a:1"), None).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_its_owners() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, known) = file();
        known.keep(&address("a:1"), PublicKey([1; 32]), None, 1).unwrap();
        assert_eq!(fs::metadata(known.path()).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
