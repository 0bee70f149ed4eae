//! The evidence that a validator kept, judged again by the policy of the time.

use std::path::Path;

use assay_evidence::{EvidenceLocation, EvidenceStore};
use assay_replay::rejudge::{RejudgedCase, rejudge};

/// Judges every case of a folder again, and requires each verdict to the bit. From within a runtime too.
///
/// # Panics
/// When one comes out otherwise, or cannot be judged.
#[must_use]
pub fn judged_again(folder: &Path) -> Vec<RejudgedCase> {
    let judge = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let location = EvidenceLocation::Folder(folder.into());
            let store = EvidenceStore::open(&location, folder).expect("the folder of evidence");
            let mut judged = Vec::new();
            for held in store.list().await.expect("it lists its objects") {
                let again = rejudge(&store, held.digest, None, |_| None).await;
                let again = again.unwrap_or_else(|error| panic!("{}: {error}", held.digest));
                assert!(again.is_same && !again.changes, "the same evidence, another verdict: {again:#?}");
                judged.push(again);
            }
            judged
        })
    };
    std::thread::scope(|scope| scope.spawn(judge).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
