//! Checks on the validator's cores, and replays on its devices.

use std::panic::{AssertUnwindSafe, catch_unwind};

use assay_device::Handle;
use assay_program::clock;
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::ChallengeId;

use super::Driver;
use crate::metrics::{CHECK, GaugeGuard};
use assay_judge::action::Action;
use assay_judge::replay::Extent;
use assay_judge::verify::check::{CheckJob, TrustedValues};
use assay_listen::bounds::CHECK_WAIT_LIMIT;
use assay_replay::pool::ReplayRequest;
use assay_replay::turns::TurnRefusal;

/// The most bytes hashed on this thread while other sessions wait: a fifth of a millisecond, and a segment of 64 steps at
/// n = 2048.
const MAX_BYTES_AT_ONCE: usize = 256 << 10;

impl Driver {
    /// Checks a part of the openings once a core is free, long checks on a blocking thread. The connection is not read
    /// meanwhile.
    pub(super) async fn check(&mut self, job: CheckJob) -> Vec<Action> {
        let began = clock::now();
        let result = self.check_on_a_core(job).await;
        if let Some(ongoing) = &mut self.running.challenge {
            ongoing.stages.checked(began);
        }
        self.session.excuse(clock::since(began));
        match result {
            Ok(result) => self.session.checked(result),
            Err(ours) => self.session.stop_run(ours),
        }
    }

    /// Runs a check; the outer error is the reason why it could not run.
    async fn check_on_a_core(&self, job: CheckJob) -> Result<Result<(), Reason>, Reason> {
        let counts = &self.validator.reports.metrics.families;
        let waiting = GaugeGuard::new(counts.jobs_waiting.with_label_values(&[CHECK]));
        let permit = tokio::time::timeout(CHECK_WAIT_LIMIT, self.validator.capacity.checks.acquire()).await;
        drop(waiting);
        let Ok(Ok(_permit)) = permit else {
            let detail = format!("a check waited {CHECK_WAIT_LIMIT:?} for a core");
            return Err(Reason::new(ReasonCode::ValidatorOverloaded, detail));
        };
        let internal = |error: String| Reason::new(ReasonCode::ValidatorInternal, error);
        let _running = GaugeGuard::new(counts.jobs_running.with_label_values(&[CHECK]));
        let seconds = counts.challenge_phase_seconds.with_label_values(&[CHECK]);
        let is_short = job.bytes() <= MAX_BYTES_AT_ONCE;
        let run = move || {
            let _timer = seconds.start_timer();
            job.run()
        };
        if is_short {
            // A thread's wake-ups would take longer than the check.
            return catch_unwind(AssertUnwindSafe(run)).map_err(|_| internal("a check panicked".to_owned()));
        }
        tokio::task::spawn_blocking(run).await.map_err(|error| internal(error.to_string()))
    }

    pub(super) fn start_replay(&mut self, id: ChallengeId, work: TrustedValues, extent: Extent) -> Vec<Action> {
        let (Some(miner), Some(ongoing)) = (self.seat(), &self.running.challenge) else { return Vec::new() };
        self.running.replay = Handle::default();
        let (is_known, handle) = (ongoing.is_known, self.running.replay.clone());
        let request = ReplayRequest { miner, is_known, work, extent, handle };
        let (validator, done) = (self.validator.clone(), self.replayed.clone());
        tokio::spawn(async move {
            let replayed = validator.capacity.replays.replay(request, &validator.access.admission.history).await;
            let overloaded = |error: TurnRefusal| Reason::new(ReasonCode::ValidatorOverloaded, error.to_string());
            let result = replayed.map_err(overloaded).and_then(|replayed| replayed.finding.into_result());
            // The session may have ended.
            let _ = done.send(Box::new((id, result))).await;
        });
        Vec::new()
    }
}
