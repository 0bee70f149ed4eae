use std::sync::Arc;
use std::time::Duration;

use assay_program::clock::unix_ms;
use assay_records::{Actor, EventKind, HealthEvent, Location, NewWebhook, Records, WebhookRecord};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::{SigningSecret, Webhooks};

const LONG: Duration = Duration::from_secs(60);
const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// A received request: its connection, id, signature and body.
struct Request {
    connection: usize,
    id: String,
    body: Value,
}

/// A server that answers requests from a list of answers, and with success after its end.
async fn receiver(answers: Vec<String>) -> (String, mpsc::Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook?token=hunter2", listener.local_addr().unwrap());
    let (came, requests) = mpsc::channel(1024);
    let answers = Arc::new(std::sync::Mutex::new(answers.into_iter()));
    tokio::spawn(async move {
        for connection in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(answer(stream, connection, came.clone(), answers.clone()));
        }
    });
    (url, requests)
}

async fn answer(
    mut stream: TcpStream,
    connection: usize,
    came: mpsc::Sender<Request>,
    answers: Arc<std::sync::Mutex<std::vec::IntoIter<String>>>,
) {
    let (mut bytes, mut block) = (Vec::new(), vec![0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            let count = stream.read(&mut block).await.unwrap_or(0);
            if count == 0 {
                return;
            }
            bytes.extend_from_slice(&block[..count]);
            continue;
        };
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
        let length: usize = header("content-length: ").parse().unwrap();
        if body.len() < length {
            let count = stream.read(&mut block).await.unwrap();
            bytes.extend_from_slice(&block[..count]);
            continue;
        }
        assert!(head.starts_with("POST /hook?token=hunter2 HTTP/1.1\r\n"), "{head}");
        let request = Request { connection, id: header("webhook-id: "), body: serde_json::from_str(body).unwrap() };
        bytes.clear();
        let answer = answers.lock().unwrap().next().unwrap_or_else(|| OK.to_owned());
        let _ = came.send(request).await;
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

struct Store {
    _folder: TempDir,
    records: Records,
    webhooks: Webhooks,
}

impl Store {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let webhooks = Webhooks::new(records.clone(), "run".to_owned());
        tokio::spawn(webhooks.clone().keep());
        Self { _folder: folder, records, webhooks }
    }

    async fn add(&self, url: &str, kinds: &[EventKind]) -> String {
        let secret = SigningSecret::random().unwrap().bytes().to_vec();
        let new = NewWebhook { url: url.to_owned(), target: "shown".to_owned(), kinds: kinds.to_vec(), secret };
        let added = self.records.add_webhook(&new, &Actor::validator()).await.unwrap();
        self.webhooks.changed();
        added.id
    }

    /// Adds changes of health, each with its number.
    async fn tell(&self, numbers: std::ops::Range<usize>) {
        for number in numbers {
            let told = HealthEvent { validator: String::new(), serving: true, why: number.to_string() };
            // Old events are removed.
            self.records.note_health(told, unix_ms()).await.unwrap();
        }
    }

    async fn wait_for(&self, id: &str, is_so: impl Fn(&WebhookRecord) -> bool) -> WebhookRecord {
        tokio::time::timeout(LONG, async {
            loop {
                let webhook = self.records.webhook(id).await.unwrap().unwrap();
                if is_so(&webhook) {
                    return webhook;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap()
    }
}

async fn next(requests: &mut mpsc::Receiver<Request>) -> Request {
    tokio::time::timeout(LONG, requests.recv()).await.unwrap().unwrap()
}

const HEALTH: [EventKind; 1] = [EventKind::Health];

#[tokio::test]
async fn events_come_in_order_over_one_connection() {
    let (url, mut requests) = receiver(Vec::new()).await;
    let store = Store::new().await;
    store.add(&url, &HEALTH).await;
    store.tell(0..100).await;
    for number in 0..100 {
        let request = next(&mut requests).await;
        assert_eq!(
            (&request.body["type"], &request.body["data"]["why"]),
            (&"health".into(), &number.to_string().into())
        );
        assert_eq!((request.connection, &request.body["id"]), (0, &request.id.as_str().into()));
    }
    let last = store.records.last_event().await.unwrap();
    store.webhooks.finish(LONG).await;
    let webhook = store.records.webhooks().await.unwrap().remove(0);
    assert_eq!((webhook.delivery.last_event, webhook.delivery.delivered), (last, 100));
    assert_eq!(store.webhooks.counts().get(), (100, 0));
}

#[tokio::test]
async fn what_failed_is_sent_again_before_what_follows_and_redirects_are_not_followed() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let location = other.local_addr().unwrap();
    let answers = [
        format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{location}/\r\ncontent-length: 0\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(64 << 10)),
    ];
    let (url, mut requests) = receiver(answers.to_vec()).await;
    let store = Store::new().await;
    let id = store.add(&url, &HEALTH).await;
    store.tell(0..2).await;
    let first = next(&mut requests).await;
    let failed = store.wait_for(&id, |webhook| webhook.delivery.attempts == 1).await;
    let why = failed.delivery.last_error.unwrap();
    assert_eq!(why, "the server answered 307 Temporary Redirect, which is not followed");
    for attempt in 1..3 {
        let again = next(&mut requests).await;
        assert_eq!((&again.id, &again.body), (&first.id, &first.body), "attempt {attempt}");
    }
    let second = next(&mut requests).await;
    assert_eq!((&second.body["data"]["why"], second.id == first.id), (&"1".into(), false));
    let done = store.wait_for(&id, |webhook| webhook.delivery.delivered == 2).await;
    assert_eq!((done.delivery.attempts, done.delivery.failing_ms, done.delivery.last_error), (0, None, None));
    assert_eq!(store.webhooks.counts().get(), (2, 2));
    let nobody = tokio::time::timeout(Duration::from_millis(1), other.accept()).await;
    assert!(nobody.is_err(), "nobody came to where the redirect led");
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_disabled_until_it_takes_a_test() {
    let (url, mut requests) = receiver(vec!["HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n".to_owned()]).await;
    let store = Store::new().await;
    let id = store.add(&url, &HEALTH).await;
    store.tell(0..3).await;
    let first = next(&mut requests).await;
    let disabled = store.wait_for(&id, |webhook| webhook.disabled_ms.is_some()).await;
    assert_eq!(disabled.disabled_why.as_deref(), Some("the server answered 410 Gone"));
    assert_eq!(store.webhooks.test(&disabled).await.unwrap(), 204);
    let test = next(&mut requests).await;
    assert_eq!((&test.body["type"], &test.body["data"]["webhook"]), (&"test".into(), &id.as_str().into()));
    // Delivery resumes at the same event.
    let again = next(&mut requests).await;
    assert_eq!(again.id, first.id);
    for number in 1..3 {
        assert_eq!(next(&mut requests).await.body["data"]["why"], number.to_string());
    }
}

#[tokio::test]
async fn a_test_that_is_taken_has_what_waits_be_tried_again() {
    let busy = "HTTP/1.1 503 Busy\r\nretry-after: 3600\r\ncontent-length: 0\r\n\r\n";
    let (url, mut requests) = receiver(vec![busy.to_owned()]).await;
    let store = Store::new().await;
    let id = store.add(&url, &HEALTH).await;
    store.tell(0..1).await;
    let first = next(&mut requests).await;
    let waits = store.wait_for(&id, |webhook| webhook.delivery.attempts == 1).await;
    assert_eq!(store.webhooks.test(&waits).await.unwrap(), 204);
    let test = next(&mut requests).await;
    let (stamp, is_digit) = (test.body["timestamp"].as_str().unwrap(), |c: char| c.is_ascii_digit());
    assert_eq!(stamp.replace(is_digit, "0"), "0000-00-00T00:00:00Z");
    let again = next(&mut requests).await;
    assert_eq!((&again.id, &again.body), (&first.id, &first.body));
    assert_eq!(first.body["timestamp"].as_str().unwrap().replace(is_digit, "0"), "0000-00-00T00:00:00Z");
}

#[tokio::test]
async fn an_answer_without_end_is_cut_short() {
    let endless = format!("HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n{}", "x".repeat(64 << 10));
    let (url, mut requests) = receiver(vec![endless]).await;
    let store = Store::new().await;
    let id = store.add(&url, &HEALTH).await;
    store.tell(0..2).await;
    assert_eq!(next(&mut requests).await.connection, 0);
    let second = next(&mut requests).await;
    assert_eq!((second.connection, &second.body["data"]["why"]), (1, &"1".into()));
    store.wait_for(&id, |webhook| webhook.delivery.delivered == 2).await;
}

#[tokio::test]
async fn what_was_removed_is_counted_and_not_waited_for() {
    // Long enough that the events are removed before the next attempt.
    let refusal = "HTTP/1.1 503 No\r\nretry-after: 10\r\ncontent-length: 0\r\n\r\n";
    let (url, mut requests) = receiver(vec![refusal.to_owned()]).await;
    let store = Store::new().await;
    let id = store.add(&url, &HEALTH).await;
    store.tell(0..1).await;
    next(&mut requests).await;
    store.wait_for(&id, |webhook| webhook.delivery.attempts == 1).await;
    store.tell(1..10).await;
    // All but the newest event.
    store.records.prune(0, 1).await.unwrap();
    assert_eq!(next(&mut requests).await.body["data"]["why"], "9");
    let done = store.wait_for(&id, |webhook| webhook.delivery.delivered == 1).await;
    // Events of other kinds count as skipped too: their kinds are no longer known.
    assert_eq!(done.delivery.skipped, 10);
}
