//! Checks on the validator's cores, and replays on its devices.

use std::time::Instant;

use assay_device::Handle;
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::ChallengeId;

use super::Driver;
use crate::action::Action;
use crate::bounds::CHECK_WAIT_LIMIT;
use crate::metrics::Counted;
use crate::verify::check::{CheckJob, TrustedValues};
use crate::verify::replay::Extent;
use crate::verify::replay::pool::ReplayRequest;
use crate::verify::turns::NoTurn;

impl Driver {
    /// Checks a part of the openings on a blocking thread, once a core is free. The connection is not read meanwhile.
    pub(super) async fn check(&mut self, job: CheckJob) -> Vec<Action> {
        let began = Instant::now();
        let result = self.check_on_a_core(job).await;
        if let Some(ongoing) = &mut self.challenge {
            ongoing.stages.checked(began);
        }
        self.session.excuse(began.elapsed());
        match result {
            Ok(result) => self.session.checked(result),
            Err(ours) => self.session.stop_run(ours),
        }
    }

    /// The check's result, or why it could not be made.
    async fn check_on_a_core(&self, job: CheckJob) -> Result<Result<(), Reason>, Reason> {
        let counts = &self.validator.metrics.challenges;
        let waiting = Counted::new(&counts.checks_waiting);
        let permit = tokio::time::timeout(CHECK_WAIT_LIMIT, self.validator.checks.acquire()).await;
        drop(waiting);
        let Ok(Ok(_permit)) = permit else {
            let detail = format!("a check waited {CHECK_WAIT_LIMIT:?} for a core");
            return Err(Reason::new(ReasonCode::ValidatorOverloaded, detail));
        };
        let internal = |error: tokio::task::JoinError| Reason::new(ReasonCode::ValidatorInternal, error.to_string());
        let _running = Counted::new(&counts.checks_running);
        let seconds = counts.check_seconds.clone();
        let run = move || {
            let _timer = seconds.start_timer();
            job.run()
        };
        tokio::task::spawn_blocking(run).await.map_err(internal)
    }

    pub(super) fn start_replay(&mut self, id: ChallengeId, work: TrustedValues, extent: Extent) -> Vec<Action> {
        let Some(key) = self.key() else { return Vec::new() };
        self.replay = Handle::default();
        let request = ReplayRequest { key, work, extent, handle: self.replay.clone() };
        let (validator, done) = (self.validator.clone(), self.replayed.clone());
        tokio::spawn(async move {
            let replayed = validator.replays.replay(request, &validator.admission.history).await;
            let overloaded = |error: NoTurn| Reason::new(ReasonCode::ValidatorOverloaded, error.to_string());
            let result = replayed.map_err(overloaded).and_then(|replayed| replayed.finding.into_result());
            // The session may be over.
            let _ = done.send((id, result)).await;
        });
        Vec::new()
    }
}
