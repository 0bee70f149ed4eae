//! A program's own key: read or made at the start, shown by its command `key`, replaced by `key rotate`.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

use assay_program::clock::unix_seconds;
use assay_program::exit::{Exit, Failure, print};
use assay_program::lock::StateLock;
use assay_program::utc;
use assay_protocol::identity::Identity;
use assay_protocol::key_file::{KeyFileError, KeyRotation, Rotation};
use assay_protocol::successor::MAX_OVERLAP_S;
use assay_work::PublicKey;
use serde_json::json;

/// The texts of a program about its key: the peers that have to know it, and those that follow a new one.
#[derive(Debug, Clone, Copy)]
pub struct KeyTexts {
    /// `miner` or `validator`.
    pub program: &'static str,
    /// How others come to take this key.
    pub take: fn(key: &PublicKey) -> String,
    /// Who follows an old key to this one, until then.
    pub follows: fn(old_key: &PublicKey, until: &str) -> String,
    /// The text on peers after a rotation: `until` ends the time in which the old key vouches for the new one; `None`
    /// where it does not vouch.
    pub rotated: fn(until: Option<&str>) -> String,
    /// Who does not follow any more.
    pub dropped: fn(old_key: &PublicKey) -> String,
}

/// The identity in a key file, which is created if it is missing.
///
/// # Errors
/// [`Failure`]: a key that is not one, or is not its owner's alone, or a file that cannot be read or made.
pub fn identity(key_file: &Path) -> Result<Identity, Failure> {
    Identity::load_or_create(key_file).map_err(failure)
}

/// The program's failure where its key cannot be had.
pub fn failure(error: KeyFileError) -> Failure {
    use ErrorKind::{NotADirectory, PermissionDenied, ReadOnlyFilesystem};
    let exit = match &error {
        // Others may pass, such as a full disk.
        KeyFileError::File { source, .. }
            if !matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem | NotADirectory) =>
        {
            Exit::Io
        }
        KeyFileError::Random(_) => Exit::Internal,
        _ => Exit::Config,
    };
    Failure::new(exit, error.to_string())
}

fn not_printed(error: std::io::Error) -> Failure {
    Failure::because(Exit::Io, "standard output", error)
}

impl KeyTexts {
    /// Prints the public key, which is made on first use, and on standard error its use.
    pub fn show(&self, key_file: &Path, as_json: bool) -> Result<Exit, Failure> {
        let is_new = !key_file.exists();
        let identity = identity(key_file)?;
        let key = identity.public_key();
        if is_new {
            say(std::iter::once(format!("A new key: {} was not there.", key_file.display())));
        }
        if as_json {
            let follows: Vec<_> = identity.successors().iter().map(|s| s.old_key).collect();
            let shown = json!({
                (format!("{}_key", self.program)): key, "key_file": key_file.display().to_string(), "follows": follows,
            });
            print(&format!("{shown:#}")).map_err(not_printed)?;
            return Ok(Exit::Done);
        }
        print(&key.to_string()).map_err(not_printed)?;
        let follows = identity.successors().iter();
        let follows = follows.map(|s| (self.follows)(&s.old_key, &utc::text(s.until_unix_seconds)));
        say([(self.take)(&key)].into_iter().chain(follows).chain(self.restart(key_file, &key)));
        Ok(Exit::Done)
    }

    /// Replaces the key by a new one that the old one vouches for.
    ///
    /// # Errors
    /// The overlap, the key file, or standard output.
    pub fn rotate(&self, key_file: &Path, overlap: Duration, as_json: bool) -> Result<Exit, Failure> {
        if overlap.as_secs() > MAX_OVERLAP_S {
            return Err(Failure::new(Exit::Usage, format!("--overlap: must be at most {}d", MAX_OVERLAP_S / 86_400)));
        }
        let now = unix_seconds();
        let rotated = Rotation::begin(key_file, now).and_then(|rotation| rotation.finish(overlap, now));
        let KeyRotation { old_key, new_key, until_unix_seconds, dropped } = rotated.map_err(failure)?;
        if as_json {
            let shown = json!({ "old_key": old_key, "new_key": new_key, "until_unix_seconds": until_unix_seconds });
            print(&format!("{shown:#}")).map_err(not_printed)?;
        } else {
            print(&new_key.to_string()).map_err(not_printed)?;
        }
        let replaced = format!("The key {old_key} was replaced by {new_key}; the old secret key is gone.");
        let rotated = (self.rotated)(until_unix_seconds.map(utc::text).as_deref());
        let dropped = dropped.iter().map(self.dropped);
        say([replaced, rotated].into_iter().chain(dropped).chain(self.restart(key_file, &new_key)));
        Ok(Exit::Done)
    }

    /// The hint for a program that runs with another key than the one in its file.
    fn restart(&self, key_file: &Path, key: &PublicKey) -> Option<String> {
        let holder = StateLock::holder(key_file).filter(|holder| holder.who != key.to_string())?;
        let (program, pid) = (self.program, holder.pid);
        Some(format!(
            "The running {program}, process {pid}, goes on with the key that it started with: restart it to use the new \
             one."
        ))
    }
}

/// Says these on standard error: standard output has the key alone, for scripts.
fn say(lines: impl Iterator<Item = String>) {
    let lines: Vec<_> = lines.collect();
    // The text cannot be shown when standard error is closed.
    let _ = writeln!(std::io::stderr(), "{}", lines.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a service manager started a program again for ever that may not read its key.
    #[test]
    fn a_key_that_no_restart_mends_is_an_error_of_settings() {
        let of = |kind: ErrorKind| failure(KeyFileError::File { path: "miner.key".into(), source: kind.into() }).exit;
        for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem, ErrorKind::NotADirectory] {
            assert_eq!(of(kind), Exit::Config, "{kind}");
        }
        assert_eq!([ErrorKind::NotFound, ErrorKind::StorageFull].map(of), [Exit::Io; 2]);
    }
}
