//! The few devices that all miners of a load share.
//!
//! A challenge has one to itself from its work to its end, under the name that the miner gave its own device.

use std::sync::{Arc, Mutex, PoisonError};

use assay_cpu::{CpuConfig, CpuConfigError, devices};
use assay_device::{
    Device, DeviceError, DeviceInfo, Handle, Pass, ProbeRound, ProbeRounds, SlotRange, SweepRound, SweepRounds,
};
use assay_work::{DeviceId, Digest, Opening};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Processor devices of one thread each.
#[derive(Clone)]
pub struct SharedDevices {
    idle: Arc<Mutex<Vec<Box<dyn Device>>>>,
    free: Arc<Semaphore>,
}

/// One of them, for one challenge of one miner. Dropped, it is free for another.
pub struct LentDevice {
    id: DeviceId,
    /// There until it is dropped.
    device: Option<Box<dyn Device>>,
    idle: Arc<Mutex<Vec<Box<dyn Device>>>>,
    _permit: OwnedSemaphorePermit,
}

impl SharedDevices {
    /// `count` devices with `memory_bytes` each.
    pub fn new(count: usize, memory_bytes: u64) -> Result<Self, CpuConfigError> {
        let one = CpuConfig { devices: 1, memory_bytes: vec![memory_bytes], threads: vec![1], ..CpuConfig::default() };
        let mut idle: Vec<Box<dyn Device>> = Vec::with_capacity(count);
        for _ in 0..count {
            idle.extend(devices(&one)?.into_iter().map(|device| Box::new(device) as Box<dyn Device>));
        }
        Ok(Self { free: Arc::new(Semaphore::new(idle.len())), idle: Arc::new(Mutex::new(idle)) })
    }

    /// Waits for a device, which is called `id` from then on. `None` when no device is left.
    pub async fn lend(&self, id: DeviceId) -> Option<LentDevice> {
        let permit = self.free.clone().acquire_owned().await.ok()?;
        let device = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(LentDevice { id, device: Some(device), idle: self.idle.clone(), _permit: permit })
    }
}

impl LentDevice {
    fn device(&mut self) -> &mut dyn Device {
        self.device.as_deref_mut().expect("it is there until it is dropped")
    }
}

impl Drop for LentDevice {
    fn drop(&mut self) {
        // The permit is given back after the device: the task that takes it finds a device.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.device.take());
    }
}

impl Device for LentDevice {
    fn info(&self) -> DeviceInfo {
        let own = self.device.as_deref().expect("it is there until it is dropped").info();
        DeviceInfo { id: self.id, ..own }
    }

    fn slots_that_fit(&self, n: u32) -> u32 {
        self.device.as_ref().map_or(0, |device| device.slots_that_fit(n))
    }

    fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        self.device().fill(pass, handle)
    }

    fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        self.device().probe_round(round, handle)
    }

    fn probe_rounds(&mut self, probe: &ProbeRounds, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        self.device().probe_rounds(probe, handle)
    }

    fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError> {
        self.device().probe_states()
    }

    fn sweep_rounds(&mut self, sweep: &SweepRounds, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        self.device().sweep_rounds(sweep, handle)
    }

    fn open_sums(&mut self, round: &SweepRound, at: &[u64], handle: &Handle) -> Result<Vec<Opening>, DeviceError> {
        self.device().open_sums(round, at, handle)
    }

    fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.device().read(slot, first_byte, out)
    }

    fn read_all(&mut self, ranges: &[SlotRange]) -> Result<Vec<u8>, DeviceError> {
        self.device().read_all(ranges)
    }

    fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<[u8; 32]>, DeviceError> {
        self.device().chaining_values(slot, subtree_bytes)
    }

    /// Its memory stays for the next challenge, whichever miner's that is.
    fn release(&mut self) {}
}
