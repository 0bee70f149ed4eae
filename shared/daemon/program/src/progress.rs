//! Progress bars on a terminal, none elsewhere.

use std::fmt::Write;
use std::io::IsTerminal;
use std::thread;
use std::time::Duration;

use indicatif::{FormattedDuration, ProgressDrawTarget, ProgressState, ProgressStyle};
pub use indicatif::{MultiProgress, ProgressBar};

/// How often a bar is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// Whether bars are shown: on a terminal that can move its cursor.
pub fn is_shown() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb") && std::io::stderr().is_terminal()
}

/// Standard error, where bars are shown there.
pub fn target() -> ProgressDrawTarget {
    if is_shown() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
}

/// A bar on standard error of `steps` steps, 0 while that is not known; it draws nothing unless that is a terminal.
pub fn bar(label: &'static str, steps: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(steps).filter(|steps| *steps > 0), target());
    let style = ProgressStyle::with_template("{prefix:>10} [{bar:32}] {steps}  {elapsed_precise}{left}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ");
    let known = |state: &ProgressState| state.len().filter(|all| *all > 0);
    let steps = move |state: &ProgressState, out: &mut dyn Write| {
        let _ = match known(state) {
            Some(all) => write!(out, "{}/{all} {:>3.0} %", state.pos(), 100.0 * state.fraction()),
            None => out.write_str("waiting"),
        };
    };
    let left = move |state: &ProgressState, out: &mut dyn Write| {
        if known(state).is_some() {
            let _ = write!(out, ", {} left", FormattedDuration(state.eta()));
        }
    };
    bar.with_style(style.with_key("steps", steps).with_key("left", left)).with_prefix(label)
}

/// Several bars below one another on standard error; they draw nothing unless that is a terminal.
pub fn bars() -> MultiProgress {
    MultiProgress::with_draw_target(target())
}

/// Shows how many steps are done, once there are any.
pub fn show(bar: &ProgressBar, done_steps: u64, steps: u64) {
    if steps > 0 {
        bar.set_length(steps);
        bar.set_position(done_steps);
    }
}

/// Does `work` while a bar shows the steps that `done_steps` counts meanwhile, then clears the bar.
pub fn watch<T>(label: &'static str, steps: u64, done_steps: impl Fn() -> u64 + Send, work: impl FnOnce() -> T) -> T {
    let bar = bar(label, steps);
    if bar.is_hidden() {
        return work();
    }
    let before = done_steps();
    let (done, ended) = std::sync::mpsc::channel::<()>();
    thread::scope(|scope| {
        let bar = &bar;
        scope.spawn(move || {
            // A closed channel means that the work ended, by return or by panic.
            while ended.recv_timeout(DRAW_EVERY) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                bar.set_position(done_steps().saturating_sub(before));
            }
            bar.finish_and_clear();
        });
        let _done = done;
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::{Arc, Mutex};

    #[test]
    fn the_work_is_done_and_its_result_passed_on() {
        assert_eq!(watch("work", 3, || 0, || 7), 7);
    }

    /// A terminal that shows the last text.
    #[derive(Debug, Clone, Default)]
    struct Terminal(Arc<Mutex<String>>);

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            100
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            if !text.trim().is_empty() {
                text.trim_end().clone_into(&mut self.0.lock().unwrap());
            }
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn drawn(bar: ProgressBar, act: impl FnOnce(&ProgressBar)) -> String {
        let terminal = Terminal::default();
        bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        act(&bar);
        bar.tick();
        terminal.0.lock().unwrap().clone()
    }

    #[test]
    fn a_bar_without_a_length_claims_no_progress() {
        let waiting = drawn(bar("work", 0), |_| {});
        assert_eq!(waiting, format!("      work [{}] waiting  00:00:00", " ".repeat(32)));
        let empty = drawn(bar("work", 0), |bar| show(bar, 0, 0));
        assert_eq!(empty, waiting);
        let half = drawn(bar("work", 0), |bar| show(bar, 5, 10));
        assert!(half.contains("5/10  50 %  00:00:00, 00:00:0"), "{half}");
        assert!(drawn(bar("work", 4), |_| {}).contains("] 0/4   0 %"));
    }
}
