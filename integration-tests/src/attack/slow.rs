//! Attacks that take their time: headers, bodies and windows that come byte by byte, and headers without end.

use std::io;
use std::time::Duration;

use assay_protocol::identity::Identity;
use assay_protocol::message::MinerMessage;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::{SESSION, Scale};
use crate::dialled::{Target, Wire, connect};
use crate::http2::{
    CONTINUATION, HEADERS, INITIAL_WINDOW_SIZE, call, call_headers, data, frame, message, opening, window_update,
};
use crate::raw::{encoded, hello};

/// The pause between two bytes.
const PAUSE: Duration = Duration::from_millis(100);

/// Has up to 300 connections, by `scale`, act at once, until they are closed or the time is over.
async fn on_many<F>(target: Target, scale: Scale, act: impl Fn(Wire) -> F) -> io::Result<u32>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let count = scale.of(300);
    let mut running = JoinSet::new();
    for _ in 0..count {
        // The validator resets those that are too many.
        if let Ok(wire) = connect(target, target.from).await {
            running.spawn(tokio::time::timeout(scale.time, act(wire)));
        }
    }
    running.join_all().await;
    Ok(count)
}

/// Bytes one by one, from the start again for ever.
async fn drip(wire: &mut Wire, bytes: &[u8]) -> io::Result<()> {
    for byte in bytes {
        wire.stream.write_all(&[*byte]).await?;
        wire.stream.flush().await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Headers that come byte by byte.
pub async fn headers(target: Target, scale: Scale) -> io::Result<u32> {
    on_many(target, scale, |mut wire| async move {
        wire.stream.write_all(&opening(&[])).await?;
        drip(&mut wire, &call(1, SESSION)).await
    })
    .await
}

/// Headers that never end: one frame after another that continues them.
pub async fn endless_headers(target: Target, scale: Scale) -> io::Result<u32> {
    on_many(target, scale, |mut wire| async move {
        wire.stream.write_all(&opening(&[])).await?;
        wire.stream.write_all(&frame(HEADERS, 0, 1, &call_headers(SESSION))).await?;
        // A header of one letter, without a value, again and again.
        let more = frame(CONTINUATION, 0, 1, &[0, 1, b'x', 0].repeat(64));
        loop {
            wire.stream.write_all(&more).await?;
        }
    })
    .await
}

/// A first message that comes byte by byte.
pub async fn bodies(target: Target, scale: Scale) -> io::Result<u32> {
    on_many(target, scale, |mut wire| async move {
        wire.stream.write_all(&[opening(&[]), call(1, SESSION)].concat()).await?;
        let hello = message(&encoded(MinerMessage::Hello(hello(&Identity::from_seed(&[9; 32])))));
        for byte in hello {
            drip(&mut wire, &frame(0, 0, 1, &[byte])).await?;
        }
        Ok(())
    })
    .await
}

/// Calls whose answers have no room, and then room for a byte at a time.
pub async fn windows(target: Target, scale: Scale) -> io::Result<u32> {
    on_many(target, scale, |mut wire| async move {
        wire.stream.write_all(&opening(&[(INITIAL_WINDOW_SIZE, 0)])).await?;
        let hello = encoded(MinerMessage::Hello(hello(&Identity::from_seed(&[9; 32]))));
        for stream in [1, 3, 5, 7] {
            wire.stream.write_all(&[call(stream, SESSION), data(stream, &hello)].concat()).await?;
        }
        loop {
            tokio::time::sleep(PAUSE).await;
            for stream in [1, 3, 5, 7] {
                wire.stream.write_all(&window_update(stream, 1)).await?;
            }
            let _ = tokio::time::timeout(Duration::from_millis(1), wire.stream.read(&mut [0; 64])).await;
        }
    })
    .await
}
