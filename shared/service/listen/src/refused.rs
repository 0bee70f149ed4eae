//! Connections that the system does not accept, for lack of files.

use std::time::{Duration, Instant};
use std::{fs, io};

/// Interval of logging that the system refuses connections.
const ACCEPT_WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// Pause after the system refused a connection (with too many open files, for example).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that the system refused, most likely for lack of files: they wait, and accepting is retried ten times a
/// second.
#[derive(Debug)]
pub struct RefusedConnections {
    /// The peers of the listener.
    of: &'static str,
    /// The limit of open files, read early: with too many open it cannot be read any more.
    limit: Option<u64>,
    attempts: u64,
    said: Option<Instant>,
}

impl RefusedConnections {
    pub fn new(of: &'static str) -> Self {
        Self { of, limit: open_files_limit(), attempts: 0, said: None }
    }

    /// Logs at intervals, and waits before the next attempt.
    pub async fn pause(&mut self, error: &io::Error) {
        if let Some(attempts) = self.due(Instant::now()) {
            let (of, remedy) = (self.of, remedy(error, self.limit));
            tracing::warn!(%error, attempts, "connections of {of} cannot be accepted, and wait{remedy}");
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }

    /// Counts an attempt; returns the attempts since the last log line when another is due.
    fn due(&mut self, now: Instant) -> Option<u64> {
        self.attempts += 1;
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < ACCEPT_WARNING_INTERVAL) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.attempts))
    }
}

/// The remedy where too many files are open.
fn remedy(error: &io::Error, limit: Option<u64>) -> String {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    match error.raw_os_error() {
        Some(EMFILE) => {
            let limit = limit.map_or_else(String::new, |limit| format!(", {limit} now"));
            format!(
                ": raise the limit of open files (LimitNOFILE= in the unit, ulimit -n in a shell{limit}), or lower \
                 max_miners"
            )
        }
        Some(ENFILE) => ": the machine has too many files open (fs.file-max)".to_owned(),
        _ => String::new(),
    }
}

/// The limit of open files of this process; only Linux provides it in a file.
pub fn open_files_limit() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_told_once_a_minute_of_connections_that_wait() {
        let (mut refused, start) = (RefusedConnections::new("miners"), Instant::now());
        let told: Vec<_> = (0..1300_u32).filter_map(|tenth| refused.due(start + ACCEPT_PAUSE * tenth)).collect();
        assert_eq!(told, [1, 600, 600]);
    }

    #[test]
    fn too_many_open_files_have_a_remedy() {
        assert!(
            remedy(&io::Error::from_raw_os_error(24), Some(9))
                .contains("LimitNOFILE= in the unit, ulimit -n in a shell, 9 now")
        );
        assert!(remedy(&io::Error::from_raw_os_error(23), None).contains("fs.file-max"));
        assert_eq!(remedy(&io::Error::other("else"), None), "");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_limit_of_open_files_is_known() {
        assert!(open_files_limit().is_some_and(|limit| limit > 0));
    }
}
