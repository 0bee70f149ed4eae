//! The queue of messages to send: openings, megabytes of them, in a queue of their own, which every other message
//! overtakes.
//!
//! On a slow link openings take minutes. Pongs, and messages that end a challenge, do not wait behind openings that are
//! not in the transport yet.

use std::pin::Pin;
use std::task::{Context, Poll};

use assay_protocol::message::{MinerMessage, OpeningsChunk};
use tokio::sync::mpsc;
use tokio_stream::Stream;

/// Messages that may wait, without openings: far more than a session says before the transport takes one.
const MAX_MESSAGES: usize = 64;
/// Parts of openings that may wait: enough to keep the connection busy.
const MAX_OPENINGS: usize = 4;

/// Where messages are put. Once every clone is dropped and all has gone out, the stream ends.
#[derive(Debug, Clone)]
pub struct Outbox {
    /// Everything but openings.
    pub messages: mpsc::Sender<MinerMessage>,
    pub openings: mpsc::Sender<OpeningsChunk>,
}

/// The messages, in the order in which they go out.
#[derive(Debug)]
pub struct OutboxQueue {
    messages: mpsc::Receiver<MinerMessage>,
    openings: mpsc::Receiver<OpeningsChunk>,
}

/// An outbox for one session, and the queue that it sends from.
pub fn outbox() -> (Outbox, OutboxQueue) {
    let (messages, said) = mpsc::channel(MAX_MESSAGES);
    let (openings, opened) = mpsc::channel(MAX_OPENINGS);
    (Outbox { messages, openings }, OutboxQueue { messages: said, openings: opened })
}

impl Stream for OutboxQueue {
    type Item = MinerMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<MinerMessage>> {
        let messages = self.messages.poll_recv(cx);
        if let Poll::Ready(Some(message)) = messages {
            return Poll::Ready(Some(message));
        }
        match (messages, self.openings.poll_recv(cx)) {
            (_, Poll::Ready(Some(chunk))) => Poll::Ready(Some(MinerMessage::OpeningsChunk(chunk))),
            (Poll::Ready(None), Poll::Ready(None)) => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use assay_protocol::message::OpeningsPart;
    use assay_work::ChallengeId;
    use tokio_stream::StreamExt;

    use super::*;

    #[tokio::test]
    async fn a_pong_overtakes_openings_and_all_goes_out_before_the_end() {
        let (outbox, mut queue) = outbox();
        let chunk = |item| OpeningsChunk { challenge_id: ChallengeId([1; 16]), item, part: OpeningsPart::End };
        for item in 0..2 {
            outbox.openings.send(chunk(item)).await.unwrap();
        }
        outbox.messages.send(MinerMessage::Pong(7)).await.unwrap();
        drop(outbox);
        assert_eq!(queue.next().await, Some(MinerMessage::Pong(7)));
        for item in 0..2 {
            assert_eq!(queue.next().await, Some(MinerMessage::OpeningsChunk(chunk(item))));
        }
        assert_eq!(queue.next().await, None);
    }
}
