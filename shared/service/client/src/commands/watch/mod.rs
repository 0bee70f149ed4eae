//! `assay-validator watch`: the fleet, the running challenges and the last verdicts, live in a terminal.

mod draw;
mod feed;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;
use std::time::Duration;

use assay_api::ServerStatus;
use assay_program::exit::{Exit, Failure};
use assay_program::render::Screen;
use assay_program::shutdown::Signals;
use tokio::sync::mpsc;

use self::terminal::Terminal;
use self::view::{KeyEffect, WatchView};
use crate::Client;
use crate::cli::running::WatchArgs;
use crate::place::ApiLocation;

/// The shortest time between two frames without a key: a large fleet has hundreds of events a second.
const FRAME: Duration = Duration::from_millis(100);
/// Buffered updates; a faster validator waits.
const UPDATES: usize = 256;
/// Buffered keys, and requests for miners.
const KEYS: usize = 32;

/// Shows the state of a validator until the operator leaves.
///
/// # Errors
/// No terminal, or no validator answers at the beginning. A validator lost later is retried.
pub fn execute(place: &ApiLocation, args: &WatchArgs) -> anyhow::Result<Exit> {
    if !std::io::stdout().is_terminal() {
        let message = "watch draws in a terminal, and standard output is none: programs take `assay-validator status \
                       --json`, or the events of the HTTP API";
        return Err(Failure::new(Exit::Usage, message).into());
    }
    crate::block_on(async {
        let client = Client::of(place);
        let status: ServerStatus = client.get("/status").await.map_err(Failure::from)?;
        let mut view = WatchView::new(place.to_string(), Screen::stdout().colour);
        view.filter.clone_from(&args.filter);
        view.apply(feed::Update::Status(Box::new(status)));
        show(client, view).await?;
        Ok(Exit::Done)
    })
}

/// Draws until a key or a signal ends it. The terminal is restored in every case.
async fn show(client: Client, mut view: WatchView) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let (told, mut updates) = mpsc::channel(UPDATES);
    let (ask, asked) = mpsc::channel(KEYS);
    tokio::spawn(feed::follow(client, told, asked));
    let mut terminal = Terminal::enter()?;
    let mut keys = terminal::keys(KEYS);
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        terminal.draw(|frame| draw::frame(frame, &mut view))?;
        tokio::select! {
            biased;
            () = signals.next() => return Ok(()),
            key = keys.recv() => {
                // A closed terminal sends no further keys.
                let Some(key) = key else { return Ok(()) };
                match view.key(key) {
                    KeyEffect::Stay => {}
                    KeyEffect::Leave => return Ok(()),
                    // Beyond the buffer, requests are dropped.
                    KeyEffect::Ask(miner) => drop(ask.try_send(miner)),
                }
            }
            _ = frames.tick() => {
                // Drains the buffered updates before the next frame.
                while let Ok(update) = updates.try_recv() {
                    view.apply(update);
                }
            }
        }
    }
}
