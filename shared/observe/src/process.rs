//! Metrics of the process itself, by the names that Prometheus' clients give them. Linux only.

use std::fs;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge, Registry};
use rustix::process::{Resource, getrlimit};

/// A gauge's name, its help text, and its value.
type Row = (&'static str, &'static str, fn(&Reading) -> f64);

const GAUGES: [Row; 6] = [
    ("process_open_fds", "Open files and sockets.", |reading| reading.open_files),
    ("process_max_fds", "The most files and sockets that may be open.", |reading| reading.max_files),
    ("process_resident_memory_bytes", "Physical memory.", |reading| reading.resident_bytes),
    ("process_virtual_memory_bytes", "Address space.", |reading| reading.virtual_bytes),
    ("process_threads", "Threads.", |reading| reading.threads),
    ("process_start_time_seconds", "When the process started, in seconds since 1970.", |reading| reading.started_s),
];

/// Reads the process anew for each scrape.
struct ProcessMetrics {
    cpu_seconds: Counter,
    gauges: Vec<Gauge>,
}

/// Registers the metrics of this process.
///
/// # Errors
/// [`prometheus::Error`]: one of the names is registered already.
pub(crate) fn register(registry: &Registry) -> prometheus::Result<()> {
    let cpu_seconds = Counter::new("process_cpu_seconds_total", "Processor time, in seconds.")?;
    let gauges = GAUGES.iter().map(|(name, help, _)| Gauge::new(*name, *help)).collect::<Result<_, _>>()?;
    registry.register(Box::new(ProcessMetrics { cpu_seconds, gauges }))
}

impl Collector for ProcessMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges.iter().flat_map(Collector::desc).chain(self.cpu_seconds.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(reading) = Reading::take() else { return Vec::new() };
        for (gauge, (_, _, value)) in self.gauges.iter().zip(GAUGES) {
            gauge.set(value(&reading));
        }
        self.cpu_seconds.inc_by((reading.cpu_s - self.cpu_seconds.get()).max(0.0));
        self.gauges.iter().flat_map(Collector::collect).chain(self.cpu_seconds.collect()).collect()
    }
}

/// The process at one moment.
#[derive(Debug)]
struct Reading {
    cpu_s: f64,
    threads: f64,
    started_s: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
    open_files: f64,
    /// Infinite without a limit.
    max_files: f64,
}

impl Reading {
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    fn take() -> Option<Self> {
        let status = fs::read_to_string("/proc/self/stat").ok()?;
        // proc(5): the name, in parentheses, may hold anything; the state behind it is field 3.
        let fields: Vec<_> = status.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let boot = fs::read_to_string("/proc/stat").ok()?;
        let boot_s: f64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
        Some(Self {
            cpu_s: (field(14)? + field(15)?) / ticks_per_s,
            threads: field(20)?,
            started_s: boot_s + field(22)? / ticks_per_s,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * rustix::param::page_size() as f64,
            open_files: fs::read_dir("/proc/self/fd").ok()?.count() as f64,
            max_files: getrlimit(Resource::Nofile).current.map_or(f64::INFINITY, |most| most as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_reading_is_of_this_process() {
        let before = Reading::take().unwrap();
        let held = [(); 8].map(|()| fs::File::open("/dev/null").unwrap());
        let waiting = std::thread::spawn(std::thread::park);
        let after = Reading::take().unwrap();
        assert!(after.open_files >= 8.0, "{after:?}");
        assert!(after.threads >= 2.0 && after.max_files > after.open_files, "{after:?}");
        assert!(after.resident_bytes > 100e3 && after.virtual_bytes > after.resident_bytes, "{after:?}");
        assert!(after.cpu_s >= before.cpu_s && after.cpu_s < 3600.0, "{after:?}");
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(now_s - 3600.0 < after.started_s && after.started_s < now_s + 60.0, "{after:?} at {now_s}");
        waiting.thread().unpark();
        waiting.join().unwrap();
        drop(held);
    }
}
