use super::*;
use std::fs;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// The files of a folder, by name.
fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn lines_are_in_the_file_when_they_count_as_written() {
    let folder = folder();
    let path = folder.path().join("log");
    let log = VerdictLog::open(&path).unwrap();
    for number in 0..3 {
        log.append(format!("{{\"n\":{number}}}\n").into_bytes()).await;
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), number + 1);
    }
    assert_eq!(log.check(), Ok(()));
    assert!(*log.recording().borrow());
}

#[test]
fn a_torn_end_is_kept_aside() {
    let folder = folder();
    let path = folder.path().join("log");
    fs::write(&path, "{\"n\":1}\n{\"n\":2}\n{\"n\":3,\"out").unwrap();
    drop(VerdictLog::open(&path).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":1}\n{\"n\":2}\n");
    let names = names(folder.path());
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[1].starts_with("log.torn-"), "{names:?}");
    assert_eq!(fs::read_to_string(folder.path().join(&names[1])).unwrap(), "{\"n\":3,\"out");
}

#[test]
fn a_last_line_that_lacks_only_its_break_gets_one() {
    let folder = folder();
    let path = folder.path().join("log");
    fs::write(&path, "{\"n\":1}\n{\"n\":2}").unwrap();
    drop(VerdictLog::open(&path).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":1}\n{\"n\":2}\n");
    assert_eq!(names(folder.path()), ["log"]);
}

#[test]
fn a_file_that_is_no_verdict_log_is_left_as_it_is() {
    let folder = folder();
    let path = folder.path().join("picture");
    fs::write(&path, vec![b'x'; 5 << 20]).unwrap();
    assert!(matches!(VerdictLog::open(&path), Err(OpenError::NoLines(_))));
    assert_eq!(fs::metadata(&path).unwrap().len(), 5 << 20);
    let missing = folder.path().join("no/such/folder");
    assert!(matches!(VerdictLog::open(&missing), Err(OpenError::File { .. })));
}

#[test]
fn two_logs_do_not_share_a_file() {
    let folder = folder();
    let path = folder.path().join("log");
    let _log = VerdictLog::open(&path).unwrap();
    let error = VerdictLog::open(&path).unwrap_err();
    assert!(matches!(error, OpenError::Locked(_)) && error.to_string().contains("(verdict_log)"), "{error}");
}

#[tokio::test]
async fn a_renamed_log_goes_on_in_a_new_file_that_has_a_head() {
    let folder = folder();
    let (path, old) = (folder.path().join("log"), folder.path().join("log.1"));
    let log = VerdictLog::open(&path).unwrap();
    log.append(b"{\"n\":1}\n".to_vec()).await;
    let head = || vec![b"{\"head\":1}\n".to_vec(), b"{\"head\":2}\n".to_vec()];
    // Not renamed: nothing changes, and its own lock is no obstacle.
    log.reopen(head()).await.unwrap();
    log.append(b"{\"n\":2}\n".to_vec()).await;
    fs::rename(&path, &old).unwrap();
    log.append(b"{\"n\":3}\n".to_vec()).await;
    log.reopen(head()).await.unwrap();
    log.append(b"{\"n\":4}\n".to_vec()).await;
    assert_eq!(fs::read_to_string(&old).unwrap(), "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"head\":1}\n{\"head\":2}\n{\"n\":4}\n");
    assert!(VerdictLog::open(&path).is_err(), "the new file is locked");
    VerdictLog::open(&old).unwrap();
    // A place where no file can be: the one that is open stays in use.
    let _ = fs::rename(&path, &old);
    fs::create_dir(&path).unwrap();
    assert!(log.reopen(head()).await.is_err());
    log.append(b"{\"n\":5}\n".to_vec()).await;
    assert!(fs::read_to_string(&old).unwrap().ends_with("{\"n\":4}\n{\"n\":5}\n"));
}

/// `/dev/full` has no room, ever.
#[tokio::test]
async fn a_line_that_cannot_be_written_is_kept_and_said() {
    let log = VerdictLog::open(Path::new("/dev/full")).unwrap();
    assert_eq!(log.check(), Ok(()), "nothing was tried yet");
    let mut recording = log.recording();
    let waiting = log.clone();
    let append = tokio::spawn(async move { waiting.append(b"{\"n\":1}\n".to_vec()).await });
    recording.wait_for(|recording| !recording).await.unwrap();
    let said = log.check().unwrap_err().to_string();
    assert!(said.contains("/dev/full") && said.contains("No space left"), "{said}");
    assert!(!append.is_finished());
    log.finish().await;
    append.await.unwrap();
}

#[test]
fn the_tail_has_whole_lines_only() {
    let folder = folder();
    let path = folder.path().join("log");
    fs::write(&path, "{\"n\":1}\n{\"n\":2}\n").unwrap();
    assert_eq!(tail(&path).unwrap(), b"{\"n\":1}\n{\"n\":2}\n");
    let line = "x".repeat(1000) + "\n";
    fs::write(&path, line.repeat(20_000)).unwrap();
    let found = tail(&path).unwrap();
    assert_eq!(found.len(), 1001 * (MAX_TAIL_BYTES as usize / 1001));
    assert!(found.starts_with(line.as_bytes()));
    assert_eq!(tail(Path::new("/dev/null")).unwrap(), b"");
}
