//! The way out: how many sessions are still under way, and which challenges the end cut short.

use std::sync::{Arc, Mutex, PoisonError};

use assay_program::shutdown::Shutdown;
use assay_work::ChallengeId;
use tokio::sync::watch;

/// Counts the sessions, so that whatever serves them ends after the last one.
#[derive(Debug)]
pub struct Drain {
    shutdown: Shutdown,
    sessions: watch::Sender<usize>,
    cut_short: Mutex<Vec<ChallengeId>>,
}

/// A session that is under way, until this is dropped.
#[derive(Debug)]
pub struct SessionGuard(Arc<Drain>);

impl Drain {
    /// No session yet.
    #[must_use]
    pub fn new(shutdown: Shutdown) -> Arc<Self> {
        Arc::new(Self { shutdown, sessions: watch::Sender::new(0), cut_short: Mutex::default() })
    }

    /// A session begins. Counted before it is asked whether to drain, so that none is overlooked.
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> SessionGuard {
        self.sessions.send_modify(|sessions| *sessions += 1);
        SessionGuard(self.clone())
    }

    /// Notes a challenge that is ended because there is no time left for it.
    pub fn cut(&self, challenge: ChallengeId) {
        self.cut_short.lock().unwrap_or_else(PoisonError::into_inner).push(challenge);
    }

    /// The challenges that were ended because there was no time left for them.
    #[must_use]
    pub fn cut_short(&self) -> Vec<ChallengeId> {
        self.cut_short.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it is time to drain and no session is left.
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

    /// Whether the drain is over by now.
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
