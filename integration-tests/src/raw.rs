//! A conversation of bytes: messages that no program of the workspace would send.

use std::io::ErrorKind;
use std::net::SocketAddr;

use assay_protocol::identity::{Identity, SessionTranscript};
use assay_protocol::message::{Hello, Inventory, MinerMessage, PROTOCOL_VERSIONS, ValidatorMessage, Welcome};
use assay_protocol::wire::v1::{SessionRequest, SessionResponse};
use assay_work::Nonce;
use hyper_util::rt::TokioIo;
use prost::Message;
use prost::bytes::{Buf, BufMut};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

use crate::daemon::PATIENCE;
use crate::validator::TestValidator;

/// The path of the call that a miner makes.
const SESSION: &str = "/assay.v1.SessionService/Session";
/// Messages that may wait to be sent.
const WAITING: usize = 64;

/// One connection to a validator, which stands until it is dropped, independent of its streams.
#[derive(Debug)]
pub struct Line {
    channel: Channel,
    /// The same socket again, to see the other side's use of it.
    socket: std::net::TcpStream,
}

impl Line {
    /// Dials from an address of this machine.
    pub async fn open(address: SocketAddr, from: [u8; 4]) -> Self {
        let stream = dial(address, from).await;
        let stream = stream.into_std().expect("a socket is a socket");
        let socket = stream.try_clone().expect("a socket can be named twice");
        let mut once = Some(TcpStream::from_std(stream).expect("it does not block"));
        let connector = tower::service_fn(move |_: Uri| {
            let stream = once.take().ok_or_else(|| std::io::Error::other("dialled once"));
            std::future::ready(stream.map(TokioIo::new))
        });
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address makes a URL");
        let channel = endpoint.connect_with_connector(connector).await.expect("the validator listens");
        Self { channel, socket }
    }

    /// Opens a stream on it and says this first.
    pub async fn miner(&self, first: Vec<u8>) -> Result<RawMiner, Status> {
        RawMiner::on(self.channel.clone(), first).await
    }

    /// Whether the validator has closed it.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // Bytes that came and were not read yet are read by the channel's task.
        match self.socket.peek(&mut [0]) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// A connection from an address of this machine, on which nothing is said.
pub async fn dial(address: SocketAddr, from: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from((from, 0))).expect("an address of this machine");
    socket.connect(address).await.expect("the validator listens")
}

/// One stream to a validator, on which anything may be said.
pub struct RawMiner {
    said: mpsc::Sender<Vec<u8>>,
    heard: Streaming<SessionResponse>,
}

impl RawMiner {
    /// Opens the stream and says this first: a validator answers the call only then.
    ///
    /// # Errors
    /// The validator's status for the call, when it opens no stream.
    pub async fn open(address: SocketAddr, first: Vec<u8>) -> Result<Self, Status> {
        Self::open_with_window(address, first, None).await
    }

    /// The same, with room for `window_bytes` that were not read yet.
    pub async fn open_with_window(
        address: SocketAddr,
        first: Vec<u8>,
        window_bytes: Option<u32>,
    ) -> Result<Self, Status> {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address makes a URL");
        let endpoint = endpoint.initial_stream_window_size(window_bytes);
        Self::on(endpoint.connect().await.expect("the validator listens"), first).await
    }

    async fn on(channel: Channel, first: Vec<u8>) -> Result<Self, Status> {
        let mut grpc = tonic::client::Grpc::new(channel);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let (said, queue) = mpsc::channel(WAITING);
        said.send(first).await.expect("the queue is empty");
        let request = Request::new(ReceiverStream::new(queue));
        let heard = grpc.streaming(request, PathAndQuery::from_static(SESSION), Bytes).await?.into_inner();
        Ok(Self { said, heard })
    }

    /// Says some bytes as one message.
    pub async fn say(&self, bytes: Vec<u8>) {
        // A validator that has closed the stream reads nothing more, which the test sees by its answer.
        let _ = self.said.send(bytes).await;
    }

    /// The validator's next message; `None` at the end of the stream, however that came.
    ///
    /// # Panics
    /// Panics for a message that a miner would not understand.
    pub async fn hear(&mut self) -> Option<ValidatorMessage> {
        let message = self.heard.message().await.ok().flatten()?;
        Some(ValidatorMessage::try_from(message).expect("a validator keeps to the protocol"))
    }
}

/// A message as its bytes.
#[must_use]
pub fn encoded(message: MinerMessage) -> Vec<u8> {
    SessionRequest::from(message).encode_to_vec()
}

/// A hello of a miner without devices.
#[must_use]
pub fn hello(identity: &Identity) -> Hello {
    Hello {
        versions: PROTOCOL_VERSIONS.to_vec(),
        miner_key: identity.public_key(),
        miner_nonce: Nonce([7; 32]),
        agent: "a test".into(),
        inventory: Inventory::default(),
        successors: identity.successors().to_vec(),
        resumes: None,
    }
}

/// The transcript that both sides of a session sign.
#[must_use]
pub const fn transcript(
    hello: &Hello,
    welcome: &Welcome,
    channel: assay_protocol::channel::Channel,
) -> SessionTranscript {
    SessionTranscript {
        version: welcome.version,
        validator_key: welcome.validator_key,
        miner_key: hello.miner_key,
        nonce: welcome.nonce,
        miner_nonce: hello.miner_nonce,
        channel,
    }
}

/// A proof on a plaintext connection, by any signer.
#[must_use]
pub fn proof(hello: &Hello, welcome: &Welcome, signer: &Identity) -> Vec<u8> {
    let transcript = transcript(hello, welcome, assay_protocol::channel::Channel::Plaintext);
    encoded(MinerMessage::Proof(signer.sign(&transcript.proof_message()), None))
}

/// The handshake up to the welcome.
pub async fn welcomed(validator: &TestValidator, hello: &Hello) -> (RawMiner, Welcome) {
    let first = encoded(MinerMessage::Hello(hello.clone()));
    let mut miner = RawMiner::open(validator.address, first).await.expect("the call begins");
    match miner.hear().await {
        Some(ValidatorMessage::Welcome(welcome)) => (miner, welcome),
        other => panic!("no welcome but {other:?}"),
    }
}

/// The validator's answer to a miner with this hello that proves it with this key.
pub async fn proved(validator: &TestValidator, hello: &Hello, identity: &Identity) -> ValidatorMessage {
    let (mut miner, welcome) = welcomed(validator, hello).await;
    miner.say(proof(hello, &welcome, identity)).await;
    tokio::time::timeout(PATIENCE, miner.hear()).await.expect("an answer").expect("an answer")
}

/// The last message to a connected miner; pings may come before it.
pub async fn last_words(mut miner: RawMiner) -> String {
    loop {
        match miner.hear().await {
            Some(ValidatorMessage::Goodbye(_, detail)) => return detail,
            Some(ValidatorMessage::Ping(_) | ValidatorMessage::Accepted(_)) => {}
            other => panic!("no goodbye but {other:?}"),
        }
    }
}

/// Bytes out, messages in.
#[derive(Debug, Clone, Copy, Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = SessionResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = SessionResponse;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<SessionResponse>, Status> {
        let bytes = bytes.copy_to_bytes(bytes.remaining());
        SessionResponse::decode(bytes).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
