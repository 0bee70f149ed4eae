//! The control service: commands for a running validator, over a socket that only its user can open.

use std::pin::Pin;
use std::sync::Arc;

use assay_protocol::message::MATRIX_SIZES;
use assay_protocol::verdict::Mode;
use assay_protocol::wire::v1::control_service_server::ControlService;
use assay_protocol::wire::v1::run_challenge_response::Message;
use assay_protocol::wire::v1::{
    self, ConnectedMiner, ListMinersRequest, ListMinersResponse, RunChallengeRequest, RunChallengeResponse,
};
use assay_work::PublicKey;
use assay_work::challenge::MAX_ITERATIONS;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

use crate::policy::{MAX_FILL_PERCENT, MAX_SAMPLES, Policy};
use crate::registry::{Miner, SessionCommand, Update};
use crate::session::StartError;
use crate::validator::Validator;

/// Updates kept for a slow watcher; progress comes once per second.
const UPDATES: usize = 64;

/// The gRPC service behind the control socket.
#[derive(Clone)]
pub struct Control(Arc<Validator>);

impl Control {
    /// The service of a validator.
    #[must_use]
    pub const fn new(validator: Arc<Validator>) -> Self {
        Self(validator)
    }

    /// The key of the miner requested: the one named, or the only one connected.
    fn miner(&self, key: &[u8]) -> Result<PublicKey, Status> {
        let miners = self.0.registry.miners();
        if key.is_empty() {
            return match miners.as_slice() {
                [only] => Ok(only.key),
                [] => Err(Status::not_found("no miner is connected")),
                _ => Err(Status::invalid_argument(format!("{} miners are connected: choose one by key", miners.len()))),
            };
        }
        let key = PublicKey::try_from(key).map_err(|_| Status::invalid_argument("miner_key: 32 bytes are expected"))?;
        if miners.iter().any(|miner| miner.key == key) {
            Ok(key)
        } else {
            Err(Status::not_found(format!("miner {key} is not connected")))
        }
    }
}

type Updates = Pin<Box<dyn Stream<Item = Result<RunChallengeResponse, Status>> + Send>>;

#[tonic::async_trait]
impl ControlService for Control {
    async fn list_miners(&self, _request: Request<ListMinersRequest>) -> Result<Response<ListMinersResponse>, Status> {
        let miners = self.0.registry.miners().into_iter().map(connected_miner).collect();
        Ok(Response::new(ListMinersResponse { miners }))
    }

    type RunChallengeStream = Updates;

    async fn run_challenge(&self, request: Request<RunChallengeRequest>) -> Result<Response<Updates>, Status> {
        if self.0.shutdown.is_draining() {
            return Err(Status::unavailable("the validator is draining: it starts no challenge"));
        }
        let request = request.into_inner();
        let key = self.miner(&request.miner_key)?;
        let policy = Arc::new(policy_of(&self.0.policy, &request)?);
        let gone = || Status::unavailable(format!("miner {key} is no longer connected"));
        let commands = self.0.registry.commands(key).ok_or_else(gone)?;
        let (updates, watch) = mpsc::channel(UPDATES);
        let (started, answer) = oneshot::channel();
        commands.send(SessionCommand::Run { policy, started, updates }).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?.map_err(|error| start_status(&error))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(watch).map(|update| Ok(response(update))))))
    }
}

fn start_status(error: &StartError) -> Status {
    match error {
        StartError::NotConnected => Status::unavailable(error.to_string()),
        StartError::Busy | StartError::Issue(_) => Status::failed_precondition(error.to_string()),
    }
}

/// The validator's policy, with the fields of the request in place of its own.
fn policy_of(policy: &Policy, request: &RunChallengeRequest) -> Result<Policy, Status> {
    let mut policy = policy.clone();
    match request.mode() {
        v1::Mode::Unspecified => {}
        v1::Mode::Replay => policy.mode = Some(Mode::Replay),
        v1::Mode::ReplaySample => policy.mode = Some(Mode::ReplaySample),
        v1::Mode::Audit => policy.mode = Some(Mode::Audit),
    }
    if let Some(n) = request.n {
        if !MATRIX_SIZES.contains(&n) {
            return Err(Status::invalid_argument(format!("n: {n} is not one of {MATRIX_SIZES:?}")));
        }
        policy.n = Some(n);
        policy.n_min = None;
    }
    let within = |name: &str, value: Option<u32>, most: u32, set: &mut u32| match value {
        None => Ok(()),
        Some(value) if (1..=most).contains(&value) => {
            *set = value;
            Ok(())
        }
        Some(value) => Err(Status::invalid_argument(format!("{name}: {value} is not from 1 to {most}"))),
    };
    within("iterations", request.iterations, MAX_ITERATIONS, &mut policy.iterations)?;
    within("samples", request.samples, MAX_SAMPLES, &mut policy.samples)?;
    within("fill_percent", request.fill_percent, MAX_FILL_PERCENT, &mut policy.fill_percent)?;
    Ok(policy)
}

fn response(update: Update) -> RunChallengeResponse {
    let message = match update {
        Update::Phase(phase) => Message::Phase(phase.into()),
        Update::Progress(done_slots, all_slots) => {
            Message::Progress(v1::Progress { challenge_id: Vec::new(), done_slots, all_slots })
        }
        Update::Verdict(verdict) => Message::Verdict((*verdict).into()),
    };
    RunChallengeResponse { message: Some(message) }
}

fn connected_miner(miner: Miner) -> ConnectedMiner {
    ConnectedMiner {
        miner_key: miner.key.0.to_vec(),
        agent: miner.agent,
        address: miner.address.map_or_else(String::new, |a| a.to_string()),
        inventory: Some(miner.inventory.into()),
        challenged_now: miner.challenged,
        connected_seconds: miner.since.elapsed().as_secs(),
        round_trip_ms: miner.round_trip.map(|t| t.as_secs_f64() * 1e3),
    }
}
