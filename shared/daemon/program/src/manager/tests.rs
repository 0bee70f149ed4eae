use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use super::*;

/// How long a message is waited for that has to come.
const PATIENCE: Duration = Duration::from_secs(60);
/// The watchdog's time in these tests.
const WATCHDOG: Duration = Duration::from_millis(40);

fn listen(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn received(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).expect("a message comes");
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

fn manager(socket: &str, watchdog: Option<(&str, &str)>) -> ServiceManager {
    ServiceManager::new(|name| match (name, watchdog) {
        ("NOTIFY_SOCKET", _) => Some(socket.into()),
        ("WATCHDOG_USEC", Some((limit_us, _))) => Some(limit_us.into()),
        ("WATCHDOG_PID", Some((_, pid))) if !pid.is_empty() => Some(pid.into()),
        _ => None,
    })
}

#[test]
fn each_change_is_one_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let socket = listen(&path);
    let manager = manager(path.to_str().unwrap(), None);
    manager.ready("listening");
    assert_eq!(received(&socket), "READY=1\nSTATUS=listening");
    let before = monotonic_us();
    manager.reloading();
    let message = received(&socket);
    let (reloading, at) = message.split_once("\nMONOTONIC_USEC=").unwrap();
    assert_eq!(reloading, "RELOADING=1");
    assert!((before..=monotonic_us()).contains(&at.parse().unwrap()), "{message}");
    manager.reloaded();
    assert_eq!(received(&socket), "READY=1");
}

#[test]
fn a_name_of_linux_is_reached_too() {
    let name = format!("assay-test-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    manager(&format!("@{name}"), None).status("a");
    assert_eq!(received(&socket), "STATUS=a");
}

#[test]
fn words_of_a_peer_are_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let socket = listen(&path);
    manager(path.to_str().unwrap(), None).status("closed: \nMAINPID=1\u{85}\r".to_owned() + &"ä".repeat(400));
    let message = received(&socket);
    assert!(message.starts_with("STATUS=closed:  MAINPID=1") && message.lines().count() == 1, "{message}");
    assert_eq!(message.chars().count(), "STATUS=".len() + MAX_STATUS_CHARS);
}

#[test]
fn a_manager_that_is_not_there_or_does_not_read_stops_nothing() {
    for name in ["", "relative", "/nonexistent/socket", "@"] {
        let manager = manager(name, Some(("1000", "")));
        manager.ready("a");
        manager.reloading();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _socket = listen(&path);
    let manager = manager(path.to_str().unwrap(), None);
    // More than any queue of datagrams holds.
    for _ in 0..5000 {
        manager.status("a");
    }
}

/// Beats may be lost with a full queue; changes of state and the line that an operator reads may not.
#[test]
fn what_a_full_queue_refused_is_said_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let socket = listen(&path);
    let filler = UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"another's", &path).is_ok() {}
    let manager = manager(path.to_str().unwrap(), Some((&WATCHDOG.as_micros().to_string(), "")));
    manager.ready("listening");
    for _ in 0..2 {
        manager.reloading();
        manager.reloaded();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (_trigger, shutdown) = Shutdown::by_hand();
    let (beat, beats) = mpsc::channel();
    runtime.spawn(async move {
        let status = || {
            let _ = beat.send(());
            "at work".to_owned()
        };
        manager.attend(shutdown, status).await
    });
    // At the second beat the first one's status has been refused.
    for _ in 0..2 {
        beats.recv_timeout(PATIENCE).unwrap();
    }
    // Beats go on for ever.
    let mut messages: Vec<_> = (0..200).map(|_| received(&socket)).collect();
    assert!(messages.iter().any(|message| message == "STATUS=at work"), "it is said among the next beats");
    messages.retain(|message| message.contains("READY=1") || message.contains("RELOADING=1"));
    assert!(
        messages.len() == 2 && messages[0].starts_with("RELOADING=1\n") && messages[1] == "READY=1",
        "{messages:?}"
    );
}

#[test]
fn the_watchdog_counts_for_its_process_only() {
    let own = std::process::id().to_string();
    let limit =
        |limit_us: &str, pid: &str| watchdog(Some(limit_us.into()), (!pid.is_empty()).then(|| pid.into()).as_ref());
    assert_eq!(limit("30000000", &own), Some(Duration::from_secs(30)));
    assert_eq!(limit("30000000", ""), Some(Duration::from_secs(30)));
    for (limit_us, pid) in [("30000000", "1"), ("0", ""), ("-1", ""), ("soon", ""), ("", "")] {
        assert_eq!(limit(limit_us, pid), None, "{limit_us} {pid}");
    }
    assert_eq!(watchdog(None, None), None);
}

/// Reads messages until one that says this.
fn wait_for(socket: &UnixDatagram, part: &str) {
    while !received(socket).contains(part) {}
}

/// Whether no sign of life comes any more for many times the watchdog's limit; messages sent before are left out.
fn is_silent(socket: &UnixDatagram) -> bool {
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4096];
    thread::sleep(2 * WATCHDOG);
    while socket.recv(&mut buffer).is_ok() {}
    thread::sleep(10 * WATCHDOG);
    let silent = socket.recv(&mut buffer).is_err();
    socket.set_nonblocking(false).unwrap();
    silent
}

#[test]
fn a_blocked_runtime_gives_no_sign_of_life() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let socket = listen(&path);
    let limit_us = WATCHDOG.as_micros().to_string();
    let manager = manager(path.to_str().unwrap(), Some((&limit_us, "")));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (trigger, shutdown) = Shutdown::by_hand();
    let (block, mut blocked) = tokio::sync::mpsc::channel::<mpsc::Receiver<()>>(1);
    let (taken, is_taken) = mpsc::channel();
    let (end, mut ended) = tokio::sync::oneshot::channel::<()>();
    let handle = runtime.handle().clone();
    let main = thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                never = manager.attend(shutdown, || "at work".to_owned()) => match never {},
                // The daemon's work, which blocks its own thread when it is asked to.
                () = async { while let Some(until) = blocked.recv().await { taken.send(()).unwrap(); let _ = until.recv(); } } => {}
                _ = &mut ended => {}
            }
        });
    });
    wait_for(&socket, "STATUS=at work");
    wait_for(&socket, "WATCHDOG=1");
    // The thread of the daemon's own task.
    let (release, until) = mpsc::channel();
    block.blocking_send(until).unwrap();
    is_taken.recv().unwrap();
    assert!(is_silent(&socket), "the main task is blocked");
    drop(release);
    wait_for(&socket, "WATCHDOG=1");
    // The threads of all other tasks.
    let releases: Vec<_> = (0..2)
        .map(|_| {
            let (release, until) = mpsc::channel::<()>();
            let (started, start) = mpsc::channel();
            handle.spawn(async move {
                started.send(()).unwrap();
                let _ = until.recv();
            });
            start.recv().unwrap();
            release
        })
        .collect();
    assert!(is_silent(&socket), "the runtime's threads are blocked");
    drop(releases);
    wait_for(&socket, "WATCHDOG=1");
    trigger.signal();
    wait_for(&socket, "STOPPING=1");
    wait_for(&socket, "STATUS=draining: at work");
    end.send(()).unwrap();
    main.join().unwrap();
}
