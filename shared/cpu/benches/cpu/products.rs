//! Products and whole passes, as shares of the register-only rate.

use assay_cpu::CpuDevice;
use assay_device::measure::{Measured, Sample, Stage};
use assay_device::{Device, DeviceError, Handle, Pass};
use assay_work::PassKey;

use crate::peer::Peer;
use crate::{Settings, device, limits, median};

/// What the table shows of one size and number of threads, in Gop/s.
#[derive(Default)]
struct Rates {
    limit: Vec<f64>,
    products: Vec<f64>,
    pass: Vec<f64>,
    peer: Vec<f64>,
}

/// Prints the table.
pub fn section(settings: &Settings) {
    let mut peer = Peer::start();
    println!(
        "\nproducts with their mixing, and whole passes (leaves, products, mixing, digests), {} slots",
        settings.slots
    );
    println!("limit: vpdpbusd in registers; peer: {}", peer.as_ref().map_or("none (ASSAY_PEER)", |_| "s8·s8→s32 GEMM"));
    println!("    n  threads  limit Gop/s   product      of limit   pass of limit   peer of limit   product / peer");
    for &n in &settings.sizes {
        for &threads in &settings.threads {
            let rates = measure(settings, n, threads, peer.as_mut());
            print(n, threads, rates);
        }
    }
}

fn measure(settings: &Settings, n: u32, threads: usize, mut peer: Option<&mut Peer>) -> Rates {
    let volume = 2.0 * f64::from(n).powi(3);
    // Few slots for large matrices: their memory is the limit here, not the time.
    let count = settings.slots.min((12_u64 << 30).div_ceil(u64::from(n).pow(2)) as u32).max(3);
    let key = PassKey([7; 32]);
    let whole = Pass { key, n, offset: 0, count };
    let mut device = device(settings, threads, u64::MAX);
    let mut rates = Rates::default();
    let handle = Handle::default();
    fill(&mut device, &whole, &handle);
    for _ in 0..settings.rounds {
        rates.limit.extend(limits::multiply_gops(settings.clock, threads));
        let seconds = settings.clock.seconds(threads, || fill(&mut device, &whole, &handle));
        rates.pass.push(volume * f64::from(count - 2) / seconds / 1e9);
        rates.limit.extend(limits::multiply_gops(settings.clock, threads));
        let seconds = settings.clock.seconds(threads, || {
            products(&mut device, count - 2).unwrap_or_else(|e| fail(&e));
        });
        rates.products.push(volume * f64::from(count - 2) / seconds / 1e9);
        if let Some(peer) = peer.as_mut() {
            rates.peer.extend(peer.gops(n, threads));
        }
    }
    rates
}

/// Products alone, over the slots that the device holds, with the kernel that it has.
fn products(device: &mut CpuDevice, products: u32) -> Result<Sample, DeviceError> {
    let kernel = device.kernel_name();
    device.sample(Stage::Product, kernel, products)
}

fn print(n: u32, threads: usize, mut rates: Rates) {
    let product = median(&mut rates.products);
    let pass = median(&mut rates.pass);
    let limit = if rates.limit.is_empty() { f64::NAN } else { median(&mut rates.limit) };
    let peer = if rates.peer.is_empty() { f64::NAN } else { median(&mut rates.peer) };
    println!(
        "{n:5}  {threads:7}  {limit:11.0}  {product:8.0}  {:11.1} %  {:12.1} %  {:12.1} %  {:15.2}",
        100.0 * product / limit,
        100.0 * pass / limit,
        100.0 * peer / limit,
        product / peer,
    );
}

fn fill(device: &mut CpuDevice, pass: &Pass, handle: &Handle) {
    device.fill(pass, handle).unwrap_or_else(|e| fail(&e));
}

fn fail(error: &dyn std::error::Error) -> ! {
    eprintln!("{error}");
    std::process::exit(1);
}
