//! The terminal: taken over, and always restored.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc;

/// Polling interval of keys, after which the reader checks for its end.
const POLL: Duration = Duration::from_millis(250);

/// A terminal in drawing mode. Dropping it restores its state, also after a panic.
pub struct Terminal(DefaultTerminal);

impl Terminal {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// Error of the operating system.
    pub fn enter() -> io::Result<Self> {
        // Its first step already needs to be undone after a failure.
        ratatui::try_init().map(Self).inspect_err(|_| ratatui::restore())
    }

    /// Draws a frame.
    ///
    /// # Errors
    /// Error of the operating system.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(picture).map(|_| ())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Pressed keys, and `None` after a change of size; the stream ends with the terminal.
pub fn keys(most: usize) -> mpsc::Receiver<Option<KeyEvent>> {
    let (sender, receiver) = mpsc::channel(most);
    // Reading keys blocks; the thread ends with its receiver.
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let key = match event::poll(POLL)
                .and_then(|is_there| if is_there { event::read().map(Some) } else { Ok(None) })
            {
                Ok(Some(Event::Key(key))) if key.kind != KeyEventKind::Release => Some(key),
                Ok(Some(Event::Resize(..))) => None,
                Ok(_) => continue,
                Err(_) => return,
            };
            if sender.blocking_send(key).is_err() {
                return;
            }
        }
    });
    receiver
}
