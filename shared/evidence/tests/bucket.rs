//! An S3 bucket, at a real server: what is kept waits on disk until the bucket has it, and is read from where it is.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use assay_evidence::{Delivered, Digest, EvidenceError, EvidenceLocation, EvidenceStore, Limits, Stored};

/// A server in a process of its own, with one bucket. It keeps objects in memory.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts one on a port that the system chooses, or at an address where one was.
    fn start(port: u16) -> Self {
        let python = std::env::var_os("ASSAY_S3_PYTHON").expect(
            "ASSAY_S3_PYTHON is not set: run scripts/test, or set it to a Python that has \
             shared/evidence/tests/requirements.txt installed",
        );
        let mut command = Command::new(python);
        command.args(["-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", &port.to_string()]);
        let mut process = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the server starts");
        let mut lines = BufReader::new(process.stderr.take().expect("it is piped")).lines();
        let address = lines.find_map(|line| line.ok()?.split_once("http://")?.1.trim().parse().ok());
        // What it says of each request is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let server = Self { process, address: address.expect("it says where it listens") };
        let mut made = TcpStream::connect(server.address).expect("it listens");
        made.write_all(b"PUT /fleet HTTP/1.1\r\nHost: s3\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        made.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "the bucket is made: {answer}");
        server
    }

    /// The store in this bucket, with an outbox.
    fn store(&self, outbox: &Path) -> EvidenceStore {
        let variables = [
            ("AWS_ENDPOINT", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("HOME", "passed over".to_owned()),
        ];
        let location: EvidenceLocation = "s3://fleet/validators/one".parse().unwrap();
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value));
        EvidenceStore::open_with(&location, outbox, variables).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Gone already, or gone now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn noise(seed: u8, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut noise);
    noise
}

async fn keep(store: &EvidenceStore, content: &[u8]) -> Stored {
    let mut spool = store.spool().unwrap();
    content.chunks(1 << 18).for_each(|part| spool.write(part).unwrap());
    store.keep(spool.finish().unwrap()).await.unwrap()
}

async fn content(store: &EvidenceStore, digest: &Digest) -> Result<Vec<u8>, EvidenceError> {
    let mut content = Vec::new();
    store.read(digest).await?.read_to_end(&mut content).unwrap();
    Ok(content)
}

fn waiting(outbox: &Path) -> usize {
    std::fs::read_dir(outbox).unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_has_what_was_kept() {
    let (server, outbox) = (Server::start(0), tempfile::tempdir().unwrap());
    let store = server.store(outbox.path());
    // One in one request, one in parts: a part has 8 MiB.
    let (small, large) = (noise(1, 100_000), noise(2, 20_000_001));
    let [first, second] = [keep(&store, &small).await, keep(&store, &large).await];
    assert_eq!(content(&store, &first.digest).await.unwrap(), small, "from the outbox");
    assert_eq!((waiting(outbox.path()), store.list().await.unwrap().len()), (2, 0));
    let delivered = store.deliver().await.unwrap();
    assert_eq!(delivered, Delivered { objects: 2, bytes: first.stored_bytes + second.stored_bytes });
    assert_eq!((waiting(outbox.path()), store.list().await.unwrap().len()), (0, 2));
    for (stored, kept) in [(first, &small), (second, &large)] {
        assert_eq!(&content(&store, &stored.digest).await.unwrap(), kept, "from the bucket");
    }
    assert_eq!(store.deliver().await.unwrap(), Delivered::default());

    let none = Limits { max_age: Some(Duration::ZERO), max_bytes: None };
    let is_needed = move |digest: &Digest| *digest == first.digest;
    let later = SystemTime::now() + Duration::from_secs(7200);
    assert_eq!(store.sweep(&none, &is_needed, later).await.unwrap().removed, [second.digest]);
    assert!(matches!(store.read(&second.digest).await, Err(EvidenceError::Missing(_))));
    assert!(content(&store, &first.digest).await.is_ok(), "it is needed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_away_loses_nothing() {
    let (server, outbox) = (Server::start(0), tempfile::tempdir().unwrap());
    let (store, port) = (server.store(outbox.path()), server.address.port());
    let what = noise(3, 300_000);
    drop(server);
    let stored = keep(&store, &what).await;
    assert!(store.deliver().await.is_err());
    assert_eq!(waiting(outbox.path()), 1);
    assert_eq!(content(&store, &stored.digest).await.unwrap(), what);
    // As after a restart of the validator: the outbox is found again.
    let server = Server::start(port);
    let store = server.store(outbox.path());
    assert_eq!(store.deliver().await.unwrap().objects, 1);
    assert_eq!((waiting(outbox.path()), content(&store, &stored.digest).await.unwrap()), (0, what));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_the_bucket_changed_is_refused() {
    let (server, outbox) = (Server::start(0), tempfile::tempdir().unwrap());
    let store = server.store(outbox.path());
    let [honest, other] = [keep(&store, &noise(4, 1000)).await, keep(&store, &noise(5, 1000)).await];
    // Under the first one's name lies the second one: a whole object, and not the one that was kept.
    let file = |digest: Digest| outbox.path().join(format!("{digest}.zst"));
    std::fs::copy(file(other.digest), file(honest.digest)).unwrap();
    assert_eq!(store.deliver().await.unwrap().objects, 2);
    let refused = store.read(&honest.digest).await.unwrap_err();
    assert!(matches!(refused, EvidenceError::Tampered { found, .. } if found == other.digest), "{refused}");
}
