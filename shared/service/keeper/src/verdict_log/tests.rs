//! The log across crashes and old copies.

use std::path::Path;

use assay_log::{Witness, verify};
use assay_records::Location;
use assay_work::ChallengeId;
use tokio::net::TcpListener;

use super::*;

fn challenge(number: u8) -> ChallengeId {
    ChallengeId([number; 16])
}

/// Records with a validator's log beside them.
struct Place {
    records: Records,
    folder: tempfile::TempDir,
    identity: Identity,
}

impl Place {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        Self { records, folder, identity: Identity::from_seed(&[7; 32]) }
    }

    /// The log as after a start.
    fn log(&self) -> VerdictLog {
        VerdictLog::new(self.records.clone(), self.folder.path().join("log"), self.identity.clone(), Vec::new())
    }

    fn own(&self) -> PathBuf {
        self.folder.path().join("log").join(self.identity.public_key().to_string())
    }

    async fn conclude(&self, number: u8) {
        let own = self.identity.public_key();
        let conclusion = crate::tests::conclusion(challenge(number), PublicKey([1; 32]), own, number);
        self.records.conclude(&conclusion).await.unwrap();
    }

    /// The indices of these challenges' verdicts, in a log that holds.
    async fn indices(&self, numbers: std::ops::RangeInclusive<u8>) -> Vec<Option<u64>> {
        let found = verify(&Source::Folder(self.own()), &log_key(self.identity.public_key()), &[]).await.unwrap();
        assert_eq!(found.problems, Vec::<String>::new());
        let mut indices = Vec::new();
        for number in numbers {
            let index = self.records.log_index(&challenge(number).to_string()).await.unwrap();
            indices.push(index.map(|(_, index)| index));
        }
        indices
    }
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test]
async fn a_verdict_is_logged_once_in_order_wherever_a_crash_comes() {
    let place = Place::new().await;
    for number in [2, 3, 1] {
        place.conclude(number).await;
    }
    // Verdicts of before the log are taken up.
    let log = place.log();
    log.catch_up().await.unwrap();
    log.catch_up().await.unwrap();
    assert_eq!(place.indices(1..=4).await, [Some(0), Some(1), Some(2), None]);
    // A crash after the append, before the records know.
    place.conclude(4).await;
    let unlogged = place.records.unlogged(&place.identity.public_key().to_string(), 9).await.unwrap();
    let entry = VerdictEntry::of(challenge(4), &unlogged[0].document, None);
    LogWriter::open(&place.own(), place.identity.clone()).unwrap().append(&[entry]).unwrap();
    assert_eq!(place.indices(4..=4).await, [None]);
    let log = place.log();
    log.catch_up().await.unwrap();
    assert_eq!(place.indices(3..=4).await, [Some(2), Some(3)]);
    place.conclude(5).await;
    log.catch_up().await.unwrap();
    assert_eq!(place.indices(4..=5).await, [Some(3), Some(4)]);
    // Another batch.
    for number in 6..=255 {
        place.conclude(number).await;
    }
    log.catch_up().await.unwrap();
    place.log().catch_up().await.unwrap();
    assert_eq!(place.indices(255..=255).await, [Some(254)]);
}

/// Regression test: records of before some verdicts concluded their challenges as lost, and the log got them twice.
#[tokio::test]
async fn verdicts_that_the_log_has_and_restored_records_lack_are_not_appended_again() {
    let (place, mut restored) = (Place::new().await, Place::new().await);
    place.conclude(1).await;
    restored.conclude(1).await;
    for number in 2..=250 {
        place.conclude(number).await;
    }
    place.log().catch_up().await.unwrap();
    copy(&place.folder.path().join("log"), &restored.folder.path().join("log"));
    restored.identity = place.identity.clone();
    let log = restored.log();
    log.catch_up().await.unwrap();
    // Its index is beyond those that the records lack.
    restored.conclude(251).await;
    log.catch_up().await.unwrap();
    for number in [7, 252, 249] {
        restored.conclude(number).await;
    }
    log.catch_up().await.unwrap();
    assert_eq!(restored.indices(249..=252).await, [Some(248), None, Some(250), Some(251)]);
    assert_eq!(restored.indices(7..=7).await, [Some(6)]);
}

#[tokio::test]
async fn an_old_copy_of_the_log_is_not_appended_to() {
    let (place, aside) = (Place::new().await, tempfile::tempdir().unwrap());
    place.conclude(1).await;
    place.log().catch_up().await.unwrap();
    copy(&place.own(), &aside.path().join("old"));
    place.conclude(2).await;
    place.log().catch_up().await.unwrap();
    copy(&place.own(), &aside.path().join("new"));
    copy(&aside.path().join("old"), &place.own());
    place.conclude(3).await;
    let refused = place.log().catch_up().await.unwrap_err().to_string();
    assert!(refused.contains("the log has 1 entries and the records know of 2"), "{refused}");
    std::fs::remove_dir_all(place.own()).unwrap();
    assert!(place.log().catch_up().await.is_err() && !place.own().exists(), "nor is a new one begun");
    copy(&aside.path().join("new"), &place.own());
    place.log().catch_up().await.unwrap();
    assert_eq!(place.indices(1..=3).await, [Some(0), Some(1), Some(2)]);
}

/// A witness that takes connections and says nothing. Regression test: the cosignature of another one waited for it.
#[tokio::test]
async fn a_witness_that_hangs_holds_no_entry_and_no_cosignature_back() {
    let (place, own) = (Place::new().await, log_key(Identity::from_seed(&[7; 32]).public_key()));
    let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hangs = Witness::new(Path::new(""), Identity::from_seed(&[8; 32]), Vec::new()).key().clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let good = Witness::new(&place.folder.path().join("witness"), Identity::from_seed(&[9; 32]), vec![own.clone()]);
    let cosigns = good.key().clone();
    let address = |listener: &TcpListener, key: &NoteKey| {
        format!("http://{}#{key}", listener.local_addr().unwrap()).parse().unwrap()
    };
    let witnesses = vec![address(&hanging, &hangs), address(&listener, &cosigns)];
    tokio::spawn(good.serve(listener, || 1_700_000_000));
    let log = VerdictLog { witnesses, ..place.log() };
    place.conclude(1).await;
    let (source, begun) = (Source::Folder(place.own()), Instant::now());
    let caught_up = tokio::spawn(async move { log.catch_up().await });
    while !source.checkpoint().await.is_ok_and(|note| note.contains(cosigns.name())) {
        assert!(begun.elapsed() < WITNESS_LIMIT, "the other one is waited for");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    caught_up.await.unwrap().unwrap();
    assert_eq!(place.indices(1..=1).await, [Some(0)]);
    assert_eq!(verify(&source, &own, &[cosigns]).await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn no_other_file_is_given_out() {
    let place = Place::new().await;
    place.conclude(1).await;
    let log = place.log();
    log.catch_up().await.unwrap();
    let key = place.identity.public_key().to_string();
    assert!(log.read(&key, "checkpoint").await.unwrap().is_some_and(|(_, changes)| changes));
    assert!(log.read(&key, "tile/entries/000.p/1").await.unwrap().is_some_and(|(_, changes)| !changes));
    for (key, path) in [
        (&*key, "tile/0/000"),
        (&*key, "../../validator.db"),
        (&*key, "tile/../checkpoint"),
        (&*key, ""),
        ("..", "checkpoint"),
        (&*key.to_uppercase(), "checkpoint"),
        (&*"ab".repeat(32), "checkpoint"),
    ] {
        assert_eq!(log.read(key, path).await.unwrap(), None, "{key} {path}");
    }
}
