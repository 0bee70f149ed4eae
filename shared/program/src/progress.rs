//! Progress bars on a terminal, none elsewhere.

use std::thread;
use std::time::Duration;

pub use indicatif::{MultiProgress, ProgressBar};
use indicatif::{ProgressDrawTarget, ProgressStyle};

/// How often a bar is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// A bar on standard error of `steps` steps; it draws nothing unless that is a terminal.
#[must_use]
pub fn bar(label: &'static str, steps: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
    let template = "{prefix:>10} [{bar:32}] {pos}/{len} {percent:>3} %  {elapsed_precise}, {eta_precise} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style.progress_chars("=> ")).with_prefix(label)
}

/// Several bars below one another on standard error; they draw nothing unless that is a terminal.
#[must_use]
pub fn bars() -> MultiProgress {
    MultiProgress::with_draw_target(ProgressDrawTarget::stderr())
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

    #[test]
    fn the_work_is_done_and_its_result_passed_on() {
        assert_eq!(watch("work", 3, || 0, || 7), 7);
        // The template parses: it is no fallback that is shown.
        bar("work", 3).set_position(1);
    }
}
