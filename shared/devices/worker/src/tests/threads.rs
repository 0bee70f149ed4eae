//! Workers on threads of a test, over pipes. The tests of those who start workers compile this file too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use assay_worker::{BackendFactory, LaunchedWorker, Launcher, Process, serve};

/// Starts workers on threads.
#[derive(Debug)]
pub struct Threads {
    pub started: AtomicU32,
    /// Their backends.
    pub registry: BackendFactory,
}

impl Threads {
    pub fn new(registry: BackendFactory) -> Self {
        Self { started: AtomicU32::new(0), registry }
    }
}

impl Launcher for Threads {
    fn launch(&self) -> io::Result<LaunchedWorker> {
        self.started.fetch_add(1, Ordering::Relaxed);
        let (requests, input) = io::pipe()?;
        let (output, replies) = io::pipe()?;
        let ended = Arc::new(AtomicBool::new(false));
        let (done, registry) = (ended.clone(), self.registry);
        thread::spawn(move || {
            let _ = serve(registry, requests, replies, || ());
            done.store(true, Ordering::Relaxed);
        });
        Ok(LaunchedWorker { input: Box::new(input), output: Box::new(output), process: Box::new(FakeProcess(ended)) })
    }
}

/// A stand-in for a process: it has ended when the flag is set.
pub struct FakeProcess(pub Arc<AtomicBool>);

impl Process for FakeProcess {
    fn id(&self) -> u32 {
        0
    }
    fn kill(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
    fn wait(&mut self, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        while !self.0.load(Ordering::Relaxed) {
            if Instant::now() >= until {
                return None;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Some("was killed by signal 9".into())
    }
}
