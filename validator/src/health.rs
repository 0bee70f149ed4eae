//! The reported health: not serving while verdicts cannot be written, and during the drain.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use assay_keeper::validator::Validator;
use assay_program::clock::unix_ms;
use assay_protocol::wire::v1::session_service_server::SessionServiceServer;
use assay_records::HealthEvent;
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::service::Sessions;

/// The most changes of health that wait for the records; older ones are dropped.
const MAX_WAITING: usize = 64;
/// Time limit for recording a change: the next report waits for it.
const NOTE_LIMIT: Duration = Duration::from_secs(2);

/// Reports health, for the service of miners and for the server as a whole, until the validator drains.
pub async fn follow(validator: Arc<Validator>, reporter: HealthReporter) {
    let (mut troubles, mut shutdown) = (validator.records.troubles(), validator.shutdown.clone());
    let mut notes = HealthNotes { validator: validator.clone(), waiting: VecDeque::new(), told: None };
    loop {
        // Marked before the check, so that a later change is seen.
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
            _ = troubles.changed() => {}
        }
    }
    report(&reporter, false).await;
    notes.add(false, "the validator is shutting down");
    notes.write().await;
}

async fn report(reporter: &HealthReporter, serving: bool) {
    let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    for service in ["", <SessionServiceServer<Sessions> as NamedService>::NAME] {
        reporter.set_service_status(service, status).await;
    }
}

/// Changes of health on their way to the records: an outage of the records is recorded after it.
struct HealthNotes {
    validator: Arc<Validator>,
    waiting: VecDeque<(i64, HealthEvent)>,
    /// The last change added.
    told: Option<(bool, String)>,
}

impl HealthNotes {
    fn add(&mut self, serving: bool, why: &str) {
        if self.told.as_ref().is_some_and(|(was, before)| *was == serving && before == why) {
            return;
        }
        self.told = Some((serving, why.to_owned()));
        let validator = self.validator.access.admission.identity.public_key().to_string();
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((unix_ms(), HealthEvent { validator, serving, why: why.to_owned() }));
    }

    /// Writes the waiting changes, as far as the records accept them.
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
