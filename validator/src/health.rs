//! The health that the validator reports: not serving while verdicts cannot be written, and while it drains.

use std::sync::Arc;

use assay_protocol::wire::v1::session_service_server::SessionServiceServer;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::hook::Event;
use crate::service::Sessions;
use crate::validator::Validator;

/// Reports health, for the service of miners and for the server as a whole, until the validator drains.
pub async fn follow(validator: Arc<Validator>, reporter: HealthReporter) {
    let (mut recording, mut shutdown) = (validator.verdicts.recording(), validator.shutdown.clone());
    let mut troubles = validator.records.troubles();
    loop {
        // Seen before it is asked: a change after that is another one.
        recording.mark_unchanged();
        troubles.mark_unchanged();
        let why = validator.check_recording().err().map(|not_recording| not_recording.to_string());
        report(&validator, &reporter, why.is_none(), why.as_deref().unwrap_or("serving")).await;
        tokio::select! {
            () = shutdown.draining() => break,
            // The sender lives as long as the validator.
            _ = recording.changed() => {}
            _ = troubles.changed() => {}
        }
    }
    report(&validator, &reporter, false, "the validator is shutting down").await;
}

async fn report(validator: &Validator, reporter: &HealthReporter, serving: bool, why: &str) {
    let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    reporter.set_service_status("", status).await;
    if serving {
        reporter.set_serving::<SessionServiceServer<Sessions>>().await;
    } else {
        reporter.set_not_serving::<SessionServiceServer<Sessions>>().await;
    }
    validator.hook.tell(Event::Health { serving, why });
}
