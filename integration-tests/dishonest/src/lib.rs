//! A miner whose lies are switches. It is the real one (session, driver, engine, connection) over devices that lie,
//! behind a filter that rewrites messages in both directions.

#![forbid(unsafe_code)]

mod device;
mod filter;
mod lie;
mod linked;
pub mod rewrite;

use std::net::SocketAddr;
use std::sync::Arc;

use assay_device::Device;
use assay_device::host::Host;
use assay_miner::connection::open;
use assay_miner::driver::{Observer, Resumption, Start, drive};
use assay_miner::engine::Engine;
use assay_miner::joining::PendingJoinToken;
use assay_miner::limits::SharedLimits;
use assay_miner::outbox::outbox;
use assay_miner::session::{CloseReason, SessionStart};
use assay_miner::turns::Turns;
use assay_program::clock::unix_seconds;
use assay_program::shutdown::{Shutdown, Trigger};
use assay_protocol::identity::{Identity, random_bytes};
use assay_protocol::message::{MinerMessage, ValidatorMessage};
use assay_protocol::verdict::Verdict;
use assay_work::{Challenge, DeviceId, Nonce, Precision, PublicKey};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

pub use device::LyingDevice;
use filter::Filter;
pub use lie::{Incoming, Lies, LinkLie, Outgoing, ProbeLie, SharedLies, SweepLie, WorkLie};

/// Bytes of a slot of the smallest matrices, the unit of tests' device sizes.
pub const SLOT_BYTES: u64 = 1 << 16;
/// Messages between the filter and the connection.
const MAX_REWRITTEN_MESSAGES: usize = 8;

/// A connected miner that may lie. Dropped, it drops its connection.
pub struct DishonestMiner {
    pub key: PublicKey,
    pub lies: SharedLies,
    session: JoinHandle<Result<CloseReason, String>>,
    shutdown: Trigger,
}

/// The parameters of a dishonest miner.
#[derive(Debug, Clone)]
pub struct Disguise {
    pub seed: u8,
    /// The seed of the key that it signs its work with, where that is another.
    pub signing_seed: Option<u8>,
    /// The first byte of its devices' ids: two miners can claim the same devices.
    pub first_device: u8,
    /// How many slots of n = 256 each device claims to hold.
    pub slots: Vec<u64>,
    /// The kinds of work that its devices claim to compute.
    pub precisions: &'static [Precision],
}

impl Disguise {
    /// One miner with a device for each of these counts of slots of n = 256; they compute every kind of work.
    #[must_use]
    pub fn new(slots: &[u64]) -> Self {
        Self { seed: 1, signing_seed: None, first_device: 1, slots: slots.to_vec(), precisions: &Precision::ALL }
    }

    #[must_use]
    pub const fn device_id(&self, index: u8) -> DeviceId {
        DeviceId([self.first_device + index; 16])
    }
}

/// A dishonest miner without its session and its connection.
pub struct Liar {
    pub identity: Identity,
    pub lies: SharedLies,
    /// Its devices, and the work on them.
    pub engine: Arc<Engine>,
    filter: Filter,
}

impl Liar {
    /// A miner with these parameters.
    #[must_use]
    pub fn new(disguise: &Disguise) -> Self {
        let lies = SharedLies::default();
        let identity = Identity::from_seed(&[disguise.seed; 32]);
        let device = |(i, slots): (u8, &u64)| {
            let device = LyingDevice::new(disguise.device_id(i), slots * SLOT_BYTES, lies.clone());
            Box::new(device.claiming(disguise.precisions)) as Box<dyn Device>
        };
        let devices = (0..).zip(&disguise.slots).map(device).collect();
        let signer = Identity::from_seed(&[disguise.signing_seed.unwrap_or(disguise.seed); 32]);
        let engine = Arc::new(Engine::new(Host::new(devices), signer));
        let filter = Filter::new(lies.clone(), identity.clone());
        Self { identity, lies, engine, filter }
    }

    /// A validator's message as the session receives it.
    #[must_use]
    pub fn hears(&self, message: ValidatorMessage) -> ValidatorMessage {
        self.filter.incoming(message)
    }

    /// The messages that go out in place of one of the session.
    #[must_use]
    pub fn says(&self, message: MinerMessage) -> Vec<MinerMessage> {
        self.filter.outgoing(message)
    }

    /// Its session works on this challenge.
    pub fn works_on(&self, challenge: &Challenge) {
        self.lies.board.note_challenge(challenge);
    }
}

impl DishonestMiner {
    /// Connects; the session goes on in the background.
    pub async fn connect(address: SocketAddr, disguise: &Disguise) -> Self {
        let liar = Liar::new(disguise);
        let (key, lies) = (liar.identity.public_key(), liar.lies.clone());
        let (shutdown, stop) = Shutdown::by_hand();
        let session = tokio::spawn(run(liar, address, stop));
        Self { key, lies, session, shutdown }
    }

    /// Waits until the session is over, and gives why.
    ///
    /// # Errors
    /// Why the stream broke, when it was not a side's wish to end.
    pub async fn ended(&mut self) -> Result<CloseReason, String> {
        (&mut self.session).await.expect("the session does not panic")
    }

    /// Asks the miner to drain, as a signal does.
    pub fn drain(&self) {
        self.shutdown.signal();
    }

    /// Breaks the connection off.
    pub fn vanish(&self) {
        self.session.abort();
    }
}

impl Drop for DishonestMiner {
    fn drop(&mut self) {
        self.lies.stop();
        self.session.abort();
    }
}

async fn run(liar: Liar, address: SocketAddr, stop: Shutdown) -> Result<CloseReason, String> {
    let Liar { identity, lies, engine, filter } = liar;
    let inventory = engine.inventory(0).expect("the devices are there");
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
    let channel = endpoint.connect().await.map_err(|error| error.to_string())?;
    let filter = Arc::new(filter);
    let (outbox, mut said) = outbox();
    let (rewritten, queue) = mpsc::channel(MAX_REWRITTEN_MESSAGES);
    let outgoing = filter.clone();
    tokio::spawn(async move {
        while let Some(message) = said.next().await {
            for message in outgoing.outgoing(message) {
                let is_last = outgoing.is_last(&message);
                // Without a sender the stream's half ends.
                if rewritten.send(message).await.is_err() || is_last {
                    return;
                }
            }
        }
    });
    let heard = open(channel, ReceiverStream::new(queue));
    let inbound = Box::pin(heard.map(move |message| message.map(|message| filter.incoming(message))));
    let nonce = Nonce(random_bytes()?);
    let session = SessionStart {
        identity,
        pinned: None,
        channel: assay_protocol::channel::Channel::Plaintext,
        inventory,
        miner_nonce: nonce,
        resumes: None,
        join_token: None,
        unix_seconds: unix_seconds(),
    };
    let start = Start {
        session,
        to_keep: None,
        resumption: Resumption::default(),
        joining: PendingJoinToken::default(),
        idle_release: std::time::Duration::ZERO,
        limits: SharedLimits::default(),
        turns: Turns::default(),
    };
    drive(start, engine, inbound, outbox, stop, &mut Silent(lies)).await
}

/// Tests check the validator's verdict, not the miner's output.
struct Silent(SharedLies);

impl Observer for Silent {
    fn established(&mut self, _validator_key: PublicKey) {}
    fn challenged(&mut self, challenge: &Challenge) {
        self.0.board.note_challenge(challenge);
    }
    fn progress(&mut self, _done_slots: u64) {}
    fn verdict(&mut self, _verdict: &Verdict) {}
}
