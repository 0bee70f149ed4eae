//! The control service: commands for a running validator, over a socket that only its user can open.

mod records;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use assay_program::exit::chain;
use assay_protocol::message::MATRIX_SIZES;
use assay_protocol::verdict::Mode;
use assay_protocol::wire::v1::control_service_server::ControlService;
use assay_protocol::wire::v1::run_challenge_response::Message;
use assay_protocol::wire::v1::{
    self, CancelChallengeRequest, CancelChallengeResponse, ChangeRequest, ChangeResponse, ConnectedMiner,
    ForgetDevicesRequest, ForgetDevicesResponse, GetStatusRequest, GetStatusResponse, ListMinersRequest,
    ListMinersResponse, QueryRequest, ReloadRequest, ReloadResponse, RunChallengeRequest, RunChallengeResponse,
};
use assay_receipts::EatNonce;
use assay_work::challenge::MAX_ITERATIONS;
use assay_work::{ChallengeId, PublicKey};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Response, Status};

use crate::order::Order;
use crate::policy::{MAX_FILL_PERCENT, MAX_SAMPLES, Policy};
use crate::registry::{Miner, RunningChallenge, SessionCommand, Update};
use crate::running::Running;
use crate::session::StartError;
use crate::validator::Validator;
use crate::verify::replay::shared::{ReplayWorker, SharedReplays};

/// Updates kept for a slow watcher; progress comes once per second.
const UPDATES: usize = 64;
/// The trailer with the reason of a refusal, for programs.
pub const REASON: &str = "assay-reason";

/// Why a request is refused, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No such miner is connected.
    NoMiner,
    /// Several are, and none is named.
    SeveralMiners,
    /// A challenge of the miner runs.
    Busy,
    /// The validator was asked to stop.
    Draining,
    /// The miner left meanwhile.
    MinerLeft,
    /// No challenge can be made of what the miner has, or be recorded.
    NotPossible,
    /// No such challenge runs.
    NoChallenge,
    /// A field is out of bounds.
    Invalid,
    /// The configuration is refused.
    Configuration,
    /// As many challenges run as may.
    Overloaded,
    /// The records have nothing of this id.
    NotFound,
    /// The records cannot be read or written.
    Records,
}

impl Refusal {
    /// Every reason there is.
    pub const ALL: [Self; 12] = [
        Self::NoMiner,
        Self::SeveralMiners,
        Self::Busy,
        Self::Draining,
        Self::MinerLeft,
        Self::NotPossible,
        Self::NoChallenge,
        Self::Invalid,
        Self::Configuration,
        Self::Overloaded,
        Self::NotFound,
        Self::Records,
    ];

    /// The word in the trailer.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoMiner => "no_miner",
            Self::SeveralMiners => "several_miners",
            Self::Busy => "busy",
            Self::Draining => "draining",
            Self::MinerLeft => "miner_left",
            Self::NotPossible => "not_possible",
            Self::NoChallenge => "no_challenge",
            Self::Invalid => "invalid",
            Self::Configuration => "configuration",
            Self::Overloaded => "overloaded",
            Self::NotFound => "not_found",
            Self::Records => "records",
        }
    }

    /// The status that goes with it.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::NoMiner | Self::NoChallenge | Self::NotFound => Code::NotFound,
            Self::SeveralMiners | Self::Invalid => Code::InvalidArgument,
            Self::Busy | Self::NotPossible | Self::Configuration => Code::FailedPrecondition,
            Self::Draining | Self::MinerLeft | Self::Records => Code::Unavailable,
            Self::Overloaded => Code::ResourceExhausted,
        }
    }

    /// A refusal in these words.
    #[must_use]
    pub fn status(self, message: impl Into<String>) -> Status {
        let mut status = Status::new(self.code(), message);
        status.metadata_mut().insert(REASON, MetadataValue::from_static(self.name()));
        status
    }

    /// The reason of a refusal; `None` for a status of another kind.
    #[must_use]
    pub fn of(status: &Status) -> Option<Self> {
        let name = status.metadata().get(REASON)?.to_str().ok()?;
        Self::ALL.into_iter().find(|refusal| refusal.name() == name)
    }
}

/// The gRPC service behind the control socket.
#[derive(Clone)]
pub struct Control(Arc<Running>);

impl Control {
    /// The service of a validator.
    #[must_use]
    pub const fn new(running: Arc<Running>) -> Self {
        Self(running)
    }

    fn validator(&self) -> &Validator {
        &self.0.validator
    }

    /// The miner requested: the one named, or the only one connected.
    fn miner(&self, key: &[u8]) -> Result<Miner, Status> {
        let mut miners = self.validator().registry.miners();
        if key.is_empty() {
            return match miners.len() {
                1 => Ok(miners.remove(0)),
                0 => Err(Refusal::NoMiner.status("no miner is connected")),
                count => Err(Refusal::SeveralMiners.status(format!("{count} miners are connected: choose one by key"))),
            };
        }
        let key = key_of(key)?;
        let found = miners.into_iter().find(|miner| miner.key == key);
        found.ok_or_else(|| Refusal::NoMiner.status(format!("miner {key} is not connected")))
    }

    /// Each challenge that runs, with its miner.
    fn running(&self) -> impl Iterator<Item = (PublicKey, RunningChallenge)> {
        let miners = self.validator().registry.miners();
        miners.into_iter().filter_map(|miner| Some((miner.key, miner.running?)))
    }

    fn start_status(&self, key: PublicKey, error: &StartError) -> Status {
        match error {
            StartError::NotConnected => Refusal::MinerLeft.status(error.to_string()),
            StartError::Busy => {
                let running = self.running().find(|(miner, _)| *miner == key).map(|(_, running)| running);
                Refusal::Busy.status(busy(running.as_ref()))
            }
            StartError::TooMany => Refusal::Overloaded.status(error.to_string()),
            StartError::NotRecording(_) | StartError::Records(_) | StartError::Issue(_) => {
                Refusal::NotPossible.status(error.to_string())
            }
        }
    }
}

type Updates = Pin<Box<dyn Stream<Item = Result<RunChallengeResponse, Status>> + Send>>;

#[tonic::async_trait]
impl ControlService for Control {
    async fn list_miners(&self, _request: Request<ListMinersRequest>) -> Result<Response<ListMinersResponse>, Status> {
        let validator = self.validator();
        let miners = validator.registry.miners().into_iter().map(|miner| connected_miner(validator, miner)).collect();
        Ok(Response::new(ListMinersResponse { miners }))
    }

    type RunChallengeStream = Updates;

    async fn run_challenge(&self, request: Request<RunChallengeRequest>) -> Result<Response<Updates>, Status> {
        if self.validator().shutdown.is_draining() {
            return Err(Refusal::Draining.status("the validator is draining: it starts no challenge"));
        }
        let request = request.into_inner();
        let key = self.miner(&request.miner_key)?.key;
        let policy = Arc::new(policy_of(&self.validator().policy(), &request)?);
        let eat_nonce = request.eat_nonce.map(|text| eat_nonce(&text)).transpose()?;
        let gone = || Refusal::MinerLeft.status(format!("miner {key} is no longer connected"));
        let commands = self.validator().registry.commands(key).ok_or_else(gone)?;
        let (updates, watch) = mpsc::channel(UPDATES);
        let (started, answer) = oneshot::channel();
        commands
            .send(SessionCommand::Run {
                order: Box::new(Order { eat_nonce, ..Order::manual(policy) }),
                place: None,
                started,
                updates,
            })
            .await
            .map_err(|_| gone())?;
        let began = answer.await.map_err(|_| gone())?.map_err(|error| self.start_status(key, &error))?;
        let began = RunChallengeResponse { message: Some(Message::Started(running_challenge(key, began))) };
        let updates = ReceiverStream::new(watch).map(|update| Ok(response(update)));
        Ok(Response::new(Box::pin(tokio_stream::once(Ok(began)).chain(updates))))
    }

    async fn cancel_challenge(
        &self,
        request: Request<CancelChallengeRequest>,
    ) -> Result<Response<CancelChallengeResponse>, Status> {
        let CancelChallengeRequest { challenge_id, miner_key } = request.into_inner();
        let miner = (!miner_key.is_empty()).then(|| key_of(&miner_key)).transpose()?;
        let id = (!challenge_id.is_empty()).then(|| id_of(&challenge_id)).transpose()?;
        if miner.is_none() && id.is_none() {
            return Err(Refusal::Invalid.status("name a challenge by its id, or by its miner's key"));
        }
        let is_meant = |key: PublicKey, running: ChallengeId| {
            miner.is_none_or(|miner| miner == key) && id.is_none_or(|id| id == running)
        };
        let none = || Refusal::NoChallenge.status("no such challenge runs");
        let (key, running) = self.running().find(|(key, running)| is_meant(*key, running.id)).ok_or_else(none)?;
        let commands = self.validator().registry.commands(key).ok_or_else(none)?;
        let (cancelled, answer) = oneshot::channel();
        let cancel = SessionCommand::Cancel { id: Some(running.id), cancelled };
        commands.send(cancel).await.map_err(|_| none())?;
        let id = answer.await.ok().flatten().ok_or_else(none)?;
        Ok(Response::new(CancelChallengeResponse { challenge_id: id.0.to_vec(), miner_key: key.0.to_vec() }))
    }

    async fn get_status(&self, _request: Request<GetStatusRequest>) -> Result<Response<GetStatusResponse>, Status> {
        let Running { validator, address, target, verdict_log, max_miners, since, started_unix_seconds, .. } = &*self.0;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let challenges: Vec<_> = self.running().map(|(key, running)| running_challenge(key, running)).collect();
        Ok(Response::new(GetStatusResponse {
            agent: concat!("assay-validator/", env!("CARGO_PKG_VERSION")).to_owned(),
            validator_key: validator.admission.identity.public_key().0.to_vec(),
            process_id: std::process::id(),
            address: address.to_string(),
            started_unix_seconds: *started_unix_seconds,
            uptime_seconds: since.elapsed().as_secs(),
            miners: validator.registry.miners().len() as u32,
            max_miners: *max_miners,
            challenges,
            passed: count(&validator.verdict_counts.passed),
            failed: count(&validator.verdict_counts.failed),
            inconclusive: count(&validator.verdict_counts.inconclusive),
            draining: validator.shutdown.is_draining(),
            verdict_log: verdict_log.as_ref().map_or_else(String::new, |path| path.display().to_string()),
            verdict_log_problem: validator.verdicts.check().err().map(|error| error.to_string()).unwrap_or_default(),
            target: target.to_string(),
            tls_certificate_expires_unix_seconds: validator.tls.issued().map_or(0, |it| it.not_after_unix_seconds),
            devices: validator.replays.local_devices(),
            records: validator.records.location().to_string(),
            records_problem: validator.records.trouble().unwrap_or_default(),
            replay_workers: replay_workers(validator),
        }))
    }

    async fn reload(&self, _request: Request<ReloadRequest>) -> Result<Response<ReloadResponse>, Status> {
        match self.0.reloader.reload().await {
            Ok(reloaded) => {
                let (changed, need_restart) = (reloaded.changed, reloaded.need_restart);
                Ok(Response::new(ReloadResponse { changed, need_restart }))
            }
            Err(error) => Err(Refusal::Configuration.status(format!("nothing has changed: {}", chain(&error)))),
        }
    }

    async fn forget_devices(
        &self,
        request: Request<ForgetDevicesRequest>,
    ) -> Result<Response<ForgetDevicesResponse>, Status> {
        let key = key_of(&request.into_inner().miner_key)?;
        let devices = self.validator().forget_devices(key).await as u32;
        Ok(Response::new(ForgetDevicesResponse { devices }))
    }

    type QueryStream = records::Documents;

    async fn query(&self, request: Request<QueryRequest>) -> Result<Response<Self::QueryStream>, Status> {
        records::query(self.validator(), request.into_inner()).await.map(Response::new)
    }

    async fn change(&self, request: Request<ChangeRequest>) -> Result<Response<ChangeResponse>, Status> {
        let actor = records::actor(&request);
        records::change(self.validator(), request.into_inner(), &actor).await.map(Response::new)
    }
}

fn replay_workers(validator: &Validator) -> Vec<v1::ReplayWorker> {
    let workers = validator.replays.shared().map(SharedReplays::workers).unwrap_or_default();
    let shown = |worker: &ReplayWorker| v1::ReplayWorker {
        name: worker.name.clone(),
        address: worker.address.clone(),
        devices: worker.capacity.devices,
        macs_per_s: worker.capacity.macs_per_s,
    };
    workers.iter().map(shown).collect()
}

fn key_of(bytes: &[u8]) -> Result<PublicKey, Status> {
    PublicKey::try_from(bytes).map_err(|_| Refusal::Invalid.status("miner_key: 32 bytes are expected"))
}

fn id_of(bytes: &[u8]) -> Result<ChallengeId, Status> {
    ChallengeId::try_from(bytes).map_err(|_| Refusal::Invalid.status("challenge_id: 16 bytes are expected"))
}

/// A nonce for a receipt, as it was checked.
fn eat_nonce(text: &str) -> Result<String, Status> {
    let nonce = text.parse::<EatNonce>().map_err(|error| Refusal::Invalid.status(format!("eat_nonce: {error}")))?;
    Ok(nonce.into())
}

/// Which challenge keeps a miner from another one.
fn busy(running: Option<&RunningChallenge>) -> String {
    let Some(RunningChallenge { id, since, phase, done_slots, all_slots }) = running else {
        return "a challenge of this miner is about to begin or to end".to_owned();
    };
    let seconds = since.elapsed().as_secs();
    let progress = if *phase == "work" { format!(", {done_slots} of {all_slots} slots") } else { String::new() };
    format!(
        "this miner works on challenge {id}, since {seconds} s: phase {phase}{progress}. Wait for it (--wait), or end \
         it (assay-validator cancel {id})"
    )
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
            return Err(Refusal::Invalid.status(format!("n: {n} is not one of {MATRIX_SIZES:?}")));
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
        Some(value) => Err(Refusal::Invalid.status(format!("{name}: {value} is not from 1 to {most}"))),
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

fn running_challenge(miner: PublicKey, running: RunningChallenge) -> v1::RunningChallenge {
    let RunningChallenge { id, since, phase, done_slots, all_slots } = running;
    v1::RunningChallenge {
        challenge_id: id.0.to_vec(),
        miner_key: miner.0.to_vec(),
        phase: phase.to_owned(),
        done_slots,
        all_slots,
        seconds: since.elapsed().as_secs(),
    }
}

fn connected_miner(validator: &Validator, miner: Miner) -> ConnectedMiner {
    let key = miner.key;
    let missing_devices = validator.missing_devices(&miner).into_iter().map(v1::NamedDevice::from).collect();
    ConnectedMiner {
        miner_key: key.0.to_vec(),
        agent: miner.agent,
        address: miner.address.map_or_else(String::new, |a| a.to_string()),
        inventory: Some(miner.inventory.into()),
        challenged_now: miner.challenged,
        connected_seconds: miner.since.elapsed().as_secs(),
        round_trip_ms: miner.round_trip.map(|t| t.as_secs_f64() * 1e3),
        challenge: miner.running.map(|running| running_challenge(key, running)),
        missing_devices,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_refusal_is_known_by_its_trailer() {
        for refusal in Refusal::ALL {
            let status = refusal.status("why");
            assert_eq!((Refusal::of(&status), status.code()), (Some(refusal), refusal.code()));
        }
        assert_eq!(Refusal::of(&Status::not_found("a miner")), None);
    }

    #[test]
    fn a_busy_miner_names_its_challenge() {
        let id = ChallengeId([0xab; 16]);
        let running = |phase| RunningChallenge { id, since: Instant::now(), phase, done_slots: 3, all_slots: 12 };
        let said = busy(Some(&running("work")));
        assert!(said.contains(&id.to_string()) && said.contains("phase work, 3 of 12 slots"), "{said}");
        assert!(busy(Some(&running("replay"))).contains("phase replay. Wait"));
    }
}
