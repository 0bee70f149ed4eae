//! Metrics of the process itself, by the names that Prometheus' clients give them. Linux only.

use std::fs;

use prometheus::Registry;
use prometheus::proto::MetricFamily;
use rustix::process::{Resource, getrlimit};

use crate::metrics::MetricsError;

crate::families! {
    /// Readings of the process by the system.
    ProcessFamilies of "process" {
        cpu_seconds_total: Counter [], "Processor time, in seconds.";
        open_fds: Gauge [], "Open files and sockets.";
        max_fds: Gauge [], "The most files and sockets that may be open.";
        resident_memory_bytes: Gauge [], "Physical memory.";
        start_time_seconds: Gauge [], "When the process started, in seconds since 1970.";
    }
}

/// Reads the process; empty where the system does not tell.
///
/// # Errors
/// [`MetricsError`].
pub(crate) fn gather() -> Result<Vec<MetricFamily>, MetricsError> {
    let registry = Registry::new();
    if let Some(ProcessReading { cpu_s, started_s, resident_bytes, open_files, max_files }) = ProcessReading::take() {
        let families = ProcessFamilies::register(&registry)?;
        families.cpu_seconds_total.inc_by(cpu_s);
        families.open_fds.set(open_files);
        families.max_fds.set(max_files);
        families.resident_memory_bytes.set(resident_bytes);
        families.start_time_seconds.set(started_s);
    }
    Ok(registry.gather())
}

/// The process at one moment.
#[derive(Debug)]
struct ProcessReading {
    cpu_s: f64,
    started_s: f64,
    resident_bytes: f64,
    open_files: f64,
    /// Infinite without a limit.
    max_files: f64,
}

impl ProcessReading {
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
            started_s: boot_s + field(22)? / ticks_per_s,
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
        let before = ProcessReading::take().unwrap();
        let held = [(); 8].map(|()| fs::File::open("/dev/null").unwrap());
        let after = ProcessReading::take().unwrap();
        assert!(after.open_files >= 8.0, "{after:?}");
        assert!(after.max_files > after.open_files && after.resident_bytes > 100e3, "{after:?}");
        assert!(after.cpu_s >= before.cpu_s && after.cpu_s < 3600.0, "{after:?}");
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(now_s - 3600.0 < after.started_s && after.started_s < now_s + 60.0, "{after:?} at {now_s}");
        drop(held);
    }
}
