//! Signals: the first SIGTERM or SIGINT asks to drain, the second to stop at once. On Windows these are Ctrl-C,
//! Ctrl-Break, and the end of the console or of the machine.

use std::io;
use std::time::Duration;

use tokio::sync::watch;

/// How far a program is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ShutdownStage {
    Running,
    Draining,
    Stopped,
}

/// The stage of the shutdown: drain, then stop. Clones share it.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<ShutdownStage>);

/// Asks for a shutdown. Dropped, it asks for nothing any more.
#[derive(Debug)]
pub struct Trigger(watch::Sender<ShutdownStage>);

impl Trigger {
    /// Has the effect of a signal: the first call asks to drain, the second to stop at once.
    pub fn signal(&self) {
        self.0.send_modify(|stage| {
            *stage = match *stage {
                ShutdownStage::Running => ShutdownStage::Draining,
                ShutdownStage::Draining | ShutdownStage::Stopped => ShutdownStage::Stopped,
            }
        });
    }
}

impl Shutdown {
    /// Listens for SIGTERM and SIGINT from now on, inside a Tokio runtime. After `drain_timeout` the rest is stopped as
    /// by a second signal.
    ///
    /// # Errors
    /// The system's error, when it takes no signal handlers.
    pub fn on_signals(drain_timeout: Duration) -> io::Result<Self> {
        let (trigger, shutdown) = Self::by_hand();
        let mut signals = Signals::new()?;
        tokio::spawn(async move {
            signals.next().await;
            tracing::info!("draining: a second signal stops at once");
            trigger.signal();
            tokio::select! {
                () = signals.next() => tracing::warn!("a second signal: stopping at once"),
                () = tokio::time::sleep(drain_timeout) => {
                    tracing::warn!("drain_timeout_s ({drain_timeout:?}) is over: stopping at once");
                }
            }
            trigger.signal();
            // The trigger lives on, so that later waits end too.
            trigger.0.closed().await;
        });
        Ok(shutdown)
    }

    /// A shutdown that someone else triggers.
    pub fn by_hand() -> (Trigger, Self) {
        let (sender, receiver) = watch::channel(ShutdownStage::Running);
        (Trigger(sender), Self(receiver))
    }

    /// Waits until it is time to drain.
    pub async fn draining(&mut self) {
        self.wait(ShutdownStage::Draining).await;
    }

    /// Waits until it is time to stop at once.
    pub async fn stopped(&mut self) {
        self.wait(ShutdownStage::Stopped).await;
    }

    /// Whether it is time to drain.
    pub fn is_draining(&self) -> bool {
        *self.0.borrow() >= ShutdownStage::Draining
    }

    /// Whether the time to drain is over: a second signal came, or the drain timeout passed. Asked by a program that is
    /// about to end, it says whether the program drained or was stopped before.
    pub fn was_cut_short(&self) -> bool {
        *self.0.borrow() == ShutdownStage::Stopped
    }

    async fn wait(&mut self, wanted: ShutdownStage) {
        if self.0.wait_for(|stage| *stage >= wanted).await.is_err() {
            // Without a trigger it never is time.
            std::future::pending::<()>().await;
        }
    }
}

/// The signals that ask a program to end, for a command that answers them in its own way.
#[cfg(unix)]
#[derive(Debug)]
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    /// A file that may not grow (`LimitFSIZE`) is an error of the write, where by default it ends the program.
    _file_size: tokio::signal::unix::Signal,
}

/// SIGXFSZ, on Linux and on macOS.
#[cfg(unix)]
const FILE_SIZE: i32 = 25;

#[cfg(unix)]
impl Signals {
    /// Listens from now on, inside a Tokio runtime: the signals no longer end the process by themselves.
    ///
    /// # Errors
    /// The system's error, when it takes no signal handlers.
    pub fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _file_size: signal(SignalKind::from_raw(FILE_SIZE))?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The signals that ask a program to end, for a command that answers them in its own way. After the last two, Windows
/// leaves a program some seconds to end.
#[cfg(windows)]
#[derive(Debug)]
pub struct Signals {
    interrupt: tokio::signal::windows::CtrlC,
    terminate: tokio::signal::windows::CtrlBreak,
    console_ends: tokio::signal::windows::CtrlClose,
    machine_ends: tokio::signal::windows::CtrlShutdown,
}

#[cfg(windows)]
impl Signals {
    /// Listens from now on, inside a Tokio runtime.
    ///
    /// # Errors
    /// The system's error, when it takes no handlers.
    pub fn new() -> io::Result<Self> {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};
        Ok(Self {
            interrupt: ctrl_c()?,
            terminate: ctrl_break()?,
            console_ends: ctrl_close()?,
            machine_ends: ctrl_shutdown()?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.console_ends.recv() => {}
            _ = self.machine_ends.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_signal_drains_and_the_second_stops() {
        let (trigger, mut shutdown) = Shutdown::by_hand();
        assert!(!shutdown.is_draining());
        trigger.signal();
        shutdown.draining().await;
        assert!(shutdown.is_draining());
        let mut waiting = shutdown.clone();
        tokio::select! {
            biased;
            () = waiting.stopped() => panic!("one signal does not stop"),
            () = tokio::task::yield_now() => {}
        }
        assert!(!shutdown.was_cut_short(), "one signal leaves the time to drain");
        trigger.signal();
        shutdown.stopped().await;
        assert!(shutdown.was_cut_short());
        // A late wait ends too.
        shutdown.draining().await;
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_real_signal_is_heard() {
        let mut shutdown = Shutdown::on_signals(Duration::from_secs(60)).unwrap();
        let pid = std::process::id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        shutdown.draining().await;
    }
}
