//! Stored cases: their entries, whole cases judged again, and compressed objects.

use std::fs::File;
use std::io::{Cursor, Read, Seek, Write};

use assay_evidence::{EvidenceReader, MAX_CONTENT_BYTES};
use assay_judge::case::entry::CaseEntry;
use assay_judge::case::file::{CaseReader, MARK, encode};
use assay_judge::rejudge::{CaseContents, RejudgeResult, Standard};
use assay_policy::Policy;
use assay_work::ChallengeId;

/// The most bytes of an object that are decompressed here; a reader of cases reads no more at once.
const READ_BYTES: u64 = 16 << 20;

/// Entries without the mark: each is read again as it is written.
pub fn case_entries(data: &[u8]) {
    let mut reader = CaseReader::new(MARK.chain(data)).expect("the mark is there");
    while let Ok(Some(entry)) = reader.next_entry() {
        let bytes = written(entry);
        let again = CaseReader::new(MARK.chain(&bytes[..])).and_then(|mut reader| reader.next_entry());
        // The bytes are compared: a number in a document may be none, which equals nothing.
        assert_eq!(again.expect("an entry that was written is read").map(written), Some(bytes));
    }
}

fn written(entry: CaseEntry) -> Vec<u8> {
    encode(entry, ChallengeId([1; 16]))
}

/// A whole case: judged twice by its own policy it gives the same verdict, and by another one no panic.
pub fn case(data: &[u8]) {
    let Ok(contents) = CaseReader::new(data).and_then(|mut reader| CaseContents::read(&mut reader)) else { return };
    let judge = |standard: &Standard| {
        let reader = CaseReader::new(data).expect("the mark was read before");
        contents.judge(reader, standard).ok().as_ref().and_then(RejudgeResult::json)
    };
    let own = contents.standard();
    assert_eq!(judge(&own), judge(&own));
    judge(&Standard { policy: Policy::default(), ..own });
}

/// A compressed object: no more comes out than its bound, and the same again.
pub fn object(data: &[u8]) {
    let mut file: File = tempfile::tempfile().expect("the system has a folder for temporary files");
    file.write_all(data).and_then(|()| file.rewind()).expect("a temporary file is written");
    let Ok(reader) = EvidenceReader::new(file) else { return };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let mut limited = reader.take(READ_BYTES);
    let ended = limited.read_to_end(&mut first).is_ok();
    assert!(first.len() as u64 <= MAX_CONTENT_BYTES);
    let Ok(again) = limited.into_inner().again() else { return };
    assert_eq!(again.take(READ_BYTES).read_to_end(&mut second).is_ok(), ended);
    assert_eq!(first, second);
    case_entries(Cursor::new(first).get_ref().strip_prefix(&MARK).unwrap_or_default());
}
