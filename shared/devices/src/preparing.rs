//! What is done to open devices, where that takes long: bars on a terminal, lines in the log elsewhere.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use assay_device::DeviceInfo;
use assay_device::backend::Preparing;
use assay_work::DeviceId;

/// The interval between two lines about a device.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows what is done to open devices. Dropped, it clears its bars.
#[derive(Debug)]
pub struct Preparations {
    bars: MultiProgress,
    of_device: HashMap<DeviceId, DeviceProgress>,
}

#[derive(Debug)]
struct DeviceProgress {
    bar: ProgressBar,
    what: String,
    logged: Option<Instant>,
}

impl Default for Preparations {
    fn default() -> Self {
        Self { bars: MultiProgress::with_draw_target(ProgressDrawTarget::stderr()), of_device: HashMap::new() }
    }
}

impl Preparations {
    /// Shows how far a device is.
    pub fn show(&mut self, info: &DeviceInfo, preparing: &Preparing) {
        let is_hidden = self.bars.is_hidden();
        let shown = self.of_device.entry(info.id).or_insert_with(|| DeviceProgress {
            bar: self.bars.add(bar(&info.name)),
            what: String::new(),
            logged: None,
        });
        if is_hidden {
            shown.log(info, preparing, Instant::now());
            return;
        }
        shown.bar.set_length(preparing.total.max(1));
        shown.bar.set_position(preparing.done);
        shown.bar.set_message(preparing.what.clone());
    }
}

impl DeviceProgress {
    fn log(&mut self, info: &DeviceInfo, preparing: &Preparing, now: Instant) {
        let Preparing { what, done, total } = preparing;
        let again = self.logged.is_none_or(|logged| now.duration_since(logged) >= LINE_EVERY);
        if self.what == *what && !again {
            return;
        }
        self.what.clone_from(what);
        self.logged = Some(now);
        tracing::info!(device = %info.id, "{}: {what}, {done} of {total}", info.name);
    }
}

impl Drop for Preparations {
    fn drop(&mut self) {
        // Standard error may be closed.
        let _ = self.bars.clear();
    }
}

fn bar(name: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix}: {msg} [{bar:32}] {pos}/{len}  {elapsed_precise}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ");
    ProgressBar::new(1).with_style(style).with_prefix(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_of_what_is_new_and_not_of_every_step() {
        let info = DeviceInfo {
            id: DeviceId([1; 16]),
            name: "a device".into(),
            backend: assay_device::backend::BackendKind::Cpu,
            detail: String::new(),
            total_bytes: 0,
            free_bytes: 0,
        };
        let mut shown = DeviceProgress { bar: bar("a device"), what: String::new(), logged: None };
        let start = Instant::now();
        let mut tell = |what: &str, at: Duration| {
            shown.log(&info, &Preparing { what: what.into(), done: 1, total: 2 }, start + at);
            shown.logged
        };
        let second = Duration::from_secs(1);
        assert_eq!(tell("compiling", Duration::ZERO), Some(start));
        assert_eq!(tell("compiling", second), Some(start), "the same again says nothing new");
        assert_eq!(tell("testing", second), Some(start + second));
        assert_eq!(tell("testing", second + LINE_EVERY), Some(start + second + LINE_EVERY));
    }
}
