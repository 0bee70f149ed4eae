use std::path::Path;
use std::sync::Arc;

use assay_policy::Policy;
use assay_protocol::message::{Inventory, OpeningsChunk, OpeningsPart};
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::opening::{OpenedRange, PassSample, SampleOpenings};
use assay_work::{ChainingValue, PublicKey};

use super::*;
use crate::EvidenceLocation;
use assay_judge::case::entry::{CaseHeader, UnmadeChallenge};
use assay_judge::case::file::CaseReader;
use assay_judge::history::AbandonedCount;
use assay_judge::history::devices::Difference;

/// Held by tests that take the memory of cases.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
const ID: ChallengeId = ChallengeId([7; 16]);
const SAMPLE: PassSample = PassSample::Product { slot: 3, row: 1, column: 2, inner: 3 };

fn store(folder: &Path) -> EvidenceStore {
    EvidenceStore::open(&EvidenceLocation::Folder(folder.into()), folder).unwrap()
}

fn header() -> CaseHeader {
    CaseHeader {
        program: "1".into(),
        challenge_id: ID,
        miner_key: PublicKey([1; 32]),
        validator_key: PublicKey([2; 32]),
        unix_seconds: 3,
        mode: None,
        round_trip: None,
        hold: None,
        not_challenged: Vec::new(),
        policy: Policy::default(),
    }
}

fn verdict() -> Verdict {
    let reason = Reason::new(ReasonCode::NotEnoughMemory, "none");
    let (difference, recent) = (Difference::default(), AbandonedCount::default());
    let unmade = UnmadeChallenge { n: 256, reason: reason.clone().into(), difference, recent };
    unmade.verdict(&header(), reason)
}

/// A sample with seven rows of n = 8192 that look random.
fn opening(number: u8) -> CaseEntry {
    let range = |row: u8| {
        let mut bytes = vec![0; 8192];
        blake3::Hasher::new().update(&[number, row]).finalize_xof().fill(&mut bytes);
        OpenedRange { slot: u32::from(row), first_byte: 8192, bytes, siblings: vec![ChainingValue([row; 32]); 13] }
    };
    let part =
        OpeningsPart::Sample(SampleOpenings { sample: SAMPLE, parents: None, openings: (0..7).map(range).collect() });
    CaseEntry::Openings(u64::from(number), Arc::new(OpeningsChunk { challenge_id: ID, item: 0, part }))
}

fn beginning() -> Vec<CaseEntry> {
    vec![CaseEntry::Header(Box::new(header())), CaseEntry::Inventory(Inventory::default())]
}

#[tokio::test]
async fn a_case_is_kept_as_it_was_written() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut capture = Capture::begin(store.clone(), ID);
    capture.add(beginning()).await;
    // The memory of four buffers is left.
    let others = MEMORY.acquire_many(MEMORY_PERMITS - 4).await.unwrap();
    for number in 0..40 {
        capture.add(vec![opening(number)]).await;
        let most = if capture.writing.is_none() { 4 * BUFFER_BYTES } else { BUFFER_BYTES };
        assert!(capture.waiting.bytes < most + BUFFER_BYTES, "{} bytes are in memory", capture.waiting.bytes);
    }
    drop(others);
    assert!(capture.writing.is_some());
    let kept = capture.finish(&verdict(), ValidatorDelays::default(), None, false).await.unwrap();
    assert!(kept.bytes > 40 * 57_344 && kept.bytes > 8 * BUFFER_BYTES as u64);
    let mut entries = CaseReader::new(store.read(&kept.digest).await.unwrap()).unwrap();
    let written = beginning().into_iter().chain((0..40).map(opening)).chain([
        CaseEntry::HeldUp(ValidatorDelays::default()),
        CaseEntry::Verdict(serde_json::to_vec(&verdict()).unwrap()),
    ]);
    for entry in written {
        assert_eq!(entries.next_entry().unwrap(), Some(entry));
    }
    assert_eq!(entries.next_entry().unwrap(), None);
}

#[tokio::test]
async fn a_case_that_is_not_kept_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut capture = Capture::begin(store(folder.path()), ID);
    capture.add((0..20).map(opening).collect()).await;
    drop(capture);
    // The write under way finishes on its own.
    while std::fs::read_dir(folder.path()).unwrap().count() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_case_is_written_only_when_it_is_kept_while_there_is_memory() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let count = || std::fs::read_dir(folder.path()).unwrap().count();
    let mut short = Capture::begin(store(folder.path()), ID);
    for _ in 0..10 {
        short.add((0..10).map(opening).collect()).await;
    }
    assert!(short.waiting.bytes > 20 * BUFFER_BYTES && short.writing.is_none() && count() == 0);
    assert!(short.finish(&verdict(), ValidatorDelays::default(), None, false).await.is_some());
    let places = MEMORY.acquire_many(MEMORY_PERMITS).await.unwrap();
    let mut other = Capture::begin(store(folder.path()), ID);
    other.add((0..10).map(opening).collect()).await;
    assert!(other.waiting.entries.is_empty() && other.writing.is_some(), "it has no place");
    drop(places);
}

#[tokio::test]
async fn a_store_that_fails_costs_the_case_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut capture = Capture::begin(store.clone(), ID);
    folder.close().unwrap();
    for number in 0..20 {
        capture.add(vec![opening(number)]).await;
    }
    assert!(capture.finish(&verdict(), ValidatorDelays::default(), None, false).await.is_none());
    assert_eq!(store.lost(), 1);
}
