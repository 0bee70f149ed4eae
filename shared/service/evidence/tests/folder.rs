//! A folder: kept evidence is there and whole, changed evidence is refused, and limits remove evidence that is not
//! needed.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use assay_evidence::{
    Digest, EvidenceError, EvidenceLocation, EvidenceStore, MAX_CONTENT_BYTES, NamedEvidence, Spool, StoreLimits,
    StoredObject, YOUNG,
};

fn open(folder: &Path) -> EvidenceStore {
    EvidenceStore::open(&EvidenceLocation::Folder(folder.into()), Path::new("unused")).unwrap()
}

/// Bytes that look random, the same for a seed.
fn noise(seed: u8, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut noise);
    noise
}

fn spooled(store: &EvidenceStore, content: &[u8]) -> Spool {
    let mut spool = store.spool().unwrap();
    content.chunks(100_000).for_each(|part| spool.write(part).unwrap());
    spool
}

async fn keep(store: &EvidenceStore, content: &[u8]) -> StoredObject {
    store.keep(spooled(store, content).finish().unwrap(), false).await.unwrap()
}

async fn content(store: &EvidenceStore, digest: &Digest) -> Result<Vec<u8>, EvidenceError> {
    let mut content = Vec::new();
    store.read(digest).await?.read_to_end(&mut content).unwrap();
    Ok(content)
}

fn file(folder: &Path, digest: &Digest) -> std::path::PathBuf {
    folder.join(format!("{digest}.zst"))
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[tokio::test]
async fn an_object_is_named_by_the_bytes_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for (seed, bytes) in [(0, 0), (1, 1), (2, 1 << 20), (3, 5_000_001)] {
        let what = noise(seed, bytes);
        let stored = keep(&store, &what).await;
        let object = fs::read(file(folder.path(), &stored.digest)).unwrap();
        assert_eq!(stored.digest.0, *blake3::hash(&object).as_bytes());
        assert_eq!((stored.bytes, stored.stored_bytes), (bytes as u64, object.len() as u64));
        assert_eq!(content(&store, &stored.digest).await.unwrap(), what);
        assert_eq!(keep(&store, &what).await, stored, "the same content is the same object");
    }
    assert_eq!(files(folder.path()), 4, "nothing else is left");
    assert_eq!(store.list().await.unwrap().len(), 4);
}

#[tokio::test]
async fn what_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let spool = spooled(&store, &noise(1, 1 << 20));
    assert_eq!(files(folder.path()), 1);
    drop(spool);
    drop(spooled(&store, &noise(2, 1 << 20)).finish().unwrap());
    assert_eq!(files(folder.path()), 0);
}

#[tokio::test]
async fn an_object_that_was_changed_is_refused_before_it_is_decompressed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let stored = keep(&store, &noise(1, 300_000)).await;
    let path = file(folder.path(), &stored.digest);
    let object = fs::read(&path).unwrap();
    for at in [0, 5, object.len() / 2, object.len() - 1] {
        let mut changed = object.clone();
        changed[at] ^= 1;
        fs::write(&path, &changed).unwrap();
        let refused = store.read(&stored.digest).await.unwrap_err();
        let found = Digest(*blake3::hash(&changed).as_bytes());
        assert!(
            matches!(refused, EvidenceError::Tampered { expected, found: other } if expected == stored.digest && other == found),
            "{refused}"
        );
    }
    fs::write(&path, &object[..object.len() - 1]).unwrap();
    assert!(matches!(store.read(&stored.digest).await, Err(EvidenceError::Tampered { .. })), "cut off");
    fs::remove_file(&path).unwrap();
    assert!(matches!(store.read(&stored.digest).await, Err(EvidenceError::Missing(digest)) if digest == stored.digest));
}

/// An object of this test's making: its name is right, but the store never writes such an object.
async fn planted(folder: &Path, object: &[u8]) -> std::io::Result<usize> {
    let store = open(folder);
    let digest = Digest(*blake3::hash(object).as_bytes());
    fs::write(file(folder, &digest), object)?;
    let mut reader = store.read(&digest).await.map_err(std::io::Error::other)?;
    let (mut part, mut read) = (vec![0; 1 << 20], 0);
    loop {
        match reader.read(&mut part)? {
            0 => return Ok(read),
            more => read += more,
        }
        assert!(read as u64 <= MAX_CONTENT_BYTES, "more came out than any object holds");
    }
}

#[tokio::test]
async fn a_bomb_ends_at_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let zeros = vec![0; 1 << 20];
    let mut bomb = zstd::Encoder::new(Vec::new(), 1).unwrap();
    bomb.window_log(20).unwrap();
    for _ in 0..=MAX_CONTENT_BYTES >> 20 {
        bomb.write_all(&zeros).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 1 << 20, "{} bytes", bomb.len());
    let refused = planted(folder.path(), &bomb).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidData, "{refused}");
}

#[tokio::test]
async fn an_object_that_asks_for_much_memory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut large = zstd::Encoder::new(Vec::new(), 1).unwrap();
    large.window_log(27).unwrap();
    // A window is as large as the content at most.
    large.include_contentsize(false).unwrap();
    large.write_all(&noise(1, 3 << 20)).unwrap();
    assert!(planted(folder.path(), &large.finish().unwrap()).await.is_err());
    assert!(planted(folder.path(), b"no zstd at all").await.is_err());
}

/// Evidence of a miner of its own, larger than its share.
fn large(digest: Digest, is_stranger: bool) -> NamedEvidence {
    NamedEvidence { digest, bytes: 1 << 40, miner: digest.to_string(), is_stranger }
}

#[tokio::test]
async fn limits_remove_the_oldest_that_nobody_needs() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let start = SystemTime::now();
    let at = |hours: u64| start + Duration::from_secs(3600 * hours);
    let write = async |seed: u8, hours: u64| {
        let stored = keep(&store, &noise(seed, 100_000)).await;
        let written = fs::File::options().write(true).open(file(folder.path(), &stored.digest)).unwrap();
        written.set_modified(at(hours)).unwrap();
        stored
    };
    let mut objects = Vec::new();
    for seed in 0..5_u8 {
        objects.push(write(seed, u64::from(seed) * 10).await);
    }
    let digests: Vec<_> = objects.iter().map(|stored| stored.digest).collect();
    let needed = digests[1];
    let is_needed = move |digest: &Digest| *digest == needed;
    let nothing = StoreLimits::default();
    let swept = store.sweep(&nothing, &[], &is_needed, at(1000)).await.unwrap();
    assert_eq!((swept.removed, swept.kept), (vec![], 5), "no limits");

    // The third is young while it is not an hour old.
    let of_age = StoreLimits { max_age: Some(Duration::from_secs(60)), max_bytes: None };
    let swept = store.sweep(&of_age, &[], &is_needed, at(20) + YOUNG - Duration::from_secs(1)).await.unwrap();
    assert_eq!(swept.removed, [digests[0]], "the second is needed, the third young, the others younger");

    let size = objects[4].stored_bytes;
    let of_size = StoreLimits { max_age: None, max_bytes: Some(2 * size + size / 2) };
    let swept = store.sweep(&of_size, &[large(digests[4], false)], &is_needed, at(100)).await.unwrap();
    assert_eq!(
        (swept.removed, swept.kept, swept.bytes_over),
        (vec![digests[4], digests[2]], 2, 0),
        "excess goes first"
    );
    let least = StoreLimits { max_age: None, max_bytes: Some(1) };
    let swept = store.sweep(&least, &[], &is_needed, at(100)).await.unwrap();
    assert_eq!((swept.removed, swept.kept), (vec![digests[3]], 1));
    assert_eq!(swept.bytes_over, objects[1].stored_bytes - 1, "what is needed stays, and is said");
    assert!(content(&store, &needed).await.is_ok());

    let [old, other] = [write(5, 0).await.digest, write(6, 50).await.digest];
    let both = StoreLimits { max_age: Some(Duration::from_secs(65 * 3600)), ..of_size };
    let swept = store.sweep(&both, &[large(other, false)], &is_needed, at(100)).await.unwrap();
    assert_eq!((swept.removed, swept.kept), (vec![old], 2), "what is old makes room for excess");
    // Strangers have a part of the limit, however young and needed; evidence that is elsewhere takes none of it.
    store.limit(Some(1 << 40));
    let elsewhere = large(digests[0], true);
    let named = [elsewhere, NamedEvidence { bytes: 1, ..large(other, true) }, large(needed, true)];
    let swept = store.sweep(&nothing, &named, &is_needed, start).await.unwrap();
    assert_eq!((swept.removed, swept.kept), (vec![needed], 1));
}

/// Regression test: a sweep that could not remove an object said nothing of those before it, which the records had as
/// kept for ever.
#[tokio::test]
async fn a_sweep_that_fails_tells_the_objects_it_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (mut objects, start) = (Vec::new(), SystemTime::now());
    for seed in 0..3_u8 {
        let stored = keep(&store, &noise(seed, 100_000)).await;
        let written = fs::File::options().write(true).open(file(folder.path(), &stored.digest)).unwrap();
        written.set_modified(start + Duration::from_secs(u64::from(seed))).unwrap();
        objects.push(stored);
    }
    let second = file(folder.path(), &objects[1].digest);
    let damaged = objects[1].digest;
    // A folder in the place of the second file cannot be removed as one.
    let is_needed = move |digest: &Digest| {
        if *digest == damaged {
            fs::remove_file(&second).unwrap();
            fs::create_dir(&second).unwrap();
        }
        false
    };
    let all = StoreLimits { max_age: Some(Duration::ZERO), max_bytes: None };
    let swept = store.sweep(&all, &[], &is_needed, start + 2 * YOUNG).await.unwrap();
    assert!(swept.failure.is_some());
    assert_eq!((swept.removed, swept.kept), (vec![objects[0].digest], 2));
}

#[tokio::test]
async fn temporary_files_of_the_dead_are_removed_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let (dead, living) = (folder.path().join(".spool-dead"), folder.path().join(".spool-living"));
    for path in [&dead, &living] {
        fs::write(path, b"x").unwrap();
    }
    let long_ago = SystemTime::now() - Duration::from_secs(3 * 86_400);
    fs::File::options().write(true).open(&dead).unwrap().set_modified(long_ago).unwrap();
    let store = open(folder.path());
    assert!(!dead.exists() && living.exists());
    assert!(store.list().await.unwrap().is_empty(), "no object has such a name");
}

#[tokio::test]
async fn too_much_content_is_refused_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path()).spool().unwrap();
    let zeros = vec![0; 64 << 20];
    for _ in 0..MAX_CONTENT_BYTES >> 26 {
        spool.write(&zeros).unwrap();
    }
    assert!(matches!(spool.write(b"x"), Err(EvidenceError::TooLarge)));
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"").unwrap();
    let location = EvidenceLocation::Folder(file.join("evidence"));
    assert!(matches!(EvidenceStore::open(&location, Path::new("unused")), Err(EvidenceError::File { .. })));
}
