//! A log of 10,000 entries, changed in every way: `verify` says so.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{key, log, source, verified};
use crate::checkpoint::Checkpoint;
use crate::hash::Hash;
use crate::note::NoteKey;
use crate::tile::{Tile, TileKind};
use crate::verify::verify;
use crate::witness::Witness;

const SIZE: u64 = 10_000;

/// A cosigned log, and its files: partial tiles of five checkpoints among them.
struct Fixture {
    folder: tempfile::TempDir,
    witness: NoteKey,
    files: Vec<PathBuf>,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = log(folder.path(), 9_990, 999);
        for _ in 0..4 {
            writer = log(folder.path(), writer.size() + 2, 2);
        }
        drop(writer);
        let mut writer = log(folder.path(), SIZE, 2);
        let witness = cosign(&mut writer);
        let files = crate::file::files(folder.path()).unwrap().iter().map(|file| folder.path().join(file)).collect();
        Self { folder, witness, files }
    }

    async fn problems(&self) -> Vec<String> {
        let witnesses = std::slice::from_ref(&self.witness);
        verify(&source(self.folder.path()), &key(), witnesses).await.unwrap().problems
    }

    /// The files of a kind, full or partial; other files as `None`.
    fn group(&self, kind: Option<TileKind>, is_full: bool) -> Vec<&PathBuf> {
        let is_one = |path: &&PathBuf| {
            let tile = self.name(path).parse::<Tile>().ok();
            tile.map(|tile| tile.kind) == kind && tile.is_none_or(|tile| (tile.width == 256) == is_full)
        };
        self.files.iter().filter(is_one).collect()
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.folder.path()).unwrap().to_str().unwrap().to_owned()
    }

    /// Flips a bit of one byte in each of these files at once, and expects each to be named.
    async fn flip(&self, group: &[&PathBuf], at: usize) {
        let before: Vec<_> = group.iter().map(|path| std::fs::read(path).unwrap()).collect();
        let mut flipped = Vec::new();
        for (path, bytes) in group.iter().zip(&before).filter(|(_, bytes)| at < bytes.len()) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(path, bytes).unwrap();
            flipped.push(self.name(path));
        }
        let problems = self.problems().await;
        for name in &flipped {
            // An entry that is another one shows in the tile above.
            let above = name.replace("entries", "0");
            let is_named = |problem: &String| problem.contains(name.as_str()) || problem.contains(&above);
            assert!(problems.iter().any(is_named) || name == "checkpoint", "byte {at} of {name}: {problems:?}");
        }
        assert_eq!(problems.is_empty(), flipped.is_empty(), "byte {at} of {flipped:?}");
        group.iter().zip(before).for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    }

    fn groups(&self) -> Vec<Vec<&PathBuf>> {
        let mut groups = vec![self.group(None, false)];
        for kind in [TileKind::Entries, TileKind::Hashes(0), TileKind::Hashes(1)] {
            groups.push(self.group(Some(kind), true));
            // Of one index: alone each.
            groups.extend(self.group(Some(kind), false).into_iter().map(|path| vec![path]));
        }
        groups.retain(|group| !group.is_empty());
        let covered: BTreeSet<_> = groups.iter().flatten().collect();
        assert_eq!(covered.len(), self.files.len(), "every file is in a group");
        groups
    }
}

fn cosign(writer: &mut crate::writer::LogWriter) -> NoteKey {
    let secret = assay_protocol::identity::Identity::from_seed(&[5; 32]);
    let witness = Witness::new(Path::new(""), secret.clone(), Vec::new()).key().clone();
    writer.cosign(&witness.sign(&secret, &writer.checkpoint().checkpoint.text(), 1)).unwrap();
    witness
}

fn longest(group: &[&PathBuf]) -> usize {
    group.iter().map(|path| path.metadata().unwrap().len()).max().unwrap() as usize
}

#[tokio::test]
async fn a_flipped_byte_in_any_file_is_seen() {
    let log = Fixture::new();
    assert_eq!(log.problems().await, Vec::<String>::new());
    for group in log.groups() {
        let length = longest(&group);
        for at in (0..length).step_by(length / 5) {
            log.flip(&group, at).await;
        }
        log.flip(&group, length - 1).await;
    }
    assert_eq!(log.problems().await, Vec::<String>::new(), "all is as it was");
}

/// Minutes with `CARGO_PROFILE_DEV_OPT_LEVEL=3`, a day without.
#[tokio::test]
#[ignore = "every byte: CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo test -p assay-log -- --ignored"]
async fn every_flipped_byte_is_seen() {
    let log = Fixture::new();
    for group in log.groups() {
        for at in 0..longest(&group) {
            log.flip(&group, at).await;
        }
    }
}

#[tokio::test]
async fn truncated_missing_foreign_and_reordered_files_are_seen() {
    let log = Fixture::new();
    let seen = async |what: &str| assert_ne!(log.problems().await, Vec::<String>::new(), "{what}");
    for group in log.groups() {
        let path = group[0];
        let (before, name) = (std::fs::read(path).unwrap(), log.name(path));
        for cut in [0, before.len() / 2, before.len() - 1] {
            std::fs::write(path, &before[..cut]).unwrap();
            seen(&format!("{name} of {cut} bytes")).await;
        }
        std::fs::write(path, [&before[..], b"x"].concat()).unwrap();
        seen(&format!("{name} with a byte more")).await;
        std::fs::write(path, &before).unwrap();
    }
    for name in ["checkpoint", "tile/entries/003", "tile/0/003", "tile/1/000.p/39", "tile/entries/039.p/16"] {
        let (path, aside) = (log.folder.path().join(name), log.folder.path().join("../aside"));
        std::fs::rename(&path, &aside).unwrap();
        seen(&format!("{name} is gone")).await;
        std::fs::rename(&aside, &path).unwrap();
    }
    for (one, other) in [("tile/entries/003", "tile/entries/004"), ("tile/0/003", "tile/0/004")] {
        let read = |name: &str| std::fs::read(log.folder.path().join(name)).unwrap();
        let (a, b) = (read(one), read(other));
        for (name, bytes) in [(one, &b), (other, &a)] {
            std::fs::write(log.folder.path().join(name), bytes).unwrap();
        }
        seen(&format!("{one} and {other} swapped")).await;
        for (name, bytes) in [(one, &a), (other, &b)] {
            std::fs::write(log.folder.path().join(name), bytes).unwrap();
        }
    }
    // Entries 1 and 2, which have one length, and their hashes.
    for (name, from, length) in [("tile/entries/000", 148 + 2, 210), ("tile/0/000", 32, 32)] {
        let path = log.folder.path().join(name);
        let before = std::fs::read(&path).unwrap();
        let mut after = before.clone();
        after[from..from + 2 * length].rotate_left(length);
        std::fs::write(&path, after).unwrap();
        seen(&format!("{name} reordered")).await;
        std::fs::write(&path, before).unwrap();
    }
    let foreign = log.folder.path().join("tile/notes.txt");
    std::fs::write(&foreign, "x").unwrap();
    seen("a foreign file").await;
    std::fs::remove_file(foreign).unwrap();
    assert_eq!(log.problems().await, Vec::<String>::new(), "all is as it was");
}

/// The validator itself signs two verdicts for one challenge.
#[tokio::test]
async fn a_challenge_that_is_logged_twice_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = log(folder.path(), 300, 300);
    writer.append(&[super::VerdictEntry { verdict: [0; 32], ..super::entry(7) }]).unwrap();
    let problems = verified(folder.path()).await.problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].ends_with("is in the log twice"), "{problems:?}");
}

/// The validator itself signs a root that is not its entries', and a witness that is asked for did not cosign it.
#[tokio::test]
async fn a_false_root_and_an_absent_witness_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(folder.path(), 300, 300);
    let witness = Witness::new(folder.path(), super::identity(), Vec::new()).key().clone();
    let problems = verify(&source(folder.path()), &key(), &[witness]).await.unwrap().problems;
    assert!(problems.len() == 1 && problems[0].ends_with("did not cosign the checkpoint"), "{problems:?}");
    let checkpoint = Checkpoint { root: Hash([1; 32]), ..writer.checkpoint().checkpoint.clone() };
    std::fs::write(folder.path().join("checkpoint"), checkpoint.sign(&super::identity())).unwrap();
    assert_eq!(verified(folder.path()).await.problems, ["the root of the checkpoint is not that of the entries"]);
}
