//! The health that the validator reports: not serving while verdicts cannot be written, and while it drains.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use assay_protocol::wire::v1::session_service_server::SessionServiceServer;
use assay_records::HealthTold;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::clock::unix_ms;
use crate::service::Sessions;
use crate::validator::Validator;

/// Changes of health that wait until the records can be written; older ones are left out.
const MAX_WAITING: usize = 64;
/// How long the records may take to note a change: the report of the next one waits for them.
const NOTE_LIMIT: Duration = Duration::from_secs(2);

/// Reports health, for the service of miners and for the server as a whole, until the validator drains.
pub async fn follow(validator: Arc<Validator>, reporter: HealthReporter) {
    let (mut recording, mut shutdown) = (validator.verdicts.recording(), validator.shutdown.clone());
    let mut troubles = validator.records.troubles();
    let mut notes = Notes { validator: validator.clone(), waiting: VecDeque::new(), told: None };
    loop {
        // Seen before it is asked: a change after that is another one.
        recording.mark_unchanged();
        troubles.mark_unchanged();
        let why = validator.check_recording().err().map(|not_recording| not_recording.to_string());
        report(&reporter, why.is_none()).await;
        notes.add(why.is_none(), why.as_deref().unwrap_or("serving"));
        tokio::select! {
            biased;
            () = shutdown.draining() => break,
            () = notes.write() => {}
        }
        tokio::select! {
            () = shutdown.draining() => break,
            // The sender lives as long as the validator.
            _ = recording.changed() => {}
            _ = troubles.changed() => {}
        }
    }
    report(&reporter, false).await;
    notes.add(false, "the validator is shutting down");
    notes.write().await;
}

async fn report(reporter: &HealthReporter, serving: bool) {
    let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    reporter.set_service_status("", status).await;
    if serving {
        reporter.set_serving::<SessionServiceServer<Sessions>>().await;
    } else {
        reporter.set_not_serving::<SessionServiceServer<Sessions>>().await;
    }
}

/// Changes of health on their way into the records: what keeps these from being written is told once they can be.
struct Notes {
    validator: Arc<Validator>,
    waiting: VecDeque<(i64, HealthTold)>,
    /// What was told last.
    told: Option<(bool, String)>,
}

impl Notes {
    fn add(&mut self, serving: bool, why: &str) {
        if self.told.as_ref().is_some_and(|(was, before)| *was == serving && before == why) {
            return;
        }
        self.told = Some((serving, why.to_owned()));
        let validator = self.validator.admission.identity.public_key().to_string();
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((unix_ms(), HealthTold { validator, serving, why: why.to_owned() }));
    }

    /// Writes those that wait, as far as the records take them.
    async fn write(&mut self) {
        while let Some((at_ms, health)) = self.waiting.front() {
            let noted = self.validator.records.note_health(health.clone(), *at_ms);
            if !matches!(tokio::time::timeout(NOTE_LIMIT, noted).await, Ok(Ok(()))) {
                return;
            }
            self.waiting.pop_front();
        }
    }
}
