//! Forks, rollbacks and old backups, which one log alone does not show: a follower and a witness see them.

use std::path::Path;
use std::time::Duration;

use assay_protocol::identity::Identity;
use tokio::net::TcpListener;

use super::{entries, identity, key, log, source};
use crate::checkpoint::SignedCheckpoint;
use crate::error::LogError;
use crate::follow::Follower;
use crate::hash::sha256;
use crate::http::{Answer, serve};
use crate::source::Source;
use crate::submit::{WitnessAddress, add_checkpoint, checkpoint_path, cosignature};
use crate::tree::TreeReader;
use crate::verify::verify;
use crate::witness::Witness;
use crate::writer::LogWriter;

/// The same validator's log from entry 300 on with other entries: a fork, or the log after an old backup.
fn fork(folder: &Path, size: u64) -> LogWriter {
    log(folder, 300, 300);
    let mut writer = LogWriter::open(folder, identity()).unwrap();
    writer.append(&entries(50_000..50_000 + size - 300)).unwrap();
    writer
}

fn follower(folder: &Path, state: &Path) -> Follower {
    Follower {
        source: source(folder),
        log: key(),
        witnesses: Vec::new(),
        file: state.join("last"),
        patience: Duration::ZERO,
    }
}

fn is_inconsistent<T: std::fmt::Debug>(result: Result<T, LogError>, words: &str) {
    let Err(LogError::Inconsistent(why)) = result else { panic!("{result:?}") };
    assert!(why.contains(words), "{why}");
}

#[tokio::test]
async fn a_follower_sees_rollback_fork_and_an_old_backup() {
    let (good, bad, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for size in [0, 1, 255, 300, 400, 700] {
        log(good.path(), size, 100);
        assert_eq!(follower(good.path(), state.path()).check().await.unwrap().size, size);
        // The same again.
        follower(good.path(), state.path()).check().await.unwrap();
    }
    let (gone, nowhere) = (tempfile::tempdir().unwrap(), bad.path().join("x"));
    is_inconsistent(follower(gone.path(), state.path()).check().await, "is gone");
    for mistyped in [gone.path(), &nowhere] {
        let unknown = follower(mistyped, gone.path()).check().await;
        assert!(matches!(unknown, Err(LogError::NotThere(_) | LogError::File { .. })), "{unknown:?}");
        let unknown = verify(&source(mistyped), &key(), &[]).await;
        assert!(matches!(unknown, Err(LogError::NotThere(_) | LogError::File { .. })), "{unknown:?}");
    }
    log(bad.path(), 300, 100);
    is_inconsistent(follower(bad.path(), state.path()).check().await, "rolled back: it has 300 entries, and had 700");
    for size in [700, 701, 1500] {
        let forked = tempfile::tempdir().unwrap();
        fork(forked.path(), size);
        let alone = verify(&source(forked.path()), &key(), &[]).await.unwrap();
        assert_eq!(alone.problems, Vec::<String>::new(), "alone it is a log like any");
        is_inconsistent(follower(forked.path(), state.path()).check().await, "forked: its first 700 entries");
        let signed = std::fs::read(forked.path().join("checkpoint")).unwrap();
        let path = format!("last.fork-{}", hex::encode(&sha256(&signed)[..4]));
        assert_eq!(std::fs::read(state.path().join(path)).unwrap(), signed);
    }
    // Regression test: a log that kept its tiles back was not read, with a fork that its validator had signed.
    fork(gone.path(), 700);
    for (folder, words) in [(bad.path(), "rolled back"), (gone.path(), "forked")] {
        std::fs::remove_dir_all(folder.join("tile")).unwrap();
        is_inconsistent(follower(folder, state.path()).check().await, words);
    }
    // The refused checkpoints are not kept.
    log(good.path(), 800, 100);
    assert_eq!(follower(good.path(), state.path()).check().await.unwrap().size, 800);
    let tile = good.path().join("tile/1/000.p/3");
    let mut bytes = std::fs::read(&tile).unwrap();
    bytes[0] ^= 1;
    std::fs::write(tile, bytes).unwrap();
    is_inconsistent(follower(good.path(), state.path()).check().await, "not those of the checkpoint");
}

/// Regression test: a copy whose tiles came before its checkpoint was kept as proof of a fork.
#[tokio::test]
async fn a_missing_tile_is_no_proof_of_a_fork() {
    let (log_folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    log(log_folder.path(), 300, 100);
    follower(log_folder.path(), state.path()).check().await.unwrap();
    log(log_folder.path(), 400, 100);
    let (tile, aside) = (log_folder.path().join("tile/0/001.p/144"), log_folder.path().join("aside"));
    std::fs::rename(&tile, &aside).unwrap();
    is_inconsistent(follower(log_folder.path(), state.path()).check().await, "tile/0/001.p/144 is missing");
    let kept = std::fs::read_dir(state.path()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut kept: Vec<_> = kept.collect();
    kept.sort();
    assert!(kept.len() == 2 && kept[0] == "last" && kept[1].starts_with("last.seen-"), "{kept:?}");
    std::fs::rename(&aside, &tile).unwrap();
    assert_eq!(follower(log_folder.path(), state.path()).check().await.unwrap().size, 400);
}

fn witness(folder: &Path) -> Witness {
    Witness::new(folder, Identity::from_seed(&[5; 32]), vec![key()])
}

async fn request(folder: &Path, old: u64) -> String {
    let writer = LogWriter::open(folder, identity()).unwrap();
    let source = source(folder);
    let proof = TreeReader::new(&source, writer.size()).consistency(old).await.unwrap();
    let lines: String = proof.iter().map(|hash| format!("{hash}\n")).collect();
    format!("old {old}\n{lines}\n{}", writer.checkpoint().note)
}

#[tokio::test]
async fn a_witness_answers_as_c2sp_says() {
    let (good, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ask = |body: &str| witness(state.path()).add_checkpoint(body.as_bytes(), 1_700_000_000);
    let status = |body: &str| ask(body).status;
    log(good.path(), 300, 100);
    assert_eq!(witness(state.path()).checkpoint(&checkpoint_path(key().name())).status, 404);
    let first = request(good.path(), 0).await;
    let Answer { status: 200, body: line, .. } = ask(&first) else { panic!() };
    let line = String::from_utf8(line).unwrap();
    let note = format!("{}{line}", &first["old 0\n\n".len()..]);
    let opened = SignedCheckpoint::open(&note, &key(), std::slice::from_ref(witness(state.path()).key()));
    assert_eq!(opened.unwrap().cosigned.len(), 1);
    assert_eq!(witness(state.path()).checkpoint(&checkpoint_path(key().name())).body, note.as_bytes(), "for monitors");
    // Another size than the last one: the answer has that.
    let conflict = ask(&first);
    assert_eq!((conflict.status, conflict.content_type, &*conflict.body), (409, "text/x.tlog.size", &b"300\n"[..]));
    assert_eq!(status(&request(good.path(), 300).await), 200, "the same again");
    log(good.path(), 700, 100);
    let grown = request(good.path(), 300).await;
    let without = grown.replacen(grown.lines().nth(1).unwrap(), &crate::hash::Hash([1; 32]).to_string(), 1);
    assert_eq!(status(&without), 422, "a proof that does not hold");
    assert_eq!(status(&grown.replacen("old 300", "old 900", 1)), 400);
    let unsigned = grown.replacen(&key().to_string()[..12], "assay-log/00", 1);
    assert_eq!(status(&unsigned), 404, "an unknown origin");
    let (head, _) = grown.split_once('\u{2014}').unwrap();
    assert_eq!(status(&format!("{head}\u{2014} someone AAAAAAAA\n")), 403, "not signed by the log");
    let altered = grown.replacen("\n700\n", "\n701\n", 1);
    assert_eq!(status(&altered), 403, "a signature that does not hold");
    for malformed in ["", "old", "old 1", "old 01\n\n", "old 0\nx\n\na\n0\nb\n\n", &grown[..grown.len() - 1]] {
        assert_eq!(status(malformed), 400, "{malformed:?}");
    }
    assert_eq!(status(&grown), 200);
    // Rollback and fork.
    let (old, forked) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    log(old.path(), 400, 100);
    assert_eq!(ask(&request(old.path(), 300).await).body, b"700\n");
    for size in [700, 900] {
        fork(forked.path(), size);
        assert_eq!(status(&request(forked.path(), 700).await), 422, "{size}");
        std::fs::remove_dir_all(forked.path()).unwrap();
        std::fs::create_dir(forked.path()).unwrap();
    }
    // A changed state is no reason to begin anew.
    let file = state.path().join(checkpoint_path(key().name()));
    std::fs::write(&file, "").unwrap();
    assert_eq!(status(&request(good.path(), 0).await), 500);
}

/// Regression test: a witness that signed more text than the checkpoint had a signature published that does not hold.
#[test]
fn a_cosignature_of_another_text_is_refused() {
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    log(folder.path(), 3, 3);
    let witness = witness(state.path());
    let address: WitnessAddress = format!("http://127.0.0.1:1#{}", witness.key()).parse().unwrap();
    let note = std::fs::read_to_string(folder.path().join("checkpoint")).unwrap();
    let signed = SignedCheckpoint::open(&note, &key(), &[]).unwrap();
    let answer = |more: &str| {
        let line =
            witness.key().sign(&Identity::from_seed(&[5; 32]), &(signed.checkpoint.text() + more), 1_700_000_000);
        let before = more.strip_prefix('\n').map(|more| format!("{more}\n")).unwrap_or_default();
        cosignature(&address, &signed, (before + &line).as_bytes())
    };
    assert!(answer("").is_ok(), "{:?}", answer(""));
    let refused = answer("\nx\n");
    assert!(matches!(refused, Err(LogError::Malformed(_))), "{refused:?}");
}

#[tokio::test]
async fn a_log_is_cosigned_over_http_and_stops_where_its_witness_knows_more() {
    let (good, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (served, port) = (witness(state.path()), listener.local_addr().unwrap().port());
    let key_of_witness = served.key().clone();
    let address: WitnessAddress = format!("http://127.0.0.1:{port}#{key_of_witness}").parse().unwrap();
    assert_eq!(address.to_string().parse::<WitnessAddress>().unwrap(), address);
    tokio::spawn(served.serve(listener, || 1_700_000_000));
    let mut known = 0;
    for size in [5, 300, 700] {
        let mut writer = log(good.path(), size, 100);
        let line =
            add_checkpoint(&address, &key(), &source(good.path()), writer.checkpoint(), &mut known).await.unwrap();
        writer.cosign(&line).unwrap();
        let found = verify(&source(good.path()), &key(), std::slice::from_ref(&key_of_witness)).await.unwrap();
        assert_eq!((found.problems, known), (vec![], size));
    }
    // One that does not know the witness's last size asks twice.
    let (mut forgotten, writer) = (0, log(good.path(), 800, 100));
    add_checkpoint(&address, &key(), &source(good.path()), writer.checkpoint(), &mut forgotten).await.unwrap();
    let old = tempfile::tempdir().unwrap();
    let writer = log(old.path(), 400, 100);
    let refused = add_checkpoint(&address, &key(), &source(old.path()), writer.checkpoint(), &mut 0).await;
    is_inconsistent(refused, "cosigned 800 entries, the log has 400");
    let forked = tempfile::tempdir().unwrap();
    let writer = fork(forked.path(), 900);
    is_inconsistent(
        add_checkpoint(&address, &key(), &source(forked.path()), writer.checkpoint(), &mut 0).await,
        "cosigned 800 entries, the log has 900 and does not begin with them",
    );
    let large = address.url.post("add-checkpoint", "x".repeat(200_000), 100).await;
    assert!(large.is_err() || large.unwrap().0 == 413);
    assert_eq!(address.url.get("unknown/checkpoint", 100).await.unwrap(), None);
    assert!(matches!(address.url.get(&checkpoint_path(key().name()), 10).await, Err(LogError::Http(_))), "a bound");
}

/// Regression test: the answer of one witness, which anyone can give, stopped the log. Its text forged lines of the
/// program's log.
#[tokio::test]
async fn an_answer_without_a_checkpoint_that_the_log_signed_stops_nothing() {
    let (folder, larger) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let writer = log(folder.path(), 5, 100);
    let older = writer.checkpoint().clone();
    let writer = log(folder.path(), 300, 100);
    let foreign = log(larger.path(), 700, 100).checkpoint().checkpoint.sign(&Identity::from_seed(&[9; 32]));
    let witness_key = witness(folder.path()).key().clone();
    for (status, answer, last) in [
        (409, "700\n".to_owned(), None),
        (409, "700\n".to_owned(), Some(foreign.clone())),
        (422, "no\u{1b}[2J\nERROR forged".to_owned(), None),
        (422, String::new(), Some(foreign)),
        (422, String::new(), Some("x".to_owned())),
        (422, String::new(), Some(older.note)),
        (200, format!("\u{2014} {} AAAAAAAAAAAA\n", witness_key.name()), None),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}#{witness_key}", listener.local_addr().unwrap()).parse().unwrap();
        let told = answer.clone();
        let serving = tokio::spawn(serve(listener, 200_000, move |method, _, _| match (method.as_str(), &last) {
            ("POST", _) => Answer { status, content_type: "text/plain", body: told.clone().into() },
            (_, Some(last)) => Answer { status: 200, content_type: "text/plain", body: last.clone().into() },
            (_, None) => Answer { status: 404, content_type: "text/plain", body: Vec::new() },
        }));
        let refused = add_checkpoint(&address, &key(), &source(folder.path()), writer.checkpoint(), &mut 0).await;
        let Err(LogError::Http(why)) = refused else { panic!("{status} {answer:?}: {refused:?}") };
        assert!(!why.contains(char::is_control), "{why:?}");
        serving.abort();
    }
}

/// Over HTTP no list of files is there: each tile is held against the ones below.
#[tokio::test]
async fn a_log_is_verified_and_followed_over_http() {
    let (good, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    log(good.path(), 700, 100);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Source = format!("http://{}/log/", listener.local_addr().unwrap()).parse().unwrap();
    let folder = good.path().to_owned();
    tokio::spawn(serve(listener, 100, move |_, path, _| {
        let read = std::fs::read(folder.join(path.strip_prefix("/log/").unwrap()));
        let status = if read.is_ok() { 200 } else { 404 };
        Answer { status, content_type: "application/octet-stream", body: read.unwrap_or_default() }
    }));
    let problems = async || verify(&url, &key(), &[]).await.unwrap().problems;
    assert_eq!(problems().await, Vec::<String>::new());
    let follower = Follower { source: url.clone(), ..follower(good.path(), state.path()) };
    assert_eq!(follower.check().await.unwrap().size, 700);
    // The full tile stands for a partial one that was removed.
    let (partial, full) = (good.path().join("tile/entries/002.p/188"), good.path().join("tile/entries/002"));
    std::fs::rename(&partial, &full).unwrap();
    assert_eq!(problems().await.len(), 1, "a full tile has 256 entries");
    std::fs::rename(&full, &partial).unwrap();
    for name in ["tile/0/001", "tile/0/002.p/188", "tile/1/000.p/2", "tile/entries/001", "checkpoint"] {
        let path = good.path().join(name);
        let before = std::fs::read(&path).unwrap();
        let mut after = before.clone();
        after[60] ^= 1;
        std::fs::write(&path, after).unwrap();
        assert_ne!(problems().await, Vec::<String>::new(), "{name}");
        std::fs::remove_file(&path).unwrap();
        assert_ne!(problems().await, Vec::<String>::new(), "without {name}");
        std::fs::write(&path, before).unwrap();
    }
}

#[test]
fn addresses_of_witnesses_and_logs_are_read_strictly() {
    let key = witness(Path::new("")).key().to_string();
    for wrong in
        ["", "http://a", &key, &format!("ftp://a#{key}"), &format!("http://a?b#{key}"), &format!("http://b@a#{key}")]
    {
        assert!(wrong.parse::<WitnessAddress>().is_err(), "{wrong}");
    }
    let log = super::key();
    assert!(format!("http://a#{log}").parse::<WitnessAddress>().is_err(), "a log's key is no witness's");
    let pinned = format!("https://[::1]:7480/log/x/#{}", identity().public_key());
    assert_eq!(pinned.parse::<Source>().unwrap().to_string(), "https://[::1]:7480/log/x");
    assert!(pinned.replace("https", "http").parse::<Source>().is_err(), "plaintext proves no key");
}
