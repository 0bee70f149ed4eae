//! `assay-miner work --slot`: the bytes of one slot, for finding where a device's bits differ from another's, and the
//! sums that they were made of.
//!
//! The device is opened in this process, without the test of its worker's start and the self-tests of its kernels,
//! which a device with wrong bits fails.

use assay_backends::HostConfig;
use assay_device::bench::Bench;
use assay_device::run::ShareTask;
use assay_device::{DeviceError, Handle, Pass};
use assay_program::exit::{Exit, Failure};
use assay_program::render::units::counted;
use assay_work::keys::parents;
use assay_work::product::dot;
use assay_work::{Challenge, Root};

/// The first slot that is a product.
const FIRST_PRODUCT: u32 = 2;

/// Computes the only share of a challenge on the first device, and reads a slot of its last iteration, and its sums
/// where they are wanted.
///
/// # Errors
/// Fails for a challenge of several shares, for a slot that the challenge has not or that is no product, without a
/// device, and where the device fails.
pub fn compute(
    mut host: HostConfig,
    challenge: &Challenge,
    slot: u32,
    with_sums: bool,
) -> anyhow::Result<(Vec<Root>, Vec<u8>, Vec<u8>)> {
    let wrong = |text: String| Failure::new(Exit::Usage, format!("--slot{text}"));
    let tasks = ShareTask::of(challenge);
    let [task] = &tasks[..] else {
        return Err(wrong(format!(
            ": the challenge has {}, and a slot is of one",
            counted(tasks.len() as u64, "share")
        ))
        .into());
    };
    if slot >= task.share.count {
        return Err(wrong(format!(" {slot}: the share has {} slots", task.share.count)).into());
    }
    if with_sums && slot < FIRST_PRODUCT {
        return Err(wrong(format!(" {slot}: a leaf has no sums")).into());
    }
    host.use_untested_kernels();
    let found = assay_bench::detect(&host).map_err(Failure::from)?;
    let first = found.first().ok_or_else(|| Failure::new(Exit::Config, "devices: there is none".to_owned()))?;
    let mut bench = host.open_bench(first, &|_| ())?;
    let roots = task.run(bench.device(), &Handle::default())?.roots;
    let before = roots.iter().rev().nth(1).copied().unwrap_or(Root::BEFORE_FIRST);
    let pass = task.pass(task.iterations - 1, &before);
    let bytes = read(bench.as_mut(), &pass, slot)?;
    let sums = if with_sums { sums(bench.as_mut(), &pass, slot)? } else { Vec::new() };
    Ok((roots, bytes, sums))
}

fn read(bench: &mut dyn Bench, pass: &Pass, slot: u32) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = vec![0; pass.n as usize * pass.n as usize];
    bench.device().read(slot, 0, &mut bytes)?;
    Ok(bytes)
}

/// The sums of a slot's product as the kernel forms them, then those of the operands that the device holds, both
/// row-major: doubles, little-endian.
fn sums(bench: &mut dyn Bench, pass: &Pass, slot: u32) -> Result<Vec<u8>, DeviceError> {
    let formed = bench.sums(pass, slot)?;
    let (earlier, previous) = parents(&pass.key, slot);
    let (left, right) = (read(bench, pass, earlier)?, read(bench, pass, previous)?);
    let (rows, columns) = (left.chunks_exact(pass.n as usize), right.chunks_exact(pass.n as usize));
    let exact = rows.flat_map(|x| columns.clone().map(move |y| f64::from(dot(pass.precision, x, y))));
    Ok(formed.into_iter().chain(exact).flat_map(f64::to_le_bytes).collect())
}
