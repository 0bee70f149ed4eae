use std::fs;
use std::time::Duration;

use super::*;
use crate::successor::{MAX_OVERLAP_S, follow};

const NOW: u64 = 1_800_000_000;
const DAY: Duration = Duration::from_secs(86_400);

fn rotate(path: &Path, overlap: Duration, now: u64) -> KeyRotation {
    Rotation::begin(path, now).unwrap().finish(overlap, now).unwrap()
}

/// The identity in a file as it is at this time.
fn at(path: &Path, now: u64) -> Identity {
    following(read_key(path).unwrap().unwrap(), path, now).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_key_is_made_once_and_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/miner.key");
    let first = Identity::load_or_create(&path).unwrap();
    let again = Identity::load_or_create(&path).unwrap();
    assert_eq!(first.public_key(), again.public_key());
    assert!(first.successors().is_empty() && first.origin() == first.public_key());
    let other = Identity::load_or_create(&folder.path().join("other.key")).unwrap();
    assert_ne!(first.public_key(), other.public_key());
    assert_eq!(names(&folder.path().join("state")), ["miner.key"], "nothing is left beside it");
}

/// Two daemons that start at once have one key.
#[test]
fn a_key_that_many_make_at_once_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("miner.key");
    let keys = std::thread::scope(|scope| {
        let made: Vec<_> = (0..8).map(|_| scope.spawn(|| Identity::load_or_create(&path).unwrap())).collect();
        made.into_iter().map(|made| made.join().unwrap().public_key()).collect::<std::collections::BTreeSet<_>>()
    });
    assert_eq!(keys.len(), 1);
    assert_eq!(names(folder.path()), ["miner.key"]);
}

#[cfg(unix)]
#[test]
fn a_key_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.key");
    Identity::load_or_create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for mode in [0o640, 0o604, 0o620, 0o602, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = Identity::load_or_create(&path).unwrap_err();
        assert!(matches!(error, KeyFileError::Exposed { mode: found, .. } if found == mode), "{error}");
        assert!(Rotation::begin(&path, NOW).is_err(), "an exposed key is not rotated: it vouches for nobody");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    Identity::load_or_create(&path).unwrap();
}

#[test]
fn a_malformed_key_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.key");
    Identity::load_or_create(&path).unwrap();
    let good = fs::read_to_string(&path).unwrap();
    for bad in ["", "not a key\n", &good[1..], &good.to_uppercase(), &format!("{good}{good}"), &"a".repeat(5000)] {
        fs::write(&path, bad).unwrap();
        assert!(matches!(Identity::load_or_create(&path), Err(KeyFileError::Malformed(_))), "{bad}");
        assert_eq!(fs::read_to_string(&path).unwrap(), *bad);
    }
    fs::write(&path, good.trim_end()).unwrap();
    Identity::load_or_create(&path).unwrap();
}

#[test]
fn what_is_no_file_is_refused_and_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let error = Identity::load_or_create(folder.path()).unwrap_err();
    assert!(matches!(error, KeyFileError::NoFile(_)) && error.to_string().contains("miner.key"), "{error}");
    // It has no end.
    #[cfg(unix)]
    assert!(matches!(Identity::load_or_create(Path::new("/dev/zero")), Err(KeyFileError::NoFile(_))));
    // To open it would block until a writer does too.
    #[cfg(unix)]
    {
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().unwrap();
        assert!(made.success());
        assert!(matches!(Identity::load_or_create(&pipe), Err(KeyFileError::NoFile(_))));
    }
}

#[test]
fn a_rotated_key_is_followed_from_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("miner.key");
    let old = Identity::load_or_create(&path).unwrap();
    let old_text = fs::read_to_string(&path).unwrap();
    let rotated = rotate(&path, DAY, NOW);
    let new = at(&path, NOW);
    assert_eq!((rotated.old_key, rotated.new_key), (old.public_key(), new.public_key()));
    assert_eq!(rotated.until_unix_seconds, Some(NOW + 86_400));
    assert!(follow(&old.public_key(), &new.public_key(), new.successors(), NOW));
    assert_eq!(new.origin(), old.public_key(), "ids of devices stay");
    assert!(at(&path, NOW + 86_400).successors().is_empty(), "what has expired is not sent");
    assert_eq!(names(folder.path()), ["miner.key", "miner.key.successors"]);
    for name in names(folder.path()) {
        let text = fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(!text.contains(old_text.trim_end()), "the old secret is in no file");
    }
}

/// A link stays one: the file that it names is replaced.
#[cfg(unix)]
#[test]
fn a_key_behind_a_link_is_rotated_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("secret")).unwrap();
    let (path, target) = (folder.path().join("miner.key"), folder.path().join("secret/a.key"));
    let old = Identity::load_or_create(&target).unwrap().public_key();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    let new = rotate(&path, DAY, NOW).new_key;
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(read_key(&target).unwrap().unwrap().public_key(), new);
    assert!(follow(&old, &new, at(&path, NOW).successors(), NOW));
    assert_eq!(names(folder.path()), ["miner.key", "miner.key.successors", "secret"]);
}

#[cfg(unix)]
#[test]
fn what_a_rotation_writes_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("miner.key");
    Identity::load_or_create(&path).unwrap();
    rotate(&path, DAY, NOW);
    for name in names(folder.path()) {
        let mode = fs::metadata(folder.path().join(&name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
}

#[test]
fn a_rotation_that_stops_anywhere_leaves_a_key_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("miner.key");
    let old = Identity::load_or_create(&path).unwrap().public_key();
    for steps in 0..=3 {
        let rotation = Rotation::begin(&path, NOW).unwrap();
        let (seed, rotated, statements) = rotation.prepare(DAY, NOW).unwrap();
        if steps > 0 {
            rotation.write_key(&seed).unwrap();
        }
        if steps > 1 {
            rotation.write_statements(&statements).unwrap();
        }
        if steps > 2 {
            rotation.install().unwrap();
        }
        drop(rotation);
        let found = at(&path, NOW);
        let (key, followed) = if steps < 3 { (old, 0) } else { (rotated.new_key, 1) };
        assert_eq!((found.public_key(), found.successors().len(), found.origin()), (key, followed, old), "{steps}");
    }
    // The files of a rotation that stopped do not hinder the next one.
    let next = rotate(&path, DAY, NOW);
    let found = at(&path, NOW);
    assert_eq!((found.public_key(), found.successors().len()), (next.new_key, 2));
    assert!(follow(&old, &next.new_key, found.successors(), NOW));
    assert_eq!(names(folder.path()), ["miner.key", "miner.key.successors"]);
}

#[test]
fn one_rotation_runs_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("miner.key");
    Identity::load_or_create(&path).unwrap();
    let first = Rotation::begin(&path, NOW).unwrap();
    assert!(matches!(Rotation::begin(&path, NOW), Err(KeyFileError::Busy(_))));
    first.finish(DAY, NOW).unwrap();
    rotate(&path, DAY, NOW);
    assert!(matches!(Rotation::begin(&folder.path().join("none"), NOW), Err(KeyFileError::File { .. })));
}

#[test]
fn a_ninth_rotation_drops_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("miner.key");
    let first = Identity::load_or_create(&path).unwrap().public_key();
    let second = rotate(&path, DAY, NOW).new_key;
    for _ in 0..7 {
        assert_eq!(rotate(&path, DAY, NOW).dropped, None);
    }
    assert!(follow(&first, &at(&path, NOW).public_key(), at(&path, NOW).successors(), NOW));
    assert_eq!(rotate(&path, DAY, NOW).dropped, Some(first));
    let last = at(&path, NOW);
    assert!(!follow(&first, &last.public_key(), last.successors(), NOW));
    assert!(follow(&second, &last.public_key(), last.successors(), NOW));
    assert_eq!(last.origin(), first);
}

#[test]
fn without_an_overlap_nobody_follows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("miner.key");
    let first = Identity::load_or_create(&path).unwrap().public_key();
    rotate(&path, DAY, NOW);
    let rotated = rotate(&path, Duration::ZERO, NOW);
    assert_eq!(rotated.until_unix_seconds, None);
    let last = at(&path, NOW);
    assert!(last.successors().is_empty() && last.origin() == first);
    assert_eq!(rotate(&path, Duration::MAX, NOW).until_unix_seconds, Some(NOW + MAX_OVERLAP_S));
}

#[test]
fn malformed_statements_are_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("miner.key");
    Identity::load_or_create(&path).unwrap();
    rotate(&path, DAY, NOW);
    let file = successors_file(&path);
    let good = fs::read_to_string(&file).unwrap();
    let origin = good.lines().next().unwrap();
    let long = format!("{origin}\n{}", format!("{}\n", good.lines().nth(1).unwrap()).repeat(9));
    for bad in ["", "origin\n", &good[1..], &good[..good.len() - 2], &format!("{good}\n\n"), &long, "\u{ff}"] {
        fs::write(&file, bad).unwrap();
        let error = Identity::load_or_create(&path).unwrap_err();
        assert!(matches!(error, KeyFileError::MalformedSuccessors(_)), "{bad}: {error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), *bad);
    }
    fs::remove_file(&file).unwrap();
    assert!(Identity::load_or_create(&path).unwrap().successors().is_empty());
}
