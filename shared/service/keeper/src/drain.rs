//! Draining: the count of sessions under way, and the challenges cut short at the end.

use std::sync::Arc;

use assay_program::shutdown::Shutdown;
use assay_work::ChallengeId;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Counts the sessions, so that the server ends after the last one.
#[derive(Debug)]
pub struct Drain {
    shutdown: Shutdown,
    sessions: watch::Sender<usize>,
    cut_short: Mutex<Vec<ChallengeId>>,
}

/// A session under way, until it is dropped.
#[derive(Debug)]
pub struct SessionGuard(Arc<Drain>);

impl Drain {
    pub fn new(shutdown: Shutdown) -> Arc<Self> {
        Arc::new(Self { shutdown, sessions: watch::Sender::new(0), cut_short: Mutex::default() })
    }

    /// Counts a session that begins. It is counted before it checks for a drain, so that each is seen.
    pub fn enter(self: &Arc<Self>) -> SessionGuard {
        self.sessions.send_modify(|sessions| *sessions += 1);
        SessionGuard(self.clone())
    }

    /// Records a challenge that ends because the time to drain is over.
    pub fn cut(&self, challenge: ChallengeId) {
        self.cut_short.lock().push(challenge);
    }

    /// The challenges that ended because the time to drain was over.
    pub fn cut_short(&self) -> Vec<ChallengeId> {
        self.cut_short.lock().clone()
    }

    /// Waits for the drain and the end of the last session.
    pub async fn over(&self) {
        self.shutdown.clone().draining().await;
        // The sender lives as long as this.
        let _ = self.sessions.subscribe().wait_for(|sessions| *sessions == 0).await;
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.0.sessions.send_modify(|sessions| *sessions -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the drain is over now.
    async fn is_over(drain: &Drain) -> bool {
        tokio::select! {
            biased;
            () = drain.over() => true,
            () = tokio::task::yield_now() => false,
        }
    }

    #[tokio::test]
    async fn a_drain_is_over_when_the_last_session_is() {
        let (trigger, shutdown) = Shutdown::by_hand();
        let drain = Drain::new(shutdown);
        assert!(!is_over(&drain).await, "nobody asked for it");
        let (first, second) = (drain.enter(), drain.enter());
        trigger.signal();
        drop(first);
        assert!(!is_over(&drain).await, "a session is under way");
        drop(second);
        assert!(is_over(&drain).await);
        assert!(drain.cut_short().is_empty());
        drain.cut(ChallengeId([7; 16]));
        assert_eq!(drain.cut_short(), [ChallengeId([7; 16])]);
    }
}
