//! The terminal: taken over, and always restored.

use std::io::{self, Stdout, stdout};
use std::time::Duration;

use ratatui_core::terminal::{Frame, Terminal as DrawnTerminal};
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui_crossterm::crossterm::{execute, terminal};
use tokio::sync::mpsc;

/// Polling interval of keys, after which the reader checks for its end.
const POLL: Duration = Duration::from_millis(250);

/// A terminal in drawing mode. Dropping it restores its state, also after a panic.
pub struct Terminal(DrawnTerminal<CrosstermBackend<Stdout>>);

impl Terminal {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// Error of the operating system.
    pub fn enter() -> io::Result<Self> {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panicked| {
            restore();
            hook(panicked);
        }));
        let began = terminal::enable_raw_mode().and_then(|()| execute!(stdout(), terminal::EnterAlternateScreen));
        let drawn = began.and_then(|()| DrawnTerminal::new(CrosstermBackend::new(stdout())));
        // Its first step already needs to be undone after a failure.
        drawn.map(Self).inspect_err(|_| restore())
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
        restore();
    }
}

/// Ends raw mode first: it has more effects. Where there is no terminal any more, nothing is left to do.
fn restore() {
    let _ = terminal::disable_raw_mode().and_then(|()| execute!(stdout(), terminal::LeaveAlternateScreen));
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
