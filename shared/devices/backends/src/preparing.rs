//! The progress of opening devices, where that takes long: bars on a terminal, lines in the log elsewhere.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use assay_device::DeviceInfo;
use assay_device::backend::StartupProgress;
use assay_program::progress;
use assay_work::DeviceId;

/// The interval between two lines about a device.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Steps that wait to be drawn: further ones are left out.
const STEPS_AHEAD: usize = 64;
/// How long the bars may take to be cleared: a terminal that was stopped (Ctrl-S) takes nothing.
const CLEAR_LIMIT: Duration = Duration::from_millis(200);

/// Shows the progress of opening devices. Dropped, it clears its bars.
#[derive(Debug, Default)]
pub struct Preparations {
    bars: Option<Bars>,
    of_device: HashMap<DeviceId, DeviceProgress>,
}

/// Bars, drawn by a thread of their own: a terminal that takes no text stops only that thread.
#[derive(Debug)]
struct Bars {
    steps: Option<SyncSender<(DeviceId, String, StartupProgress)>>,
    cleared: Receiver<()>,
}

#[derive(Debug, Default)]
struct DeviceProgress {
    what: String,
    logged: Option<Instant>,
}

impl Preparations {
    pub fn show(&mut self, info: &DeviceInfo, preparing: &StartupProgress) {
        if self.bars.is_none() && progress::is_shown() {
            self.bars = Bars::start();
        }
        match &self.bars {
            Some(bars) => bars.show(info, preparing),
            None => self.of_device.entry(info.id).or_default().log(info, preparing, Instant::now()),
        }
    }
}

impl Bars {
    fn start() -> Option<Self> {
        let (steps, to_draw) = sync_channel(STEPS_AHEAD);
        let (done, cleared) = sync_channel(1);
        let work = move || {
            draw(&to_draw);
            let _ = done.send(());
        };
        thread::Builder::new().name("bars".into()).spawn(work).ok()?;
        Some(Self { steps: Some(steps), cleared })
    }

    fn show(&self, info: &DeviceInfo, preparing: &StartupProgress) {
        if let Some(steps) = &self.steps {
            // A step that is left out is made up for by the next one.
            let _ = steps.try_send((info.id, info.name.clone(), preparing.clone()));
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.steps = None;
        let _ = self.cleared.recv_timeout(CLEAR_LIMIT);
    }
}

/// Draws until there are no more steps, then clears the bars.
fn draw(steps: &Receiver<(DeviceId, String, StartupProgress)>) {
    let bars = MultiProgress::with_draw_target(progress::target());
    let mut of_device: HashMap<DeviceId, ProgressBar> = HashMap::new();
    for (device, name, StartupProgress { what, done, total }) in steps {
        let shown = of_device.entry(device).or_insert_with(|| bars.add(bar(&name)));
        shown.set_length(total.max(1));
        shown.set_position(done);
        shown.set_message(what);
    }
    // The terminal may be gone.
    let _ = bars.clear();
}

impl DeviceProgress {
    fn log(&mut self, info: &DeviceInfo, preparing: &StartupProgress, now: Instant) {
        let StartupProgress { what, done, total } = preparing;
        let again = self.logged.is_none_or(|logged| now.duration_since(logged) >= LINE_EVERY);
        if self.what == *what && !again {
            return;
        }
        self.what.clone_from(what);
        self.logged = Some(now);
        tracing::info!(device = %info.id, "{}: {what}, {done} of {total}", info.name);
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
            precisions: vec![assay_work::Precision::Int8],
            units: Vec::new(),
            total_bytes: 0,
            free_bytes: 0,
        };
        let mut shown = DeviceProgress::default();
        let start = Instant::now();
        let mut tell = |what: &str, at: Duration| {
            shown.log(&info, &StartupProgress { what: what.into(), done: 1, total: 2 }, start + at);
            shown.logged
        };
        let second = Duration::from_secs(1);
        assert_eq!(tell("compiling", Duration::ZERO), Some(start));
        assert_eq!(tell("compiling", second), Some(start), "the same again says nothing new");
        assert_eq!(tell("testing", second), Some(start + second));
        assert_eq!(tell("testing", second + LINE_EVERY), Some(start + second + LINE_EVERY));
    }
}
