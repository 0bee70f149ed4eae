//! `assay-miner work --slot`: the bytes of one slot, for finding where a device's bits differ from another's.
//!
//! The device is opened in this process and without the test of its worker's start, which a device with wrong bits fails.

use assay_device::Handle;
use assay_device::run::ShareTask;
use assay_devices::HostConfig;
use assay_program::exit::{Exit, Failure};
use assay_work::{Challenge, Root};

/// Computes the only share of a challenge on the first device, and reads a slot of its last iteration.
///
/// # Errors
/// A challenge of several shares, a slot that it has not; no device, or the device's.
pub fn compute(host: &HostConfig, challenge: &Challenge, slot: u32) -> anyhow::Result<(Vec<Root>, Vec<u8>)> {
    let tasks = ShareTask::of(challenge);
    let [task] = &tasks[..] else {
        let text = format!("--slot: the challenge has {} shares, and a slot is of one", tasks.len());
        return Err(Failure::new(Exit::Usage, text).into());
    };
    if slot >= task.share.count {
        let text = format!("--slot {slot}: the share has {} slots", task.share.count);
        return Err(Failure::new(Exit::Usage, text).into());
    }
    let found = assay_bench::detect(host).map_err(|error| Failure::because(Exit::Config, "devices", error))?;
    let first = found.first().ok_or_else(|| Failure::new(Exit::Config, "devices: there is none".to_owned()))?;
    let mut bench = host.open_bench(first, &|_| ())?;
    let result = task.run(bench.device(), &Handle::default())?;
    let mut bytes = vec![0; task.n as usize * task.n as usize];
    bench.device().read(slot, 0, &mut bytes)?;
    Ok((result.roots, bytes))
}
