//! A connection between a simulated miner and a validator: messages take time, wait for partitions to end, and are lost
//! with the connection.

use std::sync::Arc;

use assay_keeper::driver::{IncomingMessage, OutgoingMessage, ReadFailure};
use assay_program::clock;
use assay_protocol::message::{MinerMessage, ValidatorMessage};
use tokio::sync::{mpsc, watch};

use super::planted::Planted;
use super::world::{Pair, World};

/// Messages on their way.
const QUEUE: usize = 32;

/// The miner's end of a connection.
pub struct Line {
    pub inbound: mpsc::Receiver<ValidatorMessage>,
    pub outbound: mpsc::Sender<MinerMessage>,
}

/// The validator's end of a connection.
pub struct FarEnd {
    pub incoming: mpsc::Receiver<Box<IncomingMessage>>,
    pub outgoing: mpsc::Sender<OutgoingMessage>,
}

/// The two directions of a connection, to be run as tasks.
pub struct Carriers {
    pair: Pair,
    world: Arc<World>,
    cuts: watch::Receiver<u64>,
    from_miner: mpsc::Receiver<MinerMessage>,
    incoming: mpsc::Sender<Box<IncomingMessage>>,
    from_validator: mpsc::Receiver<OutgoingMessage>,
    session: mpsc::WeakSender<OutgoingMessage>,
    inbound: mpsc::Sender<ValidatorMessage>,
}

/// A new connection of a pair.
pub fn connect(world: &Arc<World>, pair: Pair) -> (Line, FarEnd, Carriers) {
    let (outbound, from_miner) = mpsc::channel(QUEUE);
    let (incoming, to_validator) = mpsc::channel(QUEUE);
    let (outgoing, from_validator) = mpsc::channel(QUEUE);
    let (inbound, to_miner) = mpsc::channel(QUEUE);
    let (world, cuts, session) = (world.clone(), world.cuts(pair), outgoing.downgrade());
    (
        Line { inbound: to_miner, outbound },
        FarEnd { incoming: to_validator, outgoing },
        Carriers { pair, world, cuts, from_miner, incoming, from_validator, session, inbound },
    )
}

impl Carriers {
    /// Starts both directions.
    pub fn start(self) -> [tokio::task::AbortHandle; 2] {
        let Self { pair, world, cuts, from_miner, incoming, from_validator, session, inbound } = self;
        let up = tokio::spawn(carry_up((pair, world.clone()), cuts.clone(), from_miner, incoming));
        let down = tokio::spawn(carry_down((pair, world), cuts, (from_validator, session), inbound));
        [up.abort_handle(), down.abort_handle()]
    }
}

async fn carry_up(
    (pair, world): (Pair, Arc<World>),
    mut cuts: watch::Receiver<u64>,
    mut from: mpsc::Receiver<MinerMessage>,
    to: mpsc::Sender<Box<IncomingMessage>>,
) {
    loop {
        let carried = async {
            let message = from.recv().await?;
            world.travel(pair).await;
            Some(message)
        };
        let message = tokio::select! {
            biased;
            _ = cuts.changed() => Err(ReadFailure::Disconnected("the connection broke".to_owned())),
            message = carried => message.ok_or_else(|| ReadFailure::Disconnected("the miner has gone".to_owned())),
        };
        let is_over = message.is_err();
        if is_over && world.draw(3) == 0 {
            // A host that vanishes says nothing.
            tokio::time::sleep(world.draw_ms(8000)).await;
        }
        let given = to.send(Box::new(IncomingMessage { message, at: clock::now() })).await;
        if is_over || given.is_err() {
            return;
        }
    }
}

async fn carry_down(
    (pair, world): (Pair, Arc<World>),
    mut cuts: watch::Receiver<u64>,
    (mut from, session): (mpsc::Receiver<OutgoingMessage>, mpsc::WeakSender<OutgoingMessage>),
    to: mpsc::Sender<ValidatorMessage>,
) {
    let mut offers = Vec::new();
    loop {
        let message = tokio::select! {
            biased;
            _ = cuts.changed() => break,
            message = from.recv() => message,
        };
        let Some((message, sent)) = message.map(|message| *message) else { break };
        sent.set(clock::now());
        world.sent(pair, &message, &session);
        if world.is_planted(Planted::VerdictTwice) && matches!(message, ValidatorMessage::Verdict(_)) {
            world.sent(pair, &message, &session);
        }
        if let ValidatorMessage::Challenge(offer) = &message {
            offers.push(offer.challenge_id);
        }
        tokio::select! {
            biased;
            _ = cuts.changed() => break,
            () = world.travel(pair) => {}
        }
        if to.send(message).await.is_err() {
            break;
        }
    }
    drop(to);
    // The validator's session ends when its stream is broken.
    drop(from);
    world.parted(pair, &offers);
}
