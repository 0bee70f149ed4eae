//! A store that cannot be written, and can again: nothing that was acknowledged is lost, and nothing hangs.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, thread};

use assay_records::testing::Postgres;
use assay_records::{DeviceQuery, Location, Records, RecordsError, with_api_limit};
use sqlx::{AnyConnection, Connection, Executor, Row};
use tokio::task::JoinSet;

use crate::examples::{challenge, conclusion, key};
use crate::store::TestStore;

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_ends() {
    use crate::child::Writer;
    let store = TestStore::sqlite();
    let mut writer = Writer::start(&store);
    let pid = writer.process.id().to_string();
    let limit = |bytes: &str| {
        let limits = format!("--fsize={bytes}:unlimited");
        let set = std::process::Command::new("prlimit").args(["--pid", &pid, &limits]).status().unwrap();
        assert!(set.success());
    };
    assert_eq!(writer.ask("write 1"), "wrote 1");
    // No room for a page, as on a full disk.
    limit("100");
    let said = writer.ask("write 2");
    assert!(said.starts_with("failed: cannot record a verdict in the records: "), "{said}");
    assert!(said.contains("trouble: Some(\"cannot record a verdict"), "{said}");
    let said = writer.ask("write 3");
    assert!(said.starts_with("failed: "), "{said}");
    {
        let records = store.open().await;
        assert!(records.verdict(&challenge(1)).await.unwrap().is_some());
        assert!(records.verdict(&challenge(2)).await.unwrap().is_none());
    }
    // Found out without anybody writing.
    limit("unlimited");
    assert_eq!(writer.ask("wait"), "well");
    assert_eq!(writer.ask("write 2"), "wrote 2");
    drop(writer);
    let records = store.open().await;
    assert!(records.verdict(&challenge(2)).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_is_told_and_comes_back() {
    let mut server = Postgres::start();
    let location = server.database().location();
    let records = Records::open(&location).await.unwrap();
    records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap();
    let mut troubles = records.troubles();
    // It writes nothing more, and recovers from its log.
    server.crash();
    let error = records.conclude(&conclusion(2, 1, &[], 0)).await.unwrap_err();
    assert!(error.is_trouble(), "{error}");
    let told = troubles.wait_for(Option::is_some).await.unwrap().clone();
    assert!(told.unwrap().starts_with("cannot "), "{:?}", records.trouble());
    assert!(records.miner(&key(1)).await.is_err());
    server.resume();
    troubles.wait_for(Option::is_none).await.unwrap();
    assert!(records.verdict(&challenge(1)).await.unwrap().is_some());
    records.conclude(&conclusion(2, 1, &[], 0)).await.unwrap();
    // Connections that the server ends, as a failover does.
    server.stop();
    server.resume();
    let again = async || records.conclude(&conclusion(3, 1, &[], 0)).await;
    while again().await.is_err() {
        troubles.wait_for(Option::is_none).await.unwrap();
    }
    assert!(records.verdict(&challenge(3)).await.unwrap().is_some());
    drop(records);
    let Err(error) = Records::open(&"postgres://assay@localhost/x?host=/nowhere".parse().unwrap()).await else {
        panic!("there is no server")
    };
    assert!(matches!(error, RecordsError::Open { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_is_told_before_anybody_writes() {
    let mut server = Postgres::start();
    let location = server.database().location();
    let records = Records::open(&location).await.unwrap();
    let watching = tokio::spawn(records.clone().watch_server());
    server.crash();
    let mut troubles = records.troubles();
    troubles.wait_for(Option::is_some).await.unwrap();
    server.resume();
    troubles.wait_for(Option::is_none).await.unwrap();
    watching.abort();
}

/// A relay before a server, whose connections can lose the server without a word to the client.
#[derive(Default)]
struct Relay(Mutex<Vec<(TcpStream, UnixStream)>>);

impl Relay {
    /// Relays a port of this machine to the socket of a server; gives the port too.
    fn start(socket: PathBuf) -> (Arc<Self>, u16) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (relay, port) = (Arc::new(Self::default()), listener.local_addr().unwrap().port());
        let relaying = relay.clone();
        thread::spawn(move || {
            for client in listener.incoming().map(Result::unwrap) {
                let server = UnixStream::connect(&socket).unwrap();
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || io::copy(&mut from, &mut to));
                let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || io::copy(&mut from, &mut to));
                relaying.0.lock().unwrap().push((client, server));
            }
        });
        (relay, port)
    }

    fn lose_server(&self) {
        self.0.lock().unwrap().iter().for_each(|(_, server)| server.shutdown(Shutdown::Both).unwrap());
    }
}

/// Regression test: writes on connections whose server was lost without a word kept the tasks of all writes, and its place in the pool, for ever.
#[tokio::test(flavor = "multi_thread")]
async fn writes_on_connections_that_say_nothing_are_given_up() {
    let database = Postgres::shared().database();
    let url = database.url();
    let (_, folder) = url.split_once("?host=").unwrap();
    let (relay, port) = Relay::start(Path::new(folder).join(".s.PGSQL.5432"));
    let location = Location::Postgres(format!("postgres://assay@127.0.0.1:{port}/{}", database.name));
    let records = Records::open(&location).await.unwrap();
    let mut blocking = AnyConnection::connect(&url).await.unwrap();
    blocking.execute("BEGIN; LOCK TABLE verdicts IN ACCESS EXCLUSIVE MODE").await.unwrap();
    // One for each task that writes, and some that wait.
    let mut writes = JoinSet::new();
    for number in 1..=8 {
        let records = records.clone();
        writes.spawn(async move { records.conclude(&conclusion(number, number as u8, &[], 0)).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let reading = records.clone();
    let read = tokio::spawn(async move { reading.verdict(&challenge(1)).await.map(drop) });
    tokio::time::sleep(Duration::from_millis(300)).await;
    relay.lose_server();
    blocking.close().await.unwrap();
    let until = Instant::now() + Duration::from_secs(90);
    while records.conclude(&conclusion(9, 9, &[], 0)).await.is_err() {
        assert!(Instant::now() < until, "{:?}", records.trouble());
    }
    assert!(writes.join_all().await.iter().any(Result::is_err), "the first ones lost their server");
    let read = tokio::time::timeout(Duration::from_secs(30), read).await.expect("a read ends too");
    assert!(read.unwrap().is_err());
    tokio::time::timeout(Duration::from_secs(30), records.close()).await.expect("the pool waits for no connection");
}

/// Overwrites the first page of an index, and gives back a function that undoes it.
async fn damage_index(store: &TestStore, name: &str) -> impl FnOnce() + use<> {
    let TestStore::Sqlite(folder) = store else { unreachable!() };
    // SQLite closes its files in threads of its own: the log's pages go into the file once they have.
    while store.sql("PRAGMA wal_checkpoint(TRUNCATE)").await[0].get::<i64, _>(0) != 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let page: i64 = store.sql(&format!("SELECT rootpage FROM sqlite_master WHERE name = '{name}'")).await[0].get(0);
    let size: i64 = store.sql("PRAGMA page_size").await[0].get(0);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(folder.path().join("validator.db")).unwrap();
    let at = u64::try_from((page - 1) * size).unwrap();
    let mut before = vec![0; usize::try_from(size).unwrap()];
    file.read_exact_at(&mut before, at).unwrap();
    file.write_all_at(&vec![0xff; before.len()], at).unwrap();
    move || file.write_all_at(&before, at).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_told_once_and_stays_until_it_is_repaired() {
    let store = TestStore::sqlite();
    let records = store.open().await;
    records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap();
    records.close().await;
    let repair = damage_index(&store, "verdicts_by_time").await;
    let records = store.open().await;
    assert_eq!(records.trouble(), None, "nobody has looked");
    let mut troubles = records.troubles();
    let error = records.conclude(&conclusion(2, 1, &[], 0)).await.unwrap_err();
    assert!(error.is_damage() && error.is_trouble(), "{error}");
    records.damaged().await;
    let told = troubles.borrow_and_update().clone().unwrap();
    assert!(told.contains("malformed") && told.contains("restore a backup"), "{told}");
    // Neither a write that succeeds nor another failure changes the message.
    records.heartbeat("v", "i", "", Duration::from_secs(1)).await.unwrap();
    assert!(records.conclude(&conclusion(2, 1, &[], 0)).await.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!troubles.has_changed().unwrap(), "{:?}", records.trouble());
    assert!(records.check(true).await.unwrap().is_some());
    repair();
    assert_eq!(records.check(true).await.unwrap(), None);
    assert_eq!(records.trouble(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_that_is_read_is_told() {
    let store = TestStore::sqlite();
    let records = store.open().await;
    records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap();
    records.close().await;
    drop(damage_index(&store, "verdicts").await);
    for of_api in [false, true] {
        let records = store.open().await;
        let id = challenge(1);
        let read = records.verdict(&id);
        let read = if of_api { with_api_limit(read).await } else { read.await };
        assert!(read.unwrap_err().is_damage());
        assert!(records.trouble().unwrap().contains("restore a backup"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_gone_is_told_and_can_be_copied() {
    let store = TestStore::sqlite();
    let records = store.open().await;
    let TestStore::Sqlite(folder) = &store else { unreachable!() };
    let (file, other) = (folder.path().join("validator.db"), folder.path().join("other.db"));
    records.check_place();
    assert_eq!(records.trouble(), None);
    std::fs::rename(&file, &other).unwrap();
    records.check_place();
    records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap();
    assert!(records.trouble().unwrap().contains("assay-validator backup FILE"), "{:?}", records.trouble());
    assert!(records.check(true).await.is_err());
    assert!(!with_api_limit(records.api_tokens(None, 9)).await.unwrap_err().is_damage());
    assert!(!file.exists(), "none is made in its place");
    let copy = folder.path().join("copy.db");
    records.backup(&copy).await.unwrap();
    let copy = Records::open(&Location::File(copy)).await.unwrap();
    assert!(copy.verdict(&challenge(1)).await.unwrap().is_some());
    std::fs::write(&file, "another").unwrap();
    records.check_place();
    assert!(records.trouble().is_some());
    std::fs::rename(&other, &file).unwrap();
    records.check_place();
    assert_eq!(records.trouble(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_writes_is_told() {
    let store = TestStore::postgres();
    drop(store.open().await);
    let TestStore::Postgres(database) = &store else { unreachable!() };
    let records = store.open().await;
    let mut troubles = records.troubles();
    // As a standby does that was not promoted.
    let read_only = |is: &str| {
        database.sql(&format!("ALTER DATABASE {} SET default_transaction_read_only = {is}", database.name));
        let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
             AND pid <> pg_backend_pid()";
        database.sql(others);
    };
    read_only("on");
    let error = loop {
        let error = records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap_err().to_string();
        // The first attempts find that their connection is gone.
        if error.contains("read-only") {
            break error;
        }
    };
    assert!(error.contains("cannot record a verdict"), "{error}");
    assert!(records.trouble().is_some());
    read_only("off");
    troubles.wait_for(Option::is_none).await.unwrap();
    records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "no database, but more than a hundred bytes of something else. ".repeat(99)).unwrap();
    let nowhere = folder.path().join("nowhere").join("validator.db");
    for path in [text.clone(), nowhere, folder.path().to_owned()] {
        let Err(error) = Records::open(&path.display().to_string().parse().unwrap()).await else { panic!("{path:?}") };
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    assert!(std::fs::read_to_string(text).unwrap().starts_with("no database"));
}

/// Regression test: PostgreSQL takes no NUL in a text, and the records were said to be in trouble.
pub async fn a_value_that_is_refused_is_no_trouble(store: &TestStore) {
    let records = store.open().await;
    let query = DeviceQuery { model: Some("\0".to_owned()), ..DeviceQuery::default() };
    let listed = records.devices(&query).await;
    assert!(listed.as_ref().is_ok_and(Vec::is_empty) || listed.is_err_and(|error| !error.is_trouble()));
    let operator = assay_records::Actor { name: "ada".to_owned(), uid: None };
    assert!(!records.revoke_api_token("\0", &operator).await.is_ok_and(|was_there| was_there));
    assert_eq!(records.trouble(), None);
}
