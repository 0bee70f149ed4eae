//! Attacks by miners that have a session: each has proved a key, which costs nothing where anyone may connect.

use std::io;
use std::time::{Duration, Instant};

use assay_protocol::message::{MinerMessage, OpeningsPart};
use prost::encoding::{WireType, encode_key, encode_varint};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::{SESSION, Scale};
use crate::dialled::{Target, connect};
use crate::dishonest::{Disguise, DishonestMiner};
use crate::handmade::HandmadeMiner;
use crate::http2::{call, data, opening};

/// A list of a miner's messages.
struct List {
    /// The numbers of the fields that lead to it.
    path: &'static [u32],
    /// Whether its entries are numbers, of a byte each, or messages, of two.
    is_numbers: bool,
}

/// Versions of a hello; devices and their slots; throttle reasons and error codes of roots and digests; samples and
/// segments.
const LISTS: [List; 9] = [
    List { path: &[1, 1], is_numbers: true },
    List { path: &[3, 2], is_numbers: false },
    List { path: &[3, 2, 7], is_numbers: true },
    List { path: &[8, 6, 9], is_numbers: true },
    List { path: &[8, 6, 12], is_numbers: true },
    List { path: &[10, 6, 9], is_numbers: true },
    List { path: &[10, 6, 12], is_numbers: true },
    List { path: &[11, 4, 3], is_numbers: false },
    List { path: &[11, 5, 3], is_numbers: false },
];
/// The bytes of the largest message, without the tags that lead to a list.
const LARGEST: usize = (4 << 20) - 64;

/// The key of a numbered attacker: others from another address, and for another attack.
fn seed(target: Target, attack: u8, number: u32) -> [u8; 32] {
    let mut seed = [attack; 32];
    seed[..4].copy_from_slice(&number.to_be_bytes());
    seed[4..8].copy_from_slice(&target.from);
    seed
}

fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 16);
    encode_key(number, WireType::LengthDelimited, &mut out);
    encode_varint(bytes.len() as u64, &mut out);
    out.extend_from_slice(bytes);
    out
}

/// A message with as many empty entries of a list as there is room for.
fn huge_list(list: &List, bytes: usize) -> Vec<u8> {
    let (number, above) = list.path.split_last().expect("a list has a number");
    let entries = if list.is_numbers { field(*number, &vec![0; bytes]) } else { field(*number, &[]).repeat(bytes / 2) };
    above.iter().rev().fold(entries, |inner, number| field(*number, &inner))
}

/// Miners that connect and then never read the validator's messages.
pub async fn never_read(target: Target, scale: Scale) -> io::Result<u32> {
    let count = scale.of(50);
    let mut miners = Vec::new();
    for number in 0..count {
        // The validator refuses those that are too many.
        let miner = HandmadeMiner::accepted(target, target.from, seed(target, 0xa1, number), 0).await;
        if let Ok(mut miner) = miner
            && miner.keep_room(0).await.is_ok()
        {
            miners.push(miner);
        }
    }
    tokio::time::sleep(scale.time).await;
    drop(miners);
    Ok(count)
}

/// Every list of a message in a session at its longest, and those of the first message in a handshake.
pub async fn huge_lists(target: Target, scale: Scale) -> io::Result<u32> {
    let messages = LISTS.iter().map(|list| huge_list(list, LARGEST)).collect();
    let sent = send_in_sessions(target, scale, 0xa2, messages).await;
    for list in &LISTS {
        let Ok(mut wire) = connect(target, target.from).await else { continue };
        let hello = huge_list(list, (64 << 10) - 64);
        let frames = [opening(&[]), call(1, SESSION), data(1, &hello)].concat();
        if wire.stream.write_all(&frames).await.is_ok() {
            let _ = tokio::time::timeout(Duration::from_secs(1), wire.stream.read(&mut [0; 4096])).await;
        }
    }
    Ok(sent + LISTS.len() as u32)
}

/// Messages of every kind, padded to 4 MiB with an unknown field.
pub async fn padded_messages(target: Target, scale: Scale) -> io::Result<u32> {
    let padding = [15 << 3, 0].repeat(LARGEST / 2);
    let padded = (1..=13).map(|kind| [field(kind, &[]), padding.clone()].concat()).collect();
    Ok(send_in_sessions(target, scale, 0xa3, padded).await)
}

/// 16 miners, each of which sends one message after another, in a session of its own each time.
async fn send_in_sessions(target: Target, scale: Scale, attack: u8, messages: Vec<Vec<u8>>) -> u32 {
    let messages = std::sync::Arc::new(messages);
    let mut running = JoinSet::new();
    for number in 0..scale.of(16).max(2) {
        let messages = messages.clone();
        running.spawn(async move {
            let (mut sent, until) = (0, Instant::now() + 3 * scale.time);
            for message in messages.iter() {
                if Instant::now() > until {
                    break;
                }
                let Ok(mut miner) = HandmadeMiner::accepted(target, target.from, seed(target, attack, number), 0).await
                else {
                    continue;
                };
                let said = async {
                    miner.say_bytes(message).await?;
                    while miner.hear().await.is_ok() {}
                    io::Result::Ok(())
                };
                // The validator ends the session, at the latest when its pings are not answered.
                let _ = tokio::time::timeout(Duration::from_secs(5), said).await;
                sent += 1;
            }
            sent
        });
    }
    running.join_all().await.into_iter().sum()
}

/// Miners that do the work and then send one opening again and again. The test or program that measures the attack has
/// to challenge them.
pub async fn endless_openings(target: Target, scale: Scale) -> io::Result<u32> {
    let mut miners = Vec::new();
    for seed in 0xe0..0xe0 + scale.of(4) as u8 {
        let disguise = Disguise { seed, first_device: seed, ..Disguise::new(&[14]) };
        let miner = DishonestMiner::connect(target.address, &disguise).await;
        miner.lies.in_what_goes_out(|message| match &message {
            MinerMessage::OpeningsChunk(chunk) if chunk.part != OpeningsPart::End => vec![message; 10_000],
            _ => vec![message],
        });
        miners.push(miner);
    }
    // They are challenged half a second after they connect.
    tokio::time::sleep(scale.time.max(Duration::from_secs(2))).await;
    Ok(miners.len() as u32)
}
