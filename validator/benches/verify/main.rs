//! Verification on one core next to its limits, measured in the same run: `cargo bench -p assay-validator --bench
//! verify`.
//!
//! The checks are a session's: openings of a real pass and a real probe, part by part as they arrive, against the
//! draws, through the validator's own collector. The machine's speed drifts, so that all compared quantities are
//! measured in turn, round after round, and the medians are compared.

mod opened;
mod rates;

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_protocol::message::OpeningsPart;
use clap::Parser;

use opened::{AuditedDevice, DeviceOpenings};
use rates::ThreadRates;

/// Options of the benchmark.
#[derive(Parser)]
struct VerifyOptions {
    /// Matrix sizes
    #[arg(long, value_delimiter = ',', default_value = "1024,4096,8192")]
    n: Vec<u32>,
    /// Devices of the host that is audited
    #[arg(long, default_value_t = 8)]
    devices: usize,
    /// Samples of each device
    #[arg(long, default_value_t = 128)]
    samples: u32,
    /// Segments of each device
    #[arg(long, default_value_t = 32)]
    segments: u32,
    /// Steps of each segment
    #[arg(long, default_value_t = 64)]
    steps: u32,
    /// How many slots a device fills
    #[arg(long, default_value_t = 16)]
    slots: u32,
    /// How often each is measured
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Cargo passes it
    #[arg(long, hide = true)]
    bench: bool,
}

/// The time of each kind of part, over all devices.
#[derive(Clone, Copy, Default)]
struct VerifyTimes {
    digests: Duration,
    samples: Duration,
    segments: Duration,
}

impl VerifyTimes {
    fn all(&self) -> Duration {
        self.digests + self.samples + self.segments
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = VerifyOptions::parse();
    let VerifyOptions { devices, samples, segments, steps, slots, rounds, .. } = settings;
    println!(
        "{devices} devices x ({samples} samples + {segments} segments of {steps} steps), {slots} slots each; one core"
    );
    println!(
        "    n   MB opened    audit ms  (samples + segments)   BLAKE3 ms  audit/BLAKE3   read ms  audit/read   decode ms"
    );
    for &n in &settings.n {
        let audited = AuditedDevice::new(n, &settings)?;
        let opened: Vec<_> = (0..devices).map(|device| audited.opened(device)).collect();
        let bytes = opened.iter().map(DeviceOpenings::bytes).sum::<u64>();
        let (mut times, mut decoded, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=rounds {
            let (decode, time) = (decode(&opened)?, check(&opened)?);
            // The first round finds caches cold and the clock low.
            if round > 0 {
                times.push(time);
                decoded.push(decode);
                rates.push(ThreadRates::measure());
            }
        }
        report(n, bytes, &times, &decoded, &rates);
    }
    Ok(())
}

/// Checks everything that was opened, as it arrives.
fn check(opened: &[DeviceOpenings]) -> Result<VerifyTimes, Box<dyn Error>> {
    let mut times = VerifyTimes::default();
    let arriving: Vec<_> = opened.iter().map(DeviceOpenings::arriving).collect();
    for (mut collector, chunks) in arriving {
        for chunk in chunks {
            let began = Instant::now();
            let spent = match chunk.part {
                OpeningsPart::Sample(_) => &mut times.samples,
                OpeningsPart::Segment(_) | OpeningsPart::Sum(_) => &mut times.segments,
                OpeningsPart::SlotDigests(_) | OpeningsPart::End => &mut times.digests,
            };
            let job = collector.take(Arc::new(chunk)).map_err(|reason| reason.detail)?;
            job.map_or(Ok(()), |job| job.run()).map_err(|reason| reason.detail)?;
            *spent += began.elapsed();
        }
        assert!(collector.is_complete(), "the last part ends the last item");
    }
    Ok(times)
}

/// Decodes everything from its wire form.
fn decode(opened: &[DeviceOpenings]) -> Result<Duration, Box<dyn Error>> {
    let messages: Vec<_> = opened.iter().flat_map(DeviceOpenings::encoded).collect();
    let began = Instant::now();
    for message in messages {
        std::hint::black_box(opened::decoded(message)?);
    }
    Ok(began.elapsed())
}

fn report(n: u32, bytes: u64, times: &[VerifyTimes], decoded: &[Duration], rates: &[ThreadRates]) {
    let ms = |time: f64| time * 1e3;
    let of = |time: fn(&VerifyTimes) -> Duration| median(times.iter().map(|times| time(times).as_secs_f64()));
    let (all, samples, segments) = (of(VerifyTimes::all), of(|it| it.samples), of(|it| it.segments));
    let blake3 = bytes as f64 / median(rates.iter().map(|rates| rates.blake3_per_s));
    let read = bytes as f64 / median(rates.iter().map(|rates| rates.read_per_s));
    println!(
        "{n:5}  {:10.1}  {:10.1}  ({:7.1} + {:8.1})   {:9.1}  {:12.2}  {:8.2}  {:10.1}  {:10.1}",
        bytes as f64 / 1e6,
        ms(all),
        ms(samples),
        ms(segments),
        ms(blake3),
        all / blake3,
        ms(read),
        all / read,
        ms(median(decoded.iter().map(Duration::as_secs_f64)))
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
