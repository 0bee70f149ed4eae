//! The daemons' messages to the service manager that started them (sd_notify): they serve, reload, live and end.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc;
use std::time::Instant;

use assay_integration_tests::daemon::{Daemon, PATIENCE, program};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::Mode;
use tempfile::TempDir;

/// A service manager: the messages to its socket, and the variables that it starts daemons with.
struct Manager {
    messages: mpsc::Receiver<String>,
    folder: TempDir,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        let (sender, messages) = mpsc::channel();
        // As a service manager does, it always reads: ten messages fill the queue of a socket, which is a second's
        // beats, and later ones are lost. The thread ends with the test's process, or at the first message after its
        // test.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = socket.recv(&mut buffer)
                && sender.send(String::from_utf8(buffer[..length].to_vec()).unwrap()).is_ok()
            {}
        });
        Self { messages, folder }
    }

    fn environment(&self) -> Vec<(String, OsString)> {
        let path = self.folder.path().join("notify");
        vec![("NOTIFY_SOCKET".into(), path.into()), ("WATCHDOG_USEC".into(), "200000".into())]
    }

    /// Waits for a message with this line, and gives it.
    fn wait_for(&self, line: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let message = self.messages.recv_timeout(PATIENCE).expect("a message comes");
            if message.lines().any(|found| found.starts_with(line)) {
                return message;
            }
            assert!(Instant::now() < until, "{line} never comes: {message}");
        }
    }

    /// A reload by SIGHUP, then the end by SIGTERM.
    fn sees_reload_and_end(&self, daemon: &mut Daemon) {
        daemon.hang_up();
        let message = self.wait_for("RELOADING=1");
        assert!(message.contains("\nMONOTONIC_USEC="), "{message}");
        self.wait_for("READY=1");
        self.wait_for("WATCHDOG=1");
        daemon.terminate();
        self.wait_for("STOPPING=1");
        assert_eq!(daemon.wait().code(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validator_tells_its_manager_what_it_does() {
    let manager = Manager::new();
    let policy = Policy { environment: manager.environment(), ..Policy::default() };
    let mut validator = TestValidator::start(&policy).await;
    let ready = manager.wait_for("READY=1");
    assert!(ready.contains(&format!("STATUS=listening on {}", validator.address)), "{ready}");
    manager.wait_for("WATCHDOG=1");
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    manager.wait_for("STATUS=1 miner, 0 challenged; verdicts: 1 pass, 0 fail, 0 inconclusive");
    drop(miner);
    manager.sees_reload_and_end(&mut validator.daemon);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_tells_its_manager_what_it_does_and_its_workers_do_not() {
    let manager = Manager::new();
    let validator = TestValidator::start(&Policy::default()).await;
    let (worker, found) = (manager.folder.path().join("worker"), manager.folder.path().join("environment"));
    let script = format!("#!/bin/sh\nenv > {}\nexec {} \"$@\"\n", found.display(), program("assay-miner").display());
    fs::write(&worker, script).unwrap();
    fs::set_permissions(&worker, fs::Permissions::from_mode(0o755)).unwrap();
    let program = ("ASSAY_WORKER_PROGRAM".to_owned(), worker.into());
    let environment = manager.environment().into_iter().chain([program]).collect();
    let mut miner = TestMiner::start_in(validator.address, 1, &[], environment);
    manager.wait_for("STATUS=opening the devices");
    let ready = manager.wait_for("READY=1");
    assert!(ready.contains(&format!("STATUS=connecting to {}", validator.address)), "{ready}");
    manager.wait_for("WATCHDOG=1");
    manager.wait_for(&format!(
        "STATUS=verdicts: 0 pass, 0 fail, 0 inconclusive; connected to {}, waiting for challenges",
        validator.address
    ));
    // The worker's environment; the daemon's own had the socket, as the messages show.
    miner.daemon.workers(1);
    let found = fs::read_to_string(&found).expect("a worker was started");
    assert!(found.contains("PATH="), "{found}");
    for variable in ["NOTIFY_SOCKET", "WATCHDOG_USEC"] {
        assert!(!found.contains(variable), "a worker has the daemon's {variable}");
    }
    manager.sees_reload_and_end(&mut miner.daemon);
}
