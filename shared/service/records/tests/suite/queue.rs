//! The queue of replays.

use std::collections::BTreeSet;
use std::time::Duration;

use assay_records::{JobRequest, JobState, MAX_JOB_ATTEMPTS, MAX_JOB_BYTES, RecordsError};

use crate::store::TestStore;

const LONG: Duration = Duration::from_secs(3600);
const MEMORY: i64 = 1 << 30;

fn request<'a>(challenge: &'a str, document: &'a [u8]) -> JobRequest<'a> {
    JobRequest { challenge, submitted_by: "run-1", needs_bytes: MEMORY, ttl: LONG, document }
}

pub async fn each_job_goes_to_one_worker(store: &TestStore) {
    let records = store.open().await;
    let first = records.submit(&request(&format!("{:032x}", 0), &[0, 0, 255])).await.unwrap();
    assert_eq!(records.job(&first).await.unwrap(), Some(JobState::Waiting { ahead: 0 }));
    let mut ids = BTreeSet::from([first.clone()]);
    for number in 1..24_u8 {
        let challenge = format!("{number:032x}");
        ids.insert(records.submit(&request(&challenge, &[number, 0, 255])).await.unwrap());
    }
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..6 {
        let records = store.open().await;
        workers.spawn(async move {
            let worker = format!("worker-{number}");
            let mut done = Vec::new();
            while let Some(job) = records.take(&worker, MEMORY, LONG).await.unwrap() {
                assert_eq!(job.document[1..], [0, 255]);
                assert_eq!((job.challenge, job.attempt), (format!("{:032x}", job.document[0]), 1));
                assert!(records.renew_job(&job.id, &worker, LONG).await.unwrap());
                assert!(records.finish(&job.id, &worker, &format!("\"{worker}\"")).await.unwrap());
                done.push((job.id, worker.clone()));
            }
            done
        });
    }
    let done: Vec<_> = workers.join_all().await.into_iter().flatten().collect();
    assert_eq!(done.len(), ids.len(), "none twice");
    assert_eq!(done.iter().map(|(id, _)| id.clone()).collect::<BTreeSet<_>>(), ids, "and each once");
    for (id, worker) in done {
        assert_eq!(records.job(&id).await.unwrap(), Some(JobState::Done { result: format!("\"{worker}\"") }));
    }
    records.remove_jobs_of(&format!("{:032x}", 0)).await.unwrap();
    assert_eq!(records.job(&first).await.unwrap(), None);
}

pub async fn a_lost_worker_loses_its_job_and_its_result(store: &TestStore) {
    let records = store.open().await;
    let id = records.submit(&request("c1", b"work")).await.unwrap();
    let lost = records.take("lost", MEMORY, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(lost.id, id);
    // Regression test: it passed for running, and its submitter waited for a worker until the job's end.
    assert_eq!(records.job(&id).await.unwrap(), Some(JobState::Waiting { ahead: 0 }));
    let other = records.take("other", MEMORY, LONG).await.unwrap().unwrap();
    assert_eq!((other.id.as_str(), other.attempt), (id.as_str(), 2));
    assert_eq!(records.job(&id).await.unwrap(), Some(JobState::Running { worker: "other".to_owned() }));
    // The first one was only slow.
    assert!(!records.renew_job(&id, "lost", LONG).await.unwrap());
    assert!(!records.finish(&id, "lost", "\"wrong\"").await.unwrap());
    assert!(records.take("third", MEMORY, LONG).await.unwrap().is_none());
    assert!(records.finish(&id, "other", "\"right\"").await.unwrap());
    assert_eq!(records.job(&id).await.unwrap(), Some(JobState::Done { result: "\"right\"".to_owned() }));
    // The submitter gives up: the worker learns it when it renews.
    let id = records.submit(&request("c2", b"work")).await.unwrap();
    records.take("other", MEMORY, LONG).await.unwrap().unwrap();
    records.remove_job(&id).await.unwrap();
    assert!(!records.renew_job(&id, "other", LONG).await.unwrap());
}

pub async fn a_job_that_kills_workers_fails(store: &TestStore) {
    let records = store.open().await;
    let id = records.submit(&request("c1", b"poison")).await.unwrap();
    for attempt in 1..=MAX_JOB_ATTEMPTS {
        let job = records.take("worker", MEMORY, Duration::ZERO).await.unwrap().unwrap();
        assert_eq!(job.attempt, attempt);
    }
    assert!(records.take("worker", MEMORY, LONG).await.unwrap().is_none());
    let Some(JobState::Failed { why }) = records.job(&id).await.unwrap() else { panic!("it is given up") };
    assert_eq!(why, "3 workers took it, and none finished it: the last worker was lost");
    let id = records.submit(&request("c2", b"not for these")).await.unwrap();
    for _ in 0..MAX_JOB_ATTEMPTS {
        let job = records.take("worker", MEMORY, LONG).await.unwrap().unwrap();
        assert!(records.hand_back(&job.id, "worker", "no device holds it").await.unwrap());
    }
    let Some(JobState::Failed { why }) = records.job(&id).await.unwrap() else { panic!("it is given up") };
    assert!(why.ends_with("no device holds it"), "{why}");
    // Its time is over before anybody takes it.
    let late = JobRequest { ttl: Duration::ZERO, ..request("c3", b"late") };
    let late = records.submit(&late).await.unwrap();
    assert!(records.take("worker", MEMORY, LONG).await.unwrap().is_none());
    let why = "nobody finished it in time".to_owned();
    assert_eq!(records.job(&late).await.unwrap(), Some(JobState::Failed { why }));
    assert_eq!(records.sweep_queue(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(records.job(&late).await.unwrap(), None);
    let large = vec![0; MAX_JOB_BYTES + 1];
    let error = records.submit(&request("c4", &large)).await.unwrap_err();
    assert!(matches!(error, RecordsError::TooLarge { .. }), "{error}");
}

pub async fn a_job_waits_for_a_worker_with_memory(store: &TestStore) {
    let records = store.open().await;
    let large = records.submit(&JobRequest { needs_bytes: 2 * MEMORY, ..request("c1", b"large") }).await.unwrap();
    // Those of one millisecond have no order.
    tokio::time::sleep(Duration::from_millis(2)).await;
    let small = records.submit(&request("c2", b"small")).await.unwrap();
    assert_eq!(records.job(&small).await.unwrap(), Some(JobState::Waiting { ahead: 1 }));
    assert_eq!(records.take("small", MEMORY, LONG).await.unwrap().unwrap().id, small);
    assert!(records.take("small", MEMORY, LONG).await.unwrap().is_none());
    records.worker_heartbeat("large", "10.0.0.1", "{\"devices\":2}", LONG).await.unwrap();
    records.worker_heartbeat("gone", "10.0.0.2", "{}", Duration::ZERO).await.unwrap();
    let workers = records.workers().await.unwrap();
    assert_eq!(workers.len(), 1, "the other one is gone");
    assert_eq!((workers[0].id.as_str(), workers[0].capacity.get()), ("large", "{\"devices\":2}"));
    assert_eq!(records.take("large", 2 * MEMORY, LONG).await.unwrap().unwrap().id, large);
}
