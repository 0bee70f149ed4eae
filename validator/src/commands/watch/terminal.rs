//! The terminal: taken over, and always given back.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc;

/// How long a key is waited for before it is asked whether anyone still wants one.
const POLL: Duration = Duration::from_millis(250);

/// A terminal that is drawn in. Dropped, it is as it was before; a panic gives it back too.
pub struct Terminal(DefaultTerminal);

impl Terminal {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// What the system said.
    pub fn enter() -> io::Result<Self> {
        // From its first step on, what is done has to be undone.
        ratatui::try_init().map(Self).inspect_err(|_| ratatui::restore())
    }

    /// Draws a picture.
    ///
    /// # Errors
    /// What the system said.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(picture).map(|_| ())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Keys as they are pressed, and `None` for a terminal of another size; the stream ends with the terminal.
pub fn keys(most: usize) -> mpsc::Receiver<Option<KeyEvent>> {
    let (sender, receiver) = mpsc::channel(most);
    // Reading keys blocks; the thread ends with whoever wants them.
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
