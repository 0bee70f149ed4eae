//! A connection between a simulated miner and a validator: messages take time, wait for partitions to end, and are lost
//! with the connection.

use std::sync::{Arc, Mutex};

use assay_keeper::driver::{IncomingMessage, OutgoingMessage, ReadFailure};
use assay_program::clock;
use assay_protocol::message::{Inventory, MinerMessage, ValidatorMessage};
use tokio::sync::{mpsc, watch};

use super::plan::Conduct;
use super::planted::Planted;
use super::transitions::StreamEnd;
use super::world::{Pair, World, lock};
use crate::standing::{ValidatorStanding, kind_of_validator};

/// Messages on their way.
const QUEUE: usize = 32;

/// Of so many messages of a miner that babbles, one cannot be read.
const GARBLED: u64 = 150;
/// Behind so many messages to one, an earlier one comes again.
const REPEATED: u64 = 12;

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
        let standing = Arc::new(Mutex::new(ValidatorStanding::new(Inventory::default())));
        let up = carry_up((pair, world.clone(), standing.clone()), cuts.clone(), from_miner, incoming);
        let (up, way) = (tokio::spawn(up), (pair, world, standing));
        let down = tokio::spawn(carry_down(way, cuts, (from_validator, session), inbound));
        [up.abort_handle(), down.abort_handle()]
    }
}

/// A connection's pair, world and validator, as its messages show it.
type Way = (Pair, Arc<World>, Arc<Mutex<ValidatorStanding>>);

async fn carry_up(
    (pair, world, standing): Way,
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
        let message = message.and_then(|message| garbled(pair, &world, message));
        let is_over = message.is_err();
        if is_over && world.draw(3) == 0 {
            // A host that vanishes says nothing.
            tokio::time::sleep(world.draw_ms(8000)).await;
        }
        follow(&world, &standing, &message);
        let given = to.send(Box::new(IncomingMessage { message, at: clock::now() })).await;
        if is_over || given.is_err() {
            return;
        }
    }
}

/// The message, or what cannot be read in its place.
fn garbled(pair: Pair, world: &World, message: MinerMessage) -> Result<MinerMessage, ReadFailure> {
    let is_garbled = world.plan.conduct[pair.1] == Conduct::Babbles && world.draw(GARBLED) == 0;
    if is_garbled { Err(ReadFailure::Malformed("no message of the protocol".to_owned())) } else { Ok(message) }
}

/// An earlier message of the validator, which the link of a miner that babbles says again behind this one.
fn repeated(pair: Pair, world: &World, message: &ValidatorMessage) -> Option<ValidatorMessage> {
    if world.plan.conduct[pair.1] != Conduct::Babbles {
        return None;
    }
    let mut heard = lock(&world.heard);
    let again = (world.draw(REPEATED) == 0).then(|| {
        let of_pair: Vec<_> = heard.iter().filter(|((of, _), _)| *of == pair).map(|(_, message)| message).collect();
        of_pair.get(world.draw(of_pair.len().max(1) as u64) as usize).copied().cloned()
    });
    if world.draw(2) == 0 {
        heard.insert((pair, kind_of_validator(message)), message.clone());
    }
    again.flatten()
}

/// Notes what the validator is given, and its state from then on.
fn follow(world: &World, standing: &Mutex<ValidatorStanding>, message: &Result<MinerMessage, ReadFailure>) {
    let mut standing = lock(standing);
    let given = message.as_ref().map_err(|failure| match failure {
        ReadFailure::Malformed(_) => StreamEnd::Malformed,
        ReadFailure::Disconnected(_) => StreamEnd::End,
    });
    world.transitions().at_validator(&standing, given);
    if let Ok(message) = message {
        standing.given(message);
    }
}

async fn carry_down(
    (pair, world, standing): Way,
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
        lock(&standing).sent(&message);
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
        let again = repeated(pair, &world, &message);
        let mut is_over = to.send(message).await.is_err();
        if let Some(again) = again {
            is_over |= to.send(again).await.is_err();
        }
        if is_over {
            break;
        }
    }
    drop(to);
    // The validator's session ends when its stream is broken.
    drop(from);
    world.parted(pair, &offers);
}
