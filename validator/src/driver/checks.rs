//! Checks on the validator's cores, and replays on its devices.

use std::time::Instant;

use assay_device::Handle;
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::ChallengeId;

use super::Driver;
use crate::action::Action;
use crate::bounds::CHECK_WAIT_LIMIT;
use crate::verify::check::{CheckJob, TrustedValues};
use crate::verify::replay::{Extent, Replayed};

impl Driver {
    /// Checks a part of the openings on a blocking thread, once a core is free. The connection is not read meanwhile.
    pub(super) async fn check(&mut self, job: CheckJob) -> Vec<Action> {
        let began = Instant::now();
        let result = self.check_on_a_core(job).await;
        self.session.excuse(began.elapsed());
        match result {
            Ok(result) => self.session.checked(result),
            Err(ours) => self.session.stop_run(ours),
        }
    }

    /// The check's result, or why it could not be made.
    async fn check_on_a_core(&self, job: CheckJob) -> Result<Result<(), Reason>, Reason> {
        let Ok(Ok(_permit)) = tokio::time::timeout(CHECK_WAIT_LIMIT, self.validator.checks.acquire()).await else {
            let detail = format!("a check waited {CHECK_WAIT_LIMIT:?} for a core");
            return Err(Reason::new(ReasonCode::ValidatorOverloaded, detail));
        };
        let internal = |error: tokio::task::JoinError| Reason::new(ReasonCode::ValidatorInternal, error.to_string());
        tokio::task::spawn_blocking(|| job.run()).await.map_err(internal)
    }

    pub(super) fn start_replay(&mut self, id: ChallengeId, binding: TrustedValues, extent: Extent) -> Vec<Action> {
        let (Some(replayer), Some(key)) = (self.validator.replayer.clone(), self.key()) else {
            let detail = "this validator has no devices of its own";
            return self.session.replayed(id, Err(Reason::new(ReasonCode::ValidatorDevices, detail)));
        };
        self.replay = Handle::default();
        let (handle, done) = (self.replay.clone(), self.replayed.clone());
        let (turns, history) = (self.validator.turns.clone(), self.validator.admission.history.clone());
        tokio::spawn(async move {
            let result = match turns.wait(key, history.replayed_at(key)).await {
                Ok(turn) => {
                    history.replays(key, Instant::now());
                    let second = history.second_computation(key, Instant::now());
                    let job = move || {
                        let _turn = turn;
                        replayer.replay(&binding.challenge, &binding.evidence, &extent, second, &handle)
                    };
                    let internal = |error: tokio::task::JoinError| Replayed {
                        result: Err(Reason::new(ReasonCode::ValidatorInternal, error.to_string())),
                        computed_again: None,
                    };
                    let Replayed { result, computed_again } =
                        tokio::task::spawn_blocking(job).await.unwrap_or_else(internal);
                    if let Some(found) = computed_again {
                        history.computed_again(key, found, Instant::now());
                    }
                    result
                }
                Err(error) => Err(Reason::new(ReasonCode::ValidatorOverloaded, error.to_string())),
            };
            // The session may be over.
            let _ = done.send((id, result)).await;
        });
        Vec::new()
    }
}
