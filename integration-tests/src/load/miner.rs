//! One miner of a load: the real session, on a connection of its own.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use assay_device::DeviceError;
use assay_miner::connection::open;
use assay_miner::http2;
use assay_miner::session::{MinerSession, SessionAction, SessionEvent, SessionStart};
use assay_protocol::channel::Channel;
use assay_protocol::identity::{Identity, random_bytes};
use assay_protocol::message::{DeviceClaim, Inventory, MinerMessage, ValidatorMessage};
use assay_protocol::verdict::Outcome;
use assay_transport::client::secure;
use assay_transport::trust::Trust;
use assay_work::{ChallengeId, DeviceId, Nonce, PublicKey};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::devices::SharedDevices;
use super::work::Worked;
use crate::dialled::dial;

/// The common parts of all miners of a load.
#[derive(Clone)]
pub struct Common {
    pub address: SocketAddr,
    /// Its key: who is there without it is not talked to.
    pub validator_key: PublicKey,
    /// The devices that work for them.
    pub devices: SharedDevices,
    /// The memory that each claims for its one device.
    pub memory_bytes: u64,
    pub traffic: Arc<Traffic>,
    /// The receiver of verdicts.
    pub judged: mpsc::UnboundedSender<Judged>,
}

/// Bytes of all connections, TLS and all.
#[derive(Debug, Default)]
pub struct Traffic {
    pub sent: AtomicU64,
    pub received: AtomicU64,
}

/// A verdict as it came to a miner.
#[derive(Debug, Clone)]
pub struct Judged {
    pub challenge: ChallengeId,
    pub miner: PublicKey,
    pub outcome: Outcome,
    /// The first reason's name, where there is one.
    pub reason: Option<&'static str>,
    pub at: Instant,
    /// From the commitment on its way to the verdict; `None`: there was no commitment.
    pub since_commitment: Option<Duration>,
    /// From the last opening on its way to the verdict.
    pub since_openings: Option<Duration>,
}

pub struct LoadMiner {
    common: Common,
    identity: Identity,
    number: u32,
}

impl LoadMiner {
    /// The miner with a number, which its key and its address follow from.
    #[must_use]
    pub fn new(common: Common, number: u32) -> Self {
        let mut seed = [0x10; 32];
        seed[..4].copy_from_slice(&number.to_le_bytes());
        Self { common, identity: Identity::from_seed(&seed), number }
    }

    /// Connects, and takes challenges until the session ends; reports to `established` once it stands.
    pub async fn run(self, established: mpsc::UnboundedSender<u32>) -> Result<(), String> {
        let text = |error: io::Error| error.to_string();
        // Each has an address of its own, as hosts have.
        let [_, high, middle, low] = (self.number + 1).to_be_bytes();
        let stream = dial(self.common.address, [127, high + 1, middle, low]).await.map_err(text)?;
        let counted = Counted { stream, traffic: self.common.traffic.clone() };
        let trust = Trust::Key(self.common.validator_key);
        let secured = secure(counted, "localhost", &trust).await.map_err(|error| error.to_string())?;
        let http = http2::connect(&self.common.address.to_string(), true, secured.stream).await;
        let http = http.map_err(|error| error.to_string())?;
        let (outbox, queue) = mpsc::unbounded_channel();
        let mut inbound = pin!(open(http, UnboundedReceiverStream::new(queue)));
        let (session, first) = self.session(secured.channel)?;
        let (identity, common, number) = (self.identity, self.common, self.number);
        let mut driver = Driver {
            session,
            common,
            identity,
            number,
            outbox,
            established,
            times: Times::default(),
            pending: None,
            worked: None,
        };
        driver.act(first).await?;
        loop {
            let event = tokio::select! {
                biased;
                message = inbound.next() => match message {
                    Some(message) => SessionEvent::Message(message?),
                    None => return Err("the validator closed the stream".into()),
                },
                done = done(&mut driver.pending) => driver.done(done?)?,
                () = tokio::time::sleep_until(driver.session.poll_timeout().into()) => SessionEvent::Tick,
            };
            driver.note(&event);
            let actions = driver.session.handle(event, Instant::now());
            driver.act(actions).await?;
        }
    }

    fn session(&self, channel: Channel) -> Result<(MinerSession, Vec<SessionAction>), String> {
        let start = SessionStart {
            identity: self.identity.clone(),
            pinned: Some(self.common.validator_key),
            channel,
            inventory: inventory(self.device_id(), self.common.memory_bytes),
            miner_nonce: Nonce(random_bytes()?),
            resumes: None,
            join_token: None,
            unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        };
        Ok(MinerSession::start(start, Instant::now()))
    }

    fn device_id(&self) -> DeviceId {
        device_id(&self.identity)
    }
}

/// Half of a key, so that all are distinct.
fn device_id(identity: &Identity) -> DeviceId {
    let mut id = [0; 16];
    id.copy_from_slice(&identity.public_key().0[..16]);
    DeviceId(id)
}

fn inventory(id: DeviceId, memory_bytes: u64) -> Inventory {
    let device = DeviceClaim {
        id,
        name: "a processor of the load generator".into(),
        backend: "cpu".into(),
        detail: "one thread".into(),
        total_bytes: memory_bytes,
        free_bytes: memory_bytes,
        slots: DeviceClaim::max_slots(memory_bytes),
        precisions: vec![assay_work::Precision::Int8],
        claimed_hardware: None,
    };
    Inventory { devices: vec![device.consistent()], ..Inventory::default() }
}

struct Driver {
    session: MinerSession,
    common: Common,
    identity: Identity,
    number: u32,
    /// The messages to send: a challenge's openings at the most.
    outbox: mpsc::UnboundedSender<MinerMessage>,
    established: mpsc::UnboundedSender<u32>,
    times: Times,
    /// The job that works for the challenge.
    pending: Option<JoinHandle<Done>>,
    /// The work between two stages.
    worked: Option<Worked>,
}

/// The times at which the messages of the challenge were on their way.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    committed: Option<Instant>,
    opened: Option<Instant>,
}

/// The results of a stage of a challenge.
struct Done {
    id: ChallengeId,
    stage: Stage,
    worked: Result<(Worked, Vec<MinerMessage>), DeviceError>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Work,
    Probe,
    Openings,
}

impl Driver {
    /// Takes the results of a stage.
    fn done(&mut self, done: Done) -> Result<SessionEvent, String> {
        let Done { id, stage, worked } = done;
        let messages = worked.map(|(worked, messages)| {
            self.worked = Some(worked);
            messages
        });
        if let Err(error) = &messages {
            tracing::warn!(%error, "a device of the load failed");
        }
        let now = Instant::now();
        Ok(match stage {
            Stage::Work => {
                self.times = Times { committed: Some(now), opened: None };
                SessionEvent::Worked(id, messages)
            }
            Stage::Probe => SessionEvent::Probed(id, messages),
            Stage::Openings => {
                let opened = match messages {
                    Ok(messages) => Ok(messages.into_iter().try_for_each(|message| self.send(message))?),
                    Err(error) => Err(error),
                };
                self.times.opened = Some(now);
                SessionEvent::Opened(id, opened)
            }
        })
    }

    fn note(&self, event: &SessionEvent) {
        let SessionEvent::Message(ValidatorMessage::Verdict(verdict)) = event else { return };
        let at = Instant::now();
        let judged = Judged {
            challenge: verdict.challenge_id,
            miner: self.identity.public_key(),
            outcome: verdict.outcome,
            reason: verdict.reasons.first().map(|reason| reason.code.name()),
            at,
            since_commitment: self.times.committed.map(|committed| at.duration_since(committed)),
            since_openings: self.times.opened.map(|opened| at.duration_since(opened)),
        };
        // The measurement may have ended.
        let _ = self.common.judged.send(judged);
    }

    async fn act(&mut self, actions: Vec<SessionAction>) -> Result<(), String> {
        for action in actions {
            match action {
                SessionAction::Send(message) => self.send(message)?,
                SessionAction::StartWork(challenge) => {
                    self.times = Times::default();
                    let lent = self.common.devices.lend(device_id(&self.identity)).await.ok_or("there is no device")?;
                    let (id, identity) = (challenge.id(), self.identity.clone());
                    self.begin(id, Stage::Work, move || Worked::new(lent, identity, challenge));
                }
                SessionAction::StartProbe(id, probe) => {
                    self.go_on(id, Stage::Probe, move |worked| worked.probe(&probe))
                }
                SessionAction::StartOpening(id, items) => self.go_on(id, Stage::Openings, move |worked| {
                    Ok(worked.open(&items)?.into_iter().map(MinerMessage::OpeningsChunk).collect())
                }),
                // Its running job ends without help.
                SessionAction::Release => self.worked = None,
                SessionAction::Established(_) => {
                    // The counter may have ended.
                    let _ = self.established.send(self.number);
                }
                SessionAction::Followed { .. } | SessionAction::Verdict(_) => {}
                SessionAction::Close(closed) => return Err(closed.to_string()),
            }
        }
        Ok(())
    }

    fn send(&self, message: MinerMessage) -> Result<(), String> {
        self.outbox.send(message).map_err(|_| "the connection is gone".to_owned())
    }

    fn go_on(
        &mut self,
        id: ChallengeId,
        stage: Stage,
        job: impl FnOnce(&mut Worked) -> Result<Vec<MinerMessage>, DeviceError> + Send + 'static,
    ) {
        let Some(mut worked) = self.worked.take() else { return };
        self.begin(id, stage, move || job(&mut worked).map(|messages| (worked, messages)));
    }

    fn begin(
        &mut self,
        id: ChallengeId,
        stage: Stage,
        job: impl FnOnce() -> Result<(Worked, Vec<MinerMessage>), DeviceError> + Send + 'static,
    ) {
        self.pending = Some(tokio::task::spawn_blocking(move || Done { id, stage, worked: job() }));
    }
}

/// The results of the job; waits for ever without one.
async fn done(pending: &mut Option<JoinHandle<Done>>) -> Result<Done, String> {
    let Some(job) = pending else { return std::future::pending().await };
    let done = job.await.map_err(|error| error.to_string());
    *pending = None;
    done
}

/// A stream whose bytes are counted.
struct Counted<S> {
    stream: S,
    traffic: Arc<Traffic>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.traffic.received.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.traffic.sent.fetch_add(written as u64, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
