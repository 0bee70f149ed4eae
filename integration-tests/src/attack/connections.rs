//! Attacks by connections that never become a call.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::Scale;
use crate::dialled::{Target, connect, dial};
use crate::http2::opening;

/// Connections that are dialled at once.
const AT_ONCE: u32 = 64;

/// The address of one of a crowd.
fn crowd(number: u32) -> [u8; 4] {
    let [_, _, high, low] = number.to_be_bytes();
    [127, 1, high, low]
}

/// Connections that say nothing, kept for as long as the validator lets them stand and the attack lasts.
pub async fn silence(target: Target, scale: Scale, of_many: bool) -> io::Result<u32> {
    let count = scale.of(5000);
    let mut kept: Vec<TcpStream> = Vec::new();
    for first in (0..count).step_by(AT_ONCE as usize) {
        let mut dialled = JoinSet::new();
        for number in first..count.min(first + AT_ONCE) {
            let from = if of_many { crowd(number) } else { target.from };
            dialled.spawn(dial(target.address, from));
        }
        // Some are reset while they are dialled.
        while let Some(stream) = dialled.join_next().await {
            kept.extend(stream.ok().and_then(Result::ok));
        }
    }
    tokio::time::sleep(scale.time).await;
    drop(kept);
    Ok(count)
}

/// `scale`'s count of connections a second for the time of the attack; with `handshake` each begins HTTP/2, behind TLS
/// where the target says so.
pub async fn reconnects(target: Target, scale: Scale, handshake: bool) -> io::Result<u32> {
    let (start, mut count) = (Instant::now(), 0);
    let mut running = JoinSet::new();
    while start.elapsed() < scale.time {
        running.spawn(async move {
            if !handshake {
                return dial(target.address, target.from).await.map(drop);
            }
            let mut wire = connect(target, target.from).await?;
            wire.stream.write_all(&opening(&[])).await?;
            wire.stream.read_u8().await.map(drop)
        });
        count += 1;
        while running.try_join_next().is_some() {}
        let due = start + Duration::from_millis(u64::from(count));
        tokio::time::sleep_until(due.into()).await;
    }
    running.shutdown().await;
    Ok(count)
}

/// Bytes that are nothing, behind first bytes that look like TLS, like HTTP/2, and like neither.
pub async fn garbage(target: Target, scale: Scale) -> io::Result<u32> {
    let count = scale.of(2000);
    let noise: Vec<u8> = (0..16_384_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for number in 0..count {
        let first: &[u8] = match number % 4 {
            0 => &[22, 3, 1, 0x40, 0],
            1 => &[22, 3, 3, 0xff, 0xff],
            2 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            _ => b"GET / HTTP/1.1\r\n",
        };
        let Ok(mut stream) = dial(target.address, target.from).await else { continue };
        // The validator may close it at any byte.
        let _ = stream.write_all(&[first, &noise].concat()).await;
        let _ = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut [0; 256])).await;
    }
    Ok(count)
}

/// Handshake messages that say that they are 16 MiB long, and go on for as long as they are read: a hello, a
/// certificate, and a certificate behind a hello that is one.
pub async fn endless_handshake(target: Target, scale: Scale) -> io::Result<u32> {
    let count = scale.of(300);
    let mut running = JoinSet::new();
    for number in 0..count {
        let kind = if number % 2 == 0 { 1 } else { 11 };
        running.spawn(async move {
            let Ok(mut stream) = dial(target.address, target.from).await else { return };
            let mut first = vec![kind, 0xff, 0xff, 0xff];
            first.resize(16_384, 0x30);
            let until = Instant::now() + scale.time;
            for part in 0.. {
                let payload = if part == 0 { &first } else { &vec![0x30; 16_384] };
                let record = [&[22, 3, 3, 0x40, 0], &payload[..]].concat();
                let sent = tokio::time::timeout(scale.time, stream.write_all(&record)).await;
                if !matches!(sent, Ok(Ok(()))) || Instant::now() > until {
                    return;
                }
            }
        });
    }
    running.join_all().await;
    Ok(count)
}
