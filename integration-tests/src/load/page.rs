//! Requests to the validator's pages and API beside a load, as people and programs make them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::figures::{PageFigures, Percentiles};

/// The paths of the requests, in turn.
pub const PATHS: [&str; 5] =
    ["/", "/api/v1/status", "/api/v1/miners?limit=100", "/api/v1/verdicts?limit=50", "/api/v1/devices?limit=100"];

/// Requests that are made until it is asked for its figures.
pub struct Watched(JoinHandle<PageFigures>, tokio::sync::oneshot::Sender<()>);

impl Watched {
    /// Makes `per_s` requests in a second on the validator's control socket, each on a connection of its own.
    #[must_use]
    pub fn begin(socket: PathBuf, per_s: f64) -> Self {
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let making = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / per_s));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let (began, mut failed, mut times) = (Instant::now(), 0, BTreeMap::<_, Vec<_>>::new());
            for path in PATHS.iter().cycle() {
                tokio::select! {
                    _ = &mut stopped => break,
                    _ = ticks.tick() => {}
                }
                let asked = Instant::now();
                match get(&socket, path).await {
                    Ok(200) => times.entry(*path).or_default().push(asked.elapsed()),
                    Ok(_) | Err(_) => failed += 1,
                }
            }
            let answered: usize = times.values().map(Vec::len).sum();
            let times = times.into_iter().map(|(path, times)| (path.to_owned(), Percentiles::of(times)));
            PageFigures {
                requests_per_s: answered as f64 / began.elapsed().as_secs_f64(),
                failed,
                times: times.collect(),
            }
        });
        Self(making, stop)
    }

    /// Ends it, and gives its figures.
    pub async fn figures(self) -> Result<PageFigures, String> {
        let Self(making, stop) = self;
        // The task receives until it is told to end.
        let _ = stop.send(());
        making.await.map_err(|error| error.to_string())
    }
}

/// Asks for a page and reads it to its end; gives the status.
pub async fn get(socket: &Path, path: &str) -> io::Result<u16> {
    let mut stream = UnixStream::connect(socket).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let status = std::str::from_utf8(line).ok().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    status.ok_or_else(|| io::Error::other("no answer of HTTP"))
}
