//! The session service: gRPC on the outside, one driver for each stream inside.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use assay_protocol::message::{MinerMessage, RefusedCode};
use assay_protocol::wire::v1::session_service_server::SessionService;
use assay_protocol::wire::v1::{SessionRequest, SessionResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status, Streaming};

use assay_judge::action::SentAt;
use assay_judge::refusal::refusal;
use assay_keeper::driver::{IncomingMessage, OutgoingMessage, ReadFailure, drive};
use assay_keeper::validator::Validator;
use assay_listen::bounds::{MAX_INCOMING_MESSAGES, MAX_OUTGOING_MESSAGES};
use assay_listen::peer::Peer;

/// The service that miners dial.
#[derive(Clone)]
pub struct Sessions(Arc<Validator>);

impl Sessions {
    pub const fn new(validator: Arc<Validator>) -> Self {
        Self(validator)
    }
}

type Responses = Pin<Box<dyn Stream<Item = Result<SessionResponse, Status>> + Send>>;

#[tonic::async_trait]
impl SessionService for Sessions {
    type SessionStream = Responses;

    async fn session(&self, request: Request<Streaming<SessionRequest>>) -> Result<Response<Responses>, Status> {
        let Some(peer) = request.extensions().get::<Peer>().cloned() else {
            return Err(Status::internal("the connection did not come through the listener"));
        };
        let (outgoing, queue) = mpsc::channel(MAX_OUTGOING_MESSAGES);
        let under_way = self.0.drain.enter();
        if self.0.shutdown.is_draining() {
            return Ok(refuse(RefusedCode::Draining, "this validator is shutting down"));
        }
        if peer.is_overload() {
            return Ok(refuse(
                RefusedCode::Overloaded,
                "too many connections come from this address, or to this validator",
            ));
        }
        let permit = peer.stream().map_err(|error| Status::resource_exhausted(error.to_string()))?;
        let (incoming, messages) = mpsc::channel(MAX_INCOMING_MESSAGES);
        tokio::spawn(read(request.into_inner(), peer.clone(), incoming));
        tokio::spawn(drive(self.0.clone(), Some(peer), messages, outgoing, (permit, under_way)));
        Ok(Response::new(Box::pin(stamped(queue))))
    }
}

/// Reads messages as they come, with their time: the session may be busy when one arrives. A message is read only when
/// the queue has room.
async fn read(mut stream: Streaming<SessionRequest>, peer: Peer, incoming: mpsc::Sender<Box<IncomingMessage>>) {
    while let Ok(room) = incoming.reserve().await {
        let message = match stream.message().await {
            Ok(Some(message)) => {
                MinerMessage::try_from(message).map_err(|error| ReadFailure::Malformed(error.to_string()))
            }
            Ok(None) => return,
            Err(status) => Err(broken(&status)),
        };
        let last = message.is_err();
        if matches!(message, Ok(MinerMessage::Hello(_))) {
            peer.set_greeted(true);
        }
        room.send(Box::new(IncomingMessage { message, at: Instant::now() }));
        if last {
            return;
        }
    }
}

/// The text of tonic for a stream that ends inside a message, as one does whose connection goes silent.
const CUT: &str = "Unexpected EOF decoding stream.";

/// A message that cannot be decoded or is too large is malformed; every other status is a broken connection.
fn broken(status: &Status) -> ReadFailure {
    let is_whole = status.message() != CUT && std::error::Error::source(status).is_none();
    let undecodable = status.code() == Code::Internal && is_whole;
    if undecodable || status.code() == Code::OutOfRange {
        ReadFailure::Malformed(status.message().to_owned())
    } else {
        ReadFailure::Disconnected(format!("the stream broke ({:?}): {}", status.code(), status.message()))
    }
}

/// Messages, stamped when the transport takes them: deadlines count from that time.
fn stamped(queue: mpsc::Receiver<OutgoingMessage>) -> impl Stream<Item = Result<SessionResponse, Status>> + Send {
    ReceiverStream::new(queue).map(|outgoing| {
        let (message, sent) = *outgoing;
        let response = SessionResponse::from(message);
        sent.set(Instant::now());
        Ok(response)
    })
}

fn refuse(code: RefusedCode, detail: &str) -> Response<Responses> {
    let (outgoing, queue) = mpsc::channel(1);
    // The queue has room for its only message.
    let _ = outgoing.try_send(Box::new((refusal(code, detail.into()), SentAt::default())));
    Response::new(Box::pin(stamped(queue)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::codec::{DecodeBuf, Decoder};

    struct Whole;

    impl Decoder for Whole {
        type Item = ();
        type Error = Status;

        fn decode(&mut self, _: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
            Ok(Some(()))
        }
    }

    /// A silent connection, which the transport ends without an error, is no forged message.
    #[tokio::test]
    async fn a_stream_that_ends_inside_a_message_is_a_lost_connection() {
        let mut cut = Streaming::new_request(Whole, "\0\0\0\0\x09half".to_owned(), None, None);
        let status = cut.message().await.unwrap_err();
        assert!(matches!(broken(&status), ReadFailure::Disconnected(_)), "{status:?}");
        let undecodable = Status::internal("failed to decode Protobuf message: invalid wire type");
        assert!(matches!(broken(&undecodable), ReadFailure::Malformed(_)));
        let mut large = Streaming::new_request(Whole, "\0\0\0\0\x09all of it".to_owned(), None, Some(8));
        let status = large.message().await.unwrap_err();
        assert!(matches!(broken(&status), ReadFailure::Malformed(_)), "{status:?}");
    }
}
