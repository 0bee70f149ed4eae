//! An S3 bucket, at a real server: evidence waits on disk until the bucket has it, and is read from its present place.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use assay_evidence::{Digest, EvidenceError, EvidenceLocation, EvidenceStore, StoreLimits, StoredObject, UploadTotals};

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
             shared/service/evidence/tests/requirements.txt installed",
        );
        let mut command = Command::new(python);
        command.args(["-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", &port.to_string()]);
        let mut process = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the server starts");
        let mut lines = BufReader::new(process.stderr.take().expect("it is piped")).lines();
        let address = lines.find_map(|line| line.ok()?.split_once("http://")?.1.trim().parse().ok());
        // The server's lines are read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let server = Self { process, address: address.expect("it says where it listens") };
        server.put("/fleet", b"");
        server
    }

    /// Makes the bucket or an object in it, past the store.
    fn put(&self, path: &str, body: &[u8]) {
        let mut made = TcpStream::connect(self.address).expect("it listens");
        let length = body.len();
        // The server looks for a name, and checks no signature.
        let key = "Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request";
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: s3\r\nContent-Length: {length}\r\n{key}\r\nConnection: close\r\n\r\n"
        );
        made.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut answer = String::new();
        made.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "{path} is made: {answer}");
    }
}

/// A bucket that takes objects, but refuses requests with a part of a line. It counts requests, and uploads without an
/// end.
struct Choosy {
    address: SocketAddr,
    refuses: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
    uploads: Arc<AtomicUsize>,
}

impl Choosy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let bucket = Self { address, refuses: Arc::default(), asked: Arc::default(), uploads: Arc::default() };
        let (refuses, asked, uploads) = (bucket.refuses.clone(), bucket.asked.clone(), bucket.uploads.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (refuses, asked, uploads) = (refuses.clone(), asked.clone(), uploads.clone());
                // A store that gave an upload up breaks the connections of its parts.
                std::thread::spawn(move || drop(answer(stream, &refuses, &asked, &uploads)));
            }
        });
        bucket
    }

    fn refuse(&self, part: impl ToString) {
        *self.refuses.lock().unwrap() = part.to_string();
    }

    fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::SeqCst)
    }
}

/// Answers the request of a connection.
fn answer(stream: TcpStream, refuses: &Mutex<String>, asked: &AtomicUsize, uploads: &AtomicUsize) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
    while stream.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&std::mem::take(&mut line));
    }
    stream.read_exact(&mut vec![0; length])?;
    asked.fetch_add(1, Ordering::SeqCst);
    let request = head.lines().next().unwrap_or_default();
    let is_refused = request.contains(&*refuses.lock().unwrap());
    let status = if is_refused { "403 Forbidden" } else { "200 OK" };
    let mut body = "";
    if request.contains("?uploads") {
        uploads.fetch_add(1, Ordering::SeqCst);
        body = "<InitiateMultipartUploadResult><UploadId>7</UploadId></InitiateMultipartUploadResult>";
    } else if request.starts_with("DELETE") && request.contains("uploadId=7") {
        uploads.fetch_sub(1, Ordering::SeqCst);
    }
    let length = body.len();
    let answer =
        format!("HTTP/1.1 {status}\r\nETag: \"1\"\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.get_mut().write_all(answer.as_bytes())
}

impl Drop for Server {
    fn drop(&mut self) {
        // Gone already, or gone now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The store in a server's bucket, with an outbox.
fn store_at(address: SocketAddr, outbox: &Path) -> EvidenceStore {
    let variables = [
        ("AWS_ENDPOINT", format!("http://{}", address)),
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

fn noise(seed: u8, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut noise);
    noise
}

async fn keep(store: &EvidenceStore, content: &[u8]) -> StoredObject {
    let mut spool = store.spool().unwrap();
    content.chunks(1 << 18).for_each(|part| spool.write(part).unwrap());
    store.keep(spool.finish().unwrap(), false).await.unwrap()
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
    let store = store_at(server.address, outbox.path());
    // One in one request, one in parts: a part has 8 MiB.
    let (small, large) = (noise(1, 100_000), noise(2, 20_000_001));
    let [first, second] = [keep(&store, &small).await, keep(&store, &large).await];
    assert_eq!(content(&store, &first.digest).await.unwrap(), small, "from the outbox");
    assert_eq!((waiting(outbox.path()), store.list().await.unwrap().len()), (2, 0));
    let delivered = store.deliver().await.unwrap();
    assert_eq!(delivered, UploadTotals { objects: 2, bytes: first.stored_bytes + second.stored_bytes });
    assert_eq!((waiting(outbox.path()), store.list().await.unwrap().len()), (0, 2));
    for (stored, kept) in [(first, &small), (second, &large)] {
        assert_eq!(&content(&store, &stored.digest).await.unwrap(), kept, "from the bucket");
    }
    assert_eq!(store.deliver().await.unwrap(), UploadTotals::default());

    let none = StoreLimits { max_age: Some(Duration::ZERO), max_bytes: None };
    let is_needed = move |digest: &Digest| *digest == first.digest;
    let later = SystemTime::now() + Duration::from_secs(7200);
    assert_eq!(store.sweep(&none, &[], &is_needed, later).await.unwrap().removed, [second.digest]);
    assert!(matches!(store.read(&second.digest).await, Err(EvidenceError::Missing(_))));
    assert!(content(&store, &first.digest).await.is_ok(), "it is needed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_away_loses_nothing() {
    let (server, outbox) = (Server::start(0), tempfile::tempdir().unwrap());
    let (store, port) = (store_at(server.address, outbox.path()), server.address.port());
    let what = noise(3, 300_000);
    drop(server);
    let stored = keep(&store, &what).await;
    assert!(store.deliver().await.is_err());
    assert_eq!(waiting(outbox.path()), 1);
    assert_eq!(content(&store, &stored.digest).await.unwrap(), what);
    // As after a restart of the validator: the outbox is found again.
    let server = Server::start(port);
    let store = store_at(server.address, outbox.path());
    assert_eq!(store.deliver().await.unwrap().objects, 1);
    assert_eq!((waiting(outbox.path()), content(&store, &stored.digest).await.unwrap()), (0, what));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_the_bucket_changed_is_refused() {
    let (server, outbox) = (Server::start(0), tempfile::tempdir().unwrap());
    let store = store_at(server.address, outbox.path());
    let [honest, other] = [keep(&store, &noise(4, 1000)).await, keep(&store, &noise(5, 1000)).await];
    // Under the first one's name lies the second one: a whole object, and not the one that was kept.
    let file = |digest: Digest| outbox.path().join(format!("{digest}.zst"));
    let bytes = std::fs::read(file(other.digest)).unwrap();
    assert_eq!(store.deliver().await.unwrap().objects, 2);
    server.put(&format!("/fleet/validators/one/{}.zst", honest.digest), &bytes);
    let refused = store.read(&honest.digest).await.unwrap_err();
    assert!(matches!(refused, EvidenceError::Tampered { found, .. } if found == other.digest), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_uploaded_keeps_nothing_else_back() {
    let (server, outbox) = (Server::start(0), tempfile::tempdir().unwrap());
    let store = store_at(server.address, outbox.path());
    let file = |stored: &StoredObject| outbox.path().join(format!("{}.zst", stored.digest));
    let [changed, folder] = [keep(&store, &noise(6, 1000)).await, keep(&store, &noise(7, 1000)).await];
    std::fs::write(file(&changed), "something else").unwrap();
    std::fs::remove_file(file(&folder)).unwrap();
    std::fs::create_dir(file(&folder)).unwrap();
    let later = keep(&store, &noise(8, 1000)).await;
    assert!(store.deliver().await.is_err());
    let held: Vec<_> = store.list().await.unwrap().into_iter().map(|held| held.digest).collect();
    assert_eq!(held, [later.digest], "the one that was changed is not uploaded");
    assert!(file(&changed).exists() && !file(&later).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_bucket_refuses_alone_keeps_nothing_else_back() {
    let (bucket, outbox) = (Choosy::start(), tempfile::tempdir().unwrap());
    let store = store_at(bucket.address, outbox.path());
    let refused = keep(&store, &noise(9, 1000)).await;
    bucket.refuse(refused.digest);
    let [second, third] = [keep(&store, &noise(10, 1000)).await, keep(&store, &noise(11, 1000)).await];
    assert!(store.deliver().await.is_err());
    // The second attempt begins with the others.
    assert!(store.deliver().await.is_err());
    assert_eq!(waiting(outbox.path()), 1, "{second:?} and {third:?} are taken");
    for seed in 12..16 {
        // Where nothing else is offered, it goes on waiting.
        assert!(store.deliver().await.is_err());
        keep(&store, &noise(seed, 1000)).await;
        assert!(store.deliver().await.is_err());
    }
    bucket.asked();
    assert_eq!(store.deliver().await.unwrap(), UploadTotals::default());
    assert_eq!(bucket.asked(), 0, "it has stepped aside");
    assert_eq!(content(&store, &refused.digest).await.unwrap(), noise(9, 1000));
    // As after a restart.
    bucket.refuse("nothing");
    assert_eq!(store_at(bucket.address, outbox.path()).deliver().await.unwrap().objects, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_refuses_everything_is_asked_once_each_time() {
    let (bucket, outbox) = (Choosy::start(), tempfile::tempdir().unwrap());
    let store = store_at(bucket.address, outbox.path());
    for seed in 17..20 {
        keep(&store, &noise(seed, 1000)).await;
    }
    for _ in 0..20 {
        assert!(store.deliver().await.is_err());
        assert_eq!(bucket.asked(), 1);
    }
    bucket.refuse("nothing");
    assert_eq!(store.deliver().await.unwrap().objects, 3, "nothing has stepped aside");
}

/// Regression test: the bucket kept the parts of an upload that failed, once more at each attempt.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_fails_leaves_no_parts_in_the_bucket() {
    let (bucket, outbox) = (Choosy::start(), tempfile::tempdir().unwrap());
    let store = store_at(bucket.address, outbox.path());
    keep(&store, &noise(21, 20_000_001)).await;
    for refused in ["partNumber=1&", "partNumber=3&", ".zst?uploadId=7 HTTP"] {
        bucket.refuse(refused);
        assert!(matches!(store.deliver().await, Err(EvidenceError::Store(_))), "{refused}");
        assert_eq!(bucket.uploads.load(Ordering::SeqCst), 0, "{refused}");
    }
    assert_eq!(waiting(outbox.path()), 1);
}
