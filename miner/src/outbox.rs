//! The queue of messages to send: openings, megabytes of them, in a queue of their own, which every other message
//! overtakes.
//!
//! On a slow link openings take minutes. Pongs, and messages that end a challenge, do not wait behind openings that are
//! not in the transport yet.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use assay_device::Handle;
use assay_protocol::message::{MinerMessage, OpeningsChunk};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_stream::Stream;

/// Messages that may wait, without openings: far more than a session says before the transport takes one.
const MAX_MESSAGES: usize = 64;
/// Parts of openings that may wait: enough to keep the connection busy.
const MAX_OPENINGS: usize = 4;
/// Between two attempts to put a part into a full queue.
const GIVE_PAUSE: Duration = Duration::from_millis(1);

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

impl Outbox {
    /// Puts a part of openings in once there is room; whether it did before the work was cancelled. The transport keeps a
    /// queue that its peer takes nothing of, so that waiting for the queue alone could last for ever.
    pub fn give(&self, mut chunk: OpeningsChunk, work: &Handle) -> bool {
        loop {
            match self.openings.try_send(chunk) {
                Ok(()) => return true,
                Err(TrySendError::Full(back)) if work.check().is_ok() => chunk = back,
                Err(_) => return false,
            }
            thread::sleep(GIVE_PAUSE);
        }
    }
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

    #[test]
    fn openings_that_nobody_takes_end_with_their_work() {
        let (outbox, mut queue) = outbox();
        let work = Handle::default();
        let chunk = || OpeningsChunk { challenge_id: ChallengeId([7; 16]), item: 0, part: OpeningsPart::End };
        assert!((0..MAX_OPENINGS).all(|_| outbox.give(chunk(), &work)));
        thread::scope(|scope| {
            let waits = scope.spawn(|| outbox.give(chunk(), &work));
            thread::sleep(20 * GIVE_PAUSE);
            assert!(!waits.is_finished() && queue.openings.try_recv().is_ok());
            assert!(waits.join().unwrap(), "there is room again");
            let waits = scope.spawn(|| outbox.give(chunk(), &work));
            work.cancel();
            assert!(!waits.join().unwrap(), "the queue is full for good");
        });
        drop(queue);
        assert!(!outbox.give(chunk(), &Handle::default()));
    }
}
