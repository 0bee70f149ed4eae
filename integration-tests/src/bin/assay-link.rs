//! A link between two network namespaces, for kernels without netem: delay, loss, rates and a bounded queue.
//!
//! It makes two TUN devices. The caller moves each into a namespace and gives it an address; packets then pass between
//! the two through here. `scripts/link-test` shows how. A line on standard input changes it: `down` loses everything
//! from then on, `up` ends that; at the end of input it prints its counts, and ends.

use std::fs::File;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use assay_integration_tests::tun;
use clap::Parser;

/// The largest packet of a TUN device.
const MAX_PACKET_BYTES: usize = 65_536;

/// Connects two TUN devices by a slow link that loses packets
#[derive(Debug, Clone, Parser)]
#[command(name = "assay-link", version)]
struct Cli {
    /// The names of the two devices; the first one is the side of the miner
    #[arg(long, num_args = 2, default_values = ["assay-link-a", "assay-link-b"])]
    devices: Vec<String>,
    /// From the first device to the second, in bits per second; 0: no limit
    #[arg(long, default_value_t = 1_000_000)]
    up: u64,
    /// From the second device to the first, in bits per second; 0: no limit
    #[arg(long, default_value_t = 8_000_000)]
    down: u64,
    /// Time on the way in each direction, in milliseconds
    #[arg(long, default_value_t = 150)]
    delay_ms: u64,
    /// Packets lost in each direction, in percent
    #[arg(long, default_value_t = 1.0)]
    loss: f64,
    /// Milliseconds that packets wait in front of the link in each direction; more are dropped
    #[arg(long, default_value_t = 300)]
    queue_ms: u64,
    /// The seed of the losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Counts of packets in one direction.
#[derive(Debug, Default)]
struct Counts {
    passed: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    dropped: AtomicU64,
}

/// One direction of the link, as it takes packets.
struct Direction {
    bits_per_s: u64,
    delay: Duration,
    longest_wait: Duration,
    loss: f64,
    draws: u64,
    /// When the last packet has left the queue.
    free_at: Instant,
    is_down: Arc<AtomicBool>,
    counts: Arc<Counts>,
}

impl Direction {
    /// When a packet of `bytes` arrives; `None` where it is lost.
    fn arrival(&mut self, bytes: usize, now: Instant) -> Option<Instant> {
        let starts = self.free_at.max(now);
        if starts - now > self.longest_wait {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.free_at = match self.bits_per_s {
            0 => starts,
            rate => starts + Duration::from_secs_f64(8.0 * bytes as f64 / rate as f64),
        };
        // A lost packet was sent: it takes its time on the link too.
        if self.draw() < self.loss || self.is_down.load(Ordering::Relaxed) {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.counts.passed.fetch_add(1, Ordering::Relaxed);
        self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Some(self.free_at + self.delay)
    }

    /// A number below one (SplitMix64).
    fn draw(&mut self) -> f64 {
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.draws;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A packet on its way.
type Packet = (Instant, Vec<u8>);

fn take(mut from: File, mut direction: Direction, on_the_way: Sender<Packet>) {
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    // A device that is gone ends the link.
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        if let Some(at) = direction.arrival(bytes, Instant::now())
            && on_the_way.send((at, buffer[..bytes].to_vec())).is_err()
        {
            return;
        }
    }
}

fn deliver(mut to: File, on_the_way: Receiver<Packet>) {
    for (at, packet) in on_the_way {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        // A device that is down takes no packet; the link goes on.
        let _ = to.write(&packet);
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}: it needs /dev/net/tun, and CAP_NET_ADMIN");
            ExitCode::from(74)
        }
    }
}

fn run(cli: &Cli) -> std::io::Result<()> {
    let (a, b) = (tun::open(&cli.devices[0])?, tun::open(&cli.devices[1])?);
    let is_down = Arc::new(AtomicBool::new(false));
    let (up, down) = (Arc::new(Counts::default()), Arc::new(Counts::default()));
    let direction = |bits_per_s, seed, counts: &Arc<Counts>| Direction {
        bits_per_s,
        delay: Duration::from_millis(cli.delay_ms),
        longest_wait: Duration::from_millis(cli.queue_ms),
        loss: cli.loss / 100.0,
        draws: seed,
        free_at: Instant::now(),
        is_down: is_down.clone(),
        counts: counts.clone(),
    };
    for (from, to, direction) in [
        (a.try_clone()?, b.try_clone()?, direction(cli.up, cli.seed, &up)),
        (b, a, direction(cli.down, !cli.seed, &down)),
    ] {
        let (sender, receiver) = channel();
        thread::spawn(move || take(from, direction, sender));
        thread::spawn(move || deliver(to, receiver));
    }
    println!("{} {}", cli.devices[0], cli.devices[1]);
    for line in std::io::stdin().lines() {
        match line?.trim() {
            "down" => is_down.store(true, Ordering::Relaxed),
            "up" => is_down.store(false, Ordering::Relaxed),
            other => eprintln!("neither up nor down: {other}"),
        }
    }
    for (name, counts) in [("up", up), ("down", down)] {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        println!(
            "{name}: {} packets, {} bytes passed; {} lost, {} dropped in front of the link",
            count(&counts.passed),
            count(&counts.bytes),
            count(&counts.lost),
            count(&counts.dropped)
        );
    }
    Ok(())
}
