//! The service manager that started a daemon: systemd, or another that speaks its protocol (sd_notify(3)).
//!
//! One datagram for each change, to the socket that `NOTIFY_SOCKET` names; without it nothing is sent. No call blocks
//! or fails: a daemon serves whether or not its manager listens.

mod socket;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use self::socket::{Socket, monotonic_us};
use crate::shutdown::Shutdown;

/// The longest interval between reports of the state, and the interval of reading the state without a watchdog.
const INTERVAL: Duration = Duration::from_secs(5);
/// The longest status text: `systemctl status` shows one line.
const MAX_STATUS_CHARS: usize = 200;

/// The service manager, if there is one. Clones report to the same one.
#[derive(Debug, Clone, Default)]
pub struct ServiceManager {
    socket: Option<Arc<Socket>>,
    /// How long the manager waits for a sign of life, where it does.
    watchdog: Option<Duration>,
    /// Changes of state that the manager's queue had no place for, in order, the last of each kind.
    refused: Arc<Mutex<Vec<String>>>,
}

impl ServiceManager {
    /// The one that the environment of this process names.
    pub fn of_process() -> Self {
        Self::new(|name| std::env::var_os(name))
    }

    /// The one that these variables name.
    pub fn new(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let [socket, watchdog_us, watchdog_pid] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"].map(variable);
        let Some(name) = socket.filter(|name| !name.is_empty()) else { return Self::default() };
        match Socket::new(&name) {
            Ok(socket) => {
                let watchdog = watchdog(watchdog_us, watchdog_pid.as_ref());
                Self { socket: Some(Arc::new(socket)), watchdog, refused: Arc::default() }
            }
            Err(error) => {
                tracing::warn!("NOTIFY_SOCKET is {}: the service manager is told nothing: {error}", name.display());
                Self::default()
            }
        }
    }

    /// Reports that the daemon serves.
    pub fn ready(&self, status: impl fmt::Display) {
        self.change(format!("READY=1\nSTATUS={}", one_line(&status.to_string())));
    }

    /// Reports the daemon's state, in a line for its operator.
    pub fn status(&self, status: impl fmt::Display) {
        self.send(&format!("STATUS={}", one_line(&status.to_string())));
    }

    /// The settings are read again. [`ServiceManager::reloaded`] has to follow.
    pub fn reloading(&self) {
        // Without the time, systemd takes the message for one about an earlier reload.
        self.change(format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()));
    }

    /// The settings were read, or refused; either way the daemon serves.
    pub fn reloaded(&self) {
        self.change("READY=1".to_owned());
    }

    /// The daemon ends; no harm where it was said before.
    pub fn stopping(&self) {
        self.change("STOPPING=1".to_owned());
    }

    /// Reports to the manager, without end, that the daemon lives and its state, and once that it drains.
    ///
    /// Poll this in the task that does the daemon's work: each sign of life has gone through that task and, by a task
    /// of its own, through the runtime's threads. A runtime that is blocked gives none, and the manager ends the
    /// daemon.
    pub async fn attend(&self, mut shutdown: Shutdown, status: impl Fn() -> String) -> Infallible {
        if self.socket.is_none() {
            return std::future::pending().await;
        }
        // Twice within the time that the manager waits.
        let mut beats = tokio::time::interval(self.watchdog.map_or(INTERVAL, |limit| INTERVAL.min(limit / 2)));
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut shown, mut is_draining) = (String::new(), false);
        loop {
            tokio::select! {
                _ = beats.tick() => {}
                () = shutdown.draining(), if !is_draining => {
                    is_draining = true;
                    self.stopping();
                }
            }
            // It is cancelled only with the runtime.
            let _ = tokio::spawn(async {}).await;
            if self.watchdog.is_some() {
                self.send("WATCHDOG=1");
            }
            // A message for which the manager's queue had no room is sent again at the next beat.
            self.send_refused(&mut self.refused.lock());
            let new = if is_draining { format!("draining: {}", status()) } else { status() };
            if new != shown && self.send(&format!("STATUS={}", one_line(&new))) {
                shown = new;
            }
        }
    }

    /// Tells of a change of state. Its order matters: systemd waits for RELOADING=1, then for READY=1.
    fn change(&self, message: String) {
        let kind = |message: &str| message.lines().next().map(str::to_owned);
        let mut refused = self.refused.lock();
        refused.retain(|other| kind(other) != kind(&message));
        refused.push(message);
        self.send_refused(&mut refused);
    }

    fn send_refused(&self, refused: &mut Vec<String>) {
        let taken = refused.iter().take_while(|message| self.send(message)).count();
        refused.drain(..taken);
    }

    /// Whether the manager's queue took it: one that is gone or does not read must not stop the daemon.
    fn send(&self, message: &str) -> bool {
        self.socket.as_ref().is_some_and(|socket| socket.send(message).is_ok())
    }
}

/// How long the manager waits, when it waits for this process.
fn watchdog(limit_us: Option<OsString>, pid: Option<&OsString>) -> Option<Duration> {
    let limit_us: u64 = limit_us?.to_str()?.parse().ok().filter(|limit| *limit > 0)?;
    let own = std::process::id().to_string();
    pid.is_none_or(|pid| pid.to_str() == Some(&own)).then(|| Duration::from_micros(limit_us))
}

/// A text as one line: the words of a peer in it must not become a message of their own.
fn one_line(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(MAX_STATUS_CHARS).collect()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
