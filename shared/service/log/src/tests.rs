//! Tests of logs in folders, with known answers.

mod proofs;
mod tampering;
mod vectors;
mod witnessing;

use std::path::Path;

use assay_protocol::identity::Identity;
use assay_work::ChallengeId;

use crate::checkpoint::log_key;
use crate::entry::VerdictEntry;
use crate::error::LogError;
use crate::note::NoteKey;
use crate::source::Source;
use crate::tree::TreeReader;
use crate::verify::{VerifiedLog, verify, verify_listed};
use crate::writer::LogWriter;

const SEED: [u8; 32] = [7; 32];

fn identity() -> Identity {
    Identity::from_seed(&SEED)
}

fn key() -> NoteKey {
    log_key(identity().public_key())
}

/// An entry of its own for each number; every third has no receipt.
fn entry(number: u64) -> VerdictEntry {
    let challenge = ChallengeId(u128::from(number).to_be_bytes());
    let receipt = format!("receipt {number}");
    VerdictEntry::of(challenge, &format!("verdict {number}"), (!number.is_multiple_of(3)).then_some(&*receipt))
}

fn entries(numbers: std::ops::Range<u64>) -> Vec<VerdictEntry> {
    numbers.map(entry).collect()
}

/// A log of so many entries, appended in parts.
fn log(folder: &Path, size: u64, part: u64) -> LogWriter {
    let mut writer = LogWriter::open(folder, identity()).unwrap();
    for low in (writer.size()..size).step_by(part as usize) {
        writer.append(&entries(low..size.min(low + part))).unwrap();
    }
    writer
}

fn source(folder: &Path) -> Source {
    Source::Folder(folder.to_owned())
}

async fn verified(folder: &Path) -> VerifiedLog {
    verify(&source(folder), &key(), &[]).await.unwrap()
}

#[tokio::test]
async fn a_log_goes_on_where_it_was_and_verifies_at_every_size() {
    let folder = tempfile::tempdir().unwrap();
    for (size, part) in [(0, 1), (1, 1), (5, 1), (255, 250), (256, 1), (257, 1), (700, 300), (1300, 7)] {
        // Each time a new process.
        let writer = log(folder.path(), size, part);
        let found = verified(folder.path()).await;
        assert_eq!((found.problems, found.uncommitted), (vec![], 0), "{size}");
        let checkpoint = found.checkpoint.unwrap();
        assert_eq!((checkpoint.size, checkpoint.root), (size, writer.checkpoint().checkpoint.root));
        assert_eq!(TreeReader::new(&source(folder.path()), size).root().await.unwrap(), checkpoint.root);
    }
    let whole = tempfile::tempdir().unwrap();
    let at_once = log(whole.path(), 1300, 1300);
    assert_eq!(at_once.checkpoint().checkpoint, log(folder.path(), 1300, 1).checkpoint().checkpoint);
    let tiles = |kind: &str| std::fs::read_dir(whole.path().join("tile").join(kind)).unwrap().count();
    // Five full ones and the partial one of 20; of level 1 the partial one of 5.
    assert_eq!((tiles("0"), tiles("entries"), tiles("1")), (6, 6, 1));
    assert!(whole.path().join("tile/entries/005.p/20").is_file() && whole.path().join("tile/1/000.p/5").is_file());
}

/// Whatever files of an append a crash leaves, with the checkpoint of before, the log is that of before; then another
/// entry comes.
#[tokio::test]
async fn a_crash_at_any_point_leaves_a_log_that_goes_on() {
    let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    log(before.path(), 200, 50);
    log(after.path(), 200, 50);
    log(after.path(), 600, 400);
    let mut new: Vec<_> = crate::file::files(after.path()).unwrap();
    new.retain(|name| name != "checkpoint" && !before.path().join(name).exists());
    new.sort();
    assert!(new.len() > 5, "{new:?}");
    for left in 0..=new.len() {
        let crashed = tempfile::tempdir().unwrap();
        log(crashed.path(), 200, 50);
        for name in &new[..left] {
            crate::file::replace(&crashed.path().join(name), &std::fs::read(after.path().join(name)).unwrap()).unwrap();
        }
        std::fs::write(crashed.path().join("checkpoint.new"), "half").unwrap();
        let found = verified(crashed.path()).await;
        assert_eq!((found.problems, found.uncommitted), (vec![], left), "the log of before");
        let mut writer = LogWriter::open(crashed.path(), identity()).unwrap();
        assert_eq!(writer.size(), 200);
        for number in 1000..1250 {
            writer.append(&[entry(number)]).unwrap();
        }
        assert_eq!(verified(crashed.path()).await.problems, Vec::<String>::new());
    }
}

/// Regression test: a live log did not hold where a tile filled, which removes its partial ones, while it was checked.
#[tokio::test]
async fn a_log_that_grows_while_it_is_verified_holds() {
    let folder = tempfile::tempdir().unwrap();
    let partial = folder.path().join("tile/0/000.p/200");
    log(folder.path(), 250, 50);
    let listed = || Some(crate::verify::files(folder.path()).unwrap());
    let problems = async |files| verify_listed(&source(folder.path()), files, &key(), &[]).await.unwrap().problems;
    let files = listed();
    std::fs::rename(&partial, folder.path().join("aside")).unwrap();
    let gone = problems(files).await;
    assert!(gone.len() == 1 && gone[0].starts_with("tile/0/000.p/200 is"), "{gone:?}");
    std::fs::rename(folder.path().join("aside"), &partial).unwrap();
    let files = listed();
    log(folder.path(), 300, 50);
    assert!(!partial.exists());
    assert_eq!(problems(files).await, Vec::<String>::new());
}

/// Regression test: a backup whose tiles filled after its checkpoint was taken could not be opened.
#[tokio::test]
async fn a_copy_of_a_log_that_grew_meanwhile_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    log(folder.path(), 250, 50);
    let checkpoint = std::fs::read(folder.path().join("checkpoint")).unwrap();
    log(folder.path(), 300, 50);
    std::fs::write(folder.path().join("checkpoint"), checkpoint).unwrap();
    let found = verified(folder.path()).await;
    assert_eq!((found.problems, found.checkpoint.unwrap().size), (vec![], 250));
    let writer = log(folder.path(), 251, 1);
    assert_eq!((verified(folder.path()).await.problems, writer.size()), (vec![], 251));
}

/// Regression test: a folder of partial tiles that was removed meanwhile was an error.
#[test]
fn folders_that_vanish_are_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |number: usize| folder.path().join(format!("{number:03}.p"));
    std::fs::write(folder.path().join("checkpoint"), "").unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                (0..50).for_each(|number| std::fs::create_dir(path(number)).unwrap());
                (0..50).for_each(|number| std::fs::remove_dir(path(number)).unwrap());
            }
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
            assert_eq!(crate::file::files(folder.path()).unwrap(), ["checkpoint"]);
        }
    });
    assert!(crate::file::files(&path(0)).is_err(), "the folder itself");
}

/// The checkpoint comes last: where a tile or a bundle cannot be written, nothing was appended.
#[tokio::test]
async fn an_append_that_fails_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = log(folder.path(), 200, 200);
    for name in ["tile/0/000", "tile/0/001.p", "tile/1", "tile/entries/001.p"] {
        let path = folder.path().join(name);
        // A folder in the place of a file, or a file in that of a folder.
        if name == "tile/0/000" {
            std::fs::create_dir(&path).unwrap();
        } else {
            std::fs::write(&path, "x").unwrap();
        }
        assert!(matches!(writer.append(&entries(200..300)), Err(LogError::File { .. })), "{name}");
        let _ = std::fs::remove_dir(&path).or_else(|_| std::fs::remove_file(&path));
        let found = verified(folder.path()).await;
        assert_eq!((found.problems, found.checkpoint.unwrap().size, writer.size()), (vec![], 200, 200), "{name}");
    }
    writer.append(&entries(200..300)).unwrap();
    assert_eq!(verified(folder.path()).await.checkpoint.unwrap().size, 300);
}

#[test]
fn a_log_that_is_not_its_own_is_not_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(folder.path(), 300, 300);
    let open = |identity| LogWriter::open(folder.path(), identity).map(|writer| writer.size());
    let refused =
        |opened: Result<u64, LogError>| assert!(matches!(opened, Err(LogError::Inconsistent(_))), "{opened:?}");
    refused(open(Identity::from_seed(&[8; 32])));
    let file = folder.path().join("checkpoint");
    std::fs::remove_file(&file).unwrap();
    refused(open(identity()));
    std::fs::write(&file, &writer.checkpoint().note).unwrap();
    assert_eq!(open(identity()).unwrap(), 300);
    let tile = folder.path().join("tile/0/001.p/44");
    let mut bytes = std::fs::read(&tile).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&tile, &bytes).unwrap();
    refused(open(identity()));
}
