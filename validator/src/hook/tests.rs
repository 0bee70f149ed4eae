use super::*;

fn none() -> Event<'static> {
    Event::Health { serving: true, why: "serving" }
}

/// A hook whose task does not run: what is queued stays there.
fn idle(target: Option<HookTarget>) -> (Hook, mpsc::Receiver<Job>) {
    let (queue, jobs) = mpsc::channel(MAX_WAITING);
    let shared = Arc::new(Shared {
        target: Mutex::new(target.map(Arc::new)),
        sequence: AtomicU64::new(0),
        dropped: AtomicU64::new(0),
        waiting: watch::Sender::new(0),
    });
    (Hook { queue, shared }, jobs)
}

#[test]
fn what_does_not_fit_the_queue_is_counted_and_dropped() {
    let (hook, mut jobs) = idle(Some("cat".parse().unwrap()));
    for _ in 0..MAX_WAITING + 3 {
        hook.tell(none());
    }
    assert_eq!(hook.shared.dropped.load(Ordering::Relaxed), 3);
    assert_eq!(*hook.shared.waiting.borrow(), MAX_WAITING);
    let first = jobs.try_recv().unwrap();
    let body: serde_json::Value = serde_json::from_slice(&first.body).unwrap();
    assert_eq!((&body["event"], &body["sequence"], &body["serving"]), (&"health".into(), &1.into(), &true.into()));
    hook.tell(none());
    assert_eq!(hook.shared.dropped.load(Ordering::Relaxed), 3, "there was room again");
}

#[test]
fn without_a_target_nothing_is_queued() {
    let (hook, mut jobs) = idle(None);
    hook.tell(none());
    assert!(jobs.try_recv().is_err());
    hook.set(Some("cat".parse().unwrap()));
    hook.tell(none());
    assert!(jobs.try_recv().is_ok());
}

async fn once(command: &str, limit: Duration) -> Result<(), String> {
    deliver::once(&command.parse().unwrap(), &Arc::from(&b"{}"[..]), limit).await
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_command_reads_the_event_and_its_exit_code_counts() {
    assert_eq!(once("sh -c 'test \"$(cat)\" = {}'", LONG).await, Ok(()));
    assert_eq!(once("true", LONG).await, Ok(()), "it need not read");
    let failed = once("sh -c 'echo no route >&2; exit 7'", LONG).await.unwrap_err();
    assert!(failed.contains("exit status: 7") && failed.contains("it said \"no route\""), "{failed}");
    let missing = once("/no/such/program", LONG).await.unwrap_err();
    assert!(missing.contains("cannot run \"/no/such/program\""), "{missing}");
}

/// The command and what it started end with the time that it has, and a full pipe holds nothing up.
#[tokio::test]
async fn a_command_that_hangs_is_killed_with_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let command = format!("sh -c 'sleep 1000 & echo $! > {}; wait'", pid.display());
    let target: HookTarget = command.parse().unwrap();
    let body: Arc<[u8]> = vec![b'x'; 1 << 20].into();
    let error = deliver::once(&target, &body, Duration::from_secs(2)).await.unwrap_err();
    assert!(error.contains("was killed"), "{error}");
    let child: u32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let is_gone = || {
        // A process that waits to be collected has ended.
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z"))
    };
    while !is_gone() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a command writes without end neither fills a pipe nor memory.
#[tokio::test]
async fn a_command_that_says_much_is_cut_short() {
    let failed = once("sh -c 'head -c 300000 /dev/zero | tr \"\\0\" x >&2; exit 1'", LONG).await.unwrap_err();
    assert!(failed.len() < 1000, "{}", failed.len());
}
