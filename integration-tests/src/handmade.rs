//! A miner's session over HTTP/2 by hand: it decides how much room the validator has to send, sees when each byte
//! comes, and does the work with the real engine.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_device::host::Host;
use assay_device::{Device, Handle};
use assay_miner::engine::Engine;
use assay_protocol::identity::{Identity, SessionTranscript};
use assay_protocol::message::{Hello, MinerMessage, Offer, ValidatorMessage};
use assay_protocol::wire::v1::SessionResponse;
use assay_work::{Challenge, DeviceId, PublicKey};
use prost::Message;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};

use crate::dialled::{Stream, Target, connect};
use crate::dishonest::{LyingDevice, SLOT_BYTES, SharedLies};
use crate::http2::{
    ACK, DATA, Frames, INITIAL_WINDOW_SIZE, PING, RST_STREAM, SETTINGS, call, data, frame, opening, settings,
    window_update,
};
use crate::raw::{encoded, hello};

/// The call that is the session.
const STREAM: u32 = 1;
/// A stream's window at the start, by the standard.
const FIRST_WINDOW: u32 = 65_535;
/// Bytes of the prefix of a message of gRPC.
const PREFIX_BYTES: usize = 5;

/// The state of the room for the validator's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Room is given back as soon as bytes are read.
    Given,
    /// Nothing is given back but by [`HandmadeMiner::give`].
    Kept,
}

/// A miner whose HTTP/2 is written by hand.
pub struct HandmadeMiner {
    pub key: PublicKey,
    identity: Identity,
    engine: Arc<Engine>,
    hello: Hello,
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    frames: Frames,
    room: Room,
    /// The bytes of messages that came, and how many came with each frame, when.
    bytes: Vec<u8>,
    arrivals: Vec<(usize, Instant)>,
    /// How many bytes were messages already.
    read_bytes: usize,
    /// How many bytes' room was given back.
    given_bytes: usize,
    validator_key: PublicKey,
}

/// A message, and when its first and its last byte came.
#[derive(Debug)]
pub struct Heard {
    pub message: ValidatorMessage,
    /// Its first byte, that of its prefix.
    pub first: Instant,
    /// The time of its last byte.
    pub last: Instant,
}

impl HandmadeMiner {
    /// A session up to its acceptance, of a miner with one device of `slots` slots of n = 256; without slots, of one
    /// without devices.
    ///
    /// # Errors
    /// The connection's, and a session that is refused.
    pub async fn accepted(target: Target, from: [u8; 4], seed: [u8; 32], slots: u64) -> io::Result<Self> {
        let identity = Identity::from_seed(&seed);
        let id = DeviceId(identity.public_key().0[..16].try_into().unwrap_or_default());
        let device = || Box::new(LyingDevice::new(id, slots * SLOT_BYTES, SharedLies::default())) as Box<dyn Device>;
        let devices = if slots == 0 { Vec::new() } else { vec![device()] };
        let engine = Arc::new(Engine::new(Host::new(devices), identity.clone()));
        let wire = connect(target, from).await?;
        let mut hello = hello(&identity);
        hello.inventory = engine.inventory(0).map_err(io::Error::other)?;
        let (reader, mut writer) = tokio::io::split(wire.stream);
        let first = encoded(MinerMessage::Hello(hello.clone()));
        let start = [opening(&[]), call(STREAM, "/assay.v1.SessionService/Session"), data(STREAM, &first)];
        writer.write_all(&start.concat()).await?;
        let (key, validator_key) = (identity.public_key(), PublicKey([0; 32]));
        let mut miner = Self {
            key,
            identity,
            engine,
            hello,
            reader,
            writer,
            frames: Frames::default(),
            room: Room::Given,
            bytes: Vec::new(),
            arrivals: Vec::new(),
            read_bytes: 0,
            given_bytes: 0,
            validator_key,
        };
        let ValidatorMessage::Welcome(welcome) = miner.hear().await?.message else {
            return Err(io::Error::other("no welcome"));
        };
        miner.validator_key = welcome.validator_key;
        let transcript = SessionTranscript {
            version: welcome.version,
            validator_key: welcome.validator_key,
            miner_key: key,
            nonce: welcome.nonce,
            miner_nonce: miner.hello.miner_nonce,
            channel: wire.channel,
        };
        let proof = miner.identity.sign(&transcript.proof_message());
        miner.say(MinerMessage::Proof(proof, None)).await?;
        match miner.hear().await?.message {
            ValidatorMessage::Accepted(_) => Ok(miner),
            other => Err(io::Error::other(format!("not accepted: {other:?}"))),
        }
    }

    pub async fn say(&mut self, message: MinerMessage) -> io::Result<()> {
        self.say_bytes(&encoded(message)).await
    }

    /// Says some bytes as one message.
    pub async fn say_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(&data(STREAM, bytes)).await?;
        self.writer.flush().await
    }

    /// Writes frames as they are.
    pub async fn write(&mut self, frames: &[u8]) -> io::Result<()> {
        self.writer.write_all(frames).await?;
        self.writer.flush().await
    }

    /// From now on the validator has room for `bytes` of messages, and for more only as [`HandmadeMiner::give`] says.
    pub async fn keep_room(&mut self, bytes: u32) -> io::Result<()> {
        self.room = Room::Kept;
        // The standard changes the rest of a window by the difference to the last setting.
        let taken = u32::try_from(self.bytes.len() - self.given_bytes).unwrap_or(FIRST_WINDOW);
        self.write(&settings(&[(INITIAL_WINDOW_SIZE, bytes + taken)])).await?;
        let before = self.bytes.len();
        loop {
            let frame = self.frames.next(&mut self.reader).await?;
            if frame.kind == SETTINGS && frame.flags & ACK != 0 {
                break;
            }
            self.take(frame).await?;
        }
        // Bytes that came meanwhile took of the new room.
        match u32::try_from(self.bytes.len() - before) {
            Ok(0) | Err(_) => Ok(()),
            Ok(came) => self.give(came).await,
        }
    }

    /// Gives the validator room for `bytes` more.
    pub async fn give(&mut self, bytes: u32) -> io::Result<()> {
        self.write(&[window_update(STREAM, bytes), window_update(0, bytes)].concat()).await
    }

    /// The next message; pings of HTTP/2 and settings are answered meanwhile.
    ///
    /// # Errors
    /// The connection's, its end, and that of the stream.
    pub async fn hear(&mut self) -> io::Result<Heard> {
        loop {
            if let Some(heard) = self.complete()? {
                return Ok(heard);
            }
            let frame = self.frames.next(&mut self.reader).await?;
            self.take(frame).await?;
        }
    }

    /// Reads for so long, and gives when the first byte came that no message was made of before.
    pub async fn watch(&mut self, time: Duration) -> io::Result<Option<Instant>> {
        let until = tokio::time::Instant::now() + time;
        while let Ok(frame) = tokio::time::timeout_at(until, self.frames.next(&mut self.reader)).await {
            self.take(frame?).await?;
        }
        Ok((self.bytes.len() > self.read_bytes).then(|| self.arrival(self.read_bytes)))
    }

    async fn take(&mut self, came: crate::http2::Frame) -> io::Result<()> {
        match came.kind {
            DATA if came.stream == STREAM && !came.payload.is_empty() => {
                self.bytes.extend_from_slice(&came.payload);
                self.arrivals.push((self.bytes.len(), Instant::now()));
                if self.room == Room::Given {
                    self.given_bytes += came.payload.len();
                    self.give(u32::try_from(came.payload.len()).unwrap_or(u32::MAX)).await?;
                }
            }
            SETTINGS if came.flags & ACK == 0 => self.write(&frame(SETTINGS, ACK, 0, &[])).await?,
            PING if came.flags & ACK == 0 => self.write(&frame(PING, ACK, 0, &came.payload)).await?,
            RST_STREAM => return Err(io::Error::other("the stream was reset")),
            _ => {}
        }
        Ok(())
    }

    fn complete(&mut self) -> io::Result<Option<Heard>> {
        let start = self.read_bytes;
        let Some(prefix) = self.bytes.get(start..start + PREFIX_BYTES) else { return Ok(None) };
        let end = start + PREFIX_BYTES + u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        let Some(bytes) = self.bytes.get(start + PREFIX_BYTES..end) else { return Ok(None) };
        let message = SessionResponse::decode(bytes).map_err(io::Error::other)?;
        let message = ValidatorMessage::try_from(message).map_err(io::Error::other)?;
        self.read_bytes = end;
        Ok(Some(Heard { message, first: self.arrival(start), last: self.arrival(end - 1) }))
    }

    /// The arrival of a byte.
    fn arrival(&self, byte: usize) -> Instant {
        let at = self.arrivals.partition_point(|(end, _)| *end <= byte);
        self.arrivals[at].1
    }

    /// The challenge that an offer is for this miner.
    ///
    /// # Panics
    /// Panics when the offer is not a challenge of this miner.
    #[must_use]
    pub fn plan(&self, offer: &Offer) -> Arc<Challenge> {
        Arc::new(offer.plan(&self.hello.inventory, self.validator_key, self.key).expect("a challenge of this miner"))
    }

    /// The engine that does the work.
    #[must_use]
    pub fn engine(&self) -> Arc<Engine> {
        self.engine.clone()
    }

    /// Does the validator's work, with pongs at once, until the verdict; gives it with the times when the first bytes
    /// of the challenge and of the probe came and when their answers went out.
    pub async fn work(&mut self, asked: Heard) -> io::Result<[Duration; 2]> {
        let (mut asked, mut times, handle) = (Some(asked), [Duration::ZERO; 2], Handle::default());
        let mut challenge = None;
        loop {
            let Heard { message, first, .. } = match asked.take() {
                Some(asked) => asked,
                None => self.hear().await?,
            };
            let answers = match message {
                ValidatorMessage::Ping(sequence) => vec![MinerMessage::Pong(sequence)],
                ValidatorMessage::Challenge(offer) => {
                    let planned = self.plan(&offer);
                    challenge = Some(planned.id());
                    self.engine.work(&planned, &handle, |_, _| ()).expect("the work is done")
                }
                ValidatorMessage::Probe { challenge_id, probe, .. } => {
                    self.engine.probe(challenge_id, probe, &handle, |_, _| ()).expect("the probe is walked")
                }
                ValidatorMessage::Sweep { challenge_id, sweep, .. } => {
                    self.engine.probe(challenge_id, sweep, &handle, |_, _| ()).expect("the sweep is answered")
                }
                ValidatorMessage::Open { challenge_id, items, .. } => {
                    let mut chunks = Vec::new();
                    let give = |chunk| {
                        chunks.push(MinerMessage::OpeningsChunk(chunk));
                        true
                    };
                    self.engine.open(challenge_id, items, &handle, give).expect("the openings are there");
                    chunks
                }
                ValidatorMessage::Verdict(verdict) if Some(verdict.challenge_id) == challenge => return Ok(times),
                other => return Err(io::Error::other(format!("not what is asked: {other:?}"))),
            };
            for answer in answers {
                let timed = match &answer {
                    MinerMessage::Commitment(_) => Some(0),
                    MinerMessage::ProbeAnswer(_) => Some(1),
                    _ => None,
                };
                if let Some(timed) = timed {
                    times[timed] = first.elapsed();
                }
                self.say(answer).await?;
            }
        }
    }
}
