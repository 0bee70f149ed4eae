//! Ends of sessions that the records could not note at once. Until they do, a miner counts as connected, and its absence
//! does not count.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_listen::bounds::MAX_MINERS;
use assay_records::{Records, RecordsError};
use parking_lot::Mutex;

/// The most that a session waits for the records to note its end.
const NOTE_LIMIT: Duration = Duration::from_secs(2);
/// The most ends that wait: every session twice.
const MAX_ENDS: usize = 2 * MAX_MINERS as usize;

/// The end of a session.
#[derive(Debug, Clone)]
pub struct SessionEnd {
    /// The session's id, in hexadecimal.
    pub session: String,
    /// The time, in ms since 1970.
    pub at_ms: i64,
    /// The reason.
    pub why: String,
    /// The session's task panicked: no other task concludes its challenge.
    pub has_panicked: bool,
}

/// Ends that wait for the records, by session.
#[derive(Debug, Default)]
pub struct UnrecordedEnds(Mutex<BTreeMap<String, SessionEnd>>);

impl UnrecordedEnds {
    /// Records an end now, or keeps it for [`Self::record`].
    pub async fn end(&self, records: &Records, end: SessionEnd) {
        let noted = records.disconnected(&end.session, end.at_ms, &end.why);
        if !matches!(tokio::time::timeout(NOTE_LIMIT, noted).await, Ok(Ok(()))) {
            tracing::warn!(session = end.session, "the records do not have the end of a session yet");
            self.keep(end);
        }
    }

    /// Keeps an end of a session that the records may have as open.
    pub fn keep(&self, end: SessionEnd) {
        let mut ends = self.0.lock();
        if ends.len() < MAX_ENDS {
            ends.insert(end.session.clone(), end);
        }
    }

    /// Records the ends that wait. An end that the records have already changes nothing.
    ///
    /// # Errors
    /// The records cannot be written: the other ends wait on.
    pub async fn record(&self, records: &Records) -> Result<(), RecordsError> {
        loop {
            let Some(end) = self.0.lock().first_key_value().map(|(_, end)| end.clone()) else { return Ok(()) };
            records.disconnected(&end.session, end.at_ms, &end.why).await?;
            if end.has_panicked {
                records.orphan(&end.session).await?;
            }
            self.0.lock().remove(&end.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use assay_records::{EventDocument, Location};
    use assay_work::{Nonce, PublicKey};

    use super::*;
    use crate::tests::session;

    /// Regression test: a session whose end was not written within 2 s stayed open until the validator restarted.
    #[tokio::test]
    async fn an_end_that_the_records_do_not_take_is_recorded_later() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("validator.db"));
        let records = Records::open(&location).await.unwrap();
        let (nonce, key) = (Nonce([0xab; 32]), PublicKey([0xcd; 32]));
        let connected = session(nonce, key, PublicKey([0xee; 32]));
        records.connected(&connected).await.unwrap();
        records.close().await;
        let ends = UnrecordedEnds::default();
        ends.end(
            &records,
            SessionEnd { session: connected.session, at_ms: 4000, why: "gone".to_owned(), has_panicked: false },
        )
        .await;
        assert!(ends.record(&records).await.is_err());

        let records = Records::open(&location).await.unwrap();
        ends.record(&records).await.unwrap();
        ends.record(&records).await.unwrap();
        let sessions = records.sessions(&key.to_string(), 9).await.unwrap();
        assert_eq!((sessions[0].disconnected_ms, sessions[0].why.as_deref()), (Some(4000), Some("gone")));
        let left = records.events(0, 9).await.unwrap();
        let left = left.iter().filter(|event| matches!(event.told, EventDocument::MinerLeft(_)));
        assert_eq!(left.count(), 1);
    }
}
