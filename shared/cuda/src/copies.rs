//! The two areas that a burn-in copies to, within and from ([`assay_device::copies`]), timed by the device's events.

use std::time::Duration;

use super::device::CudaDevice;
use super::driver::{CudaEvent, DeviceMemory, PinnedMemory};
use super::error::Fault;
use super::wait;
use assay_device::DeviceError;
use assay_device::copies::Area;

/// Memory for copies, all of one length.
#[derive(Debug)]
pub(super) struct CopyAreas {
    pinned: PinnedMemory,
    near: DeviceMemory,
    far: DeviceMemory,
}

impl CudaDevice {
    pub(super) fn write_near(&mut self, data: &[u8]) -> Result<Duration, DeviceError> {
        let mut areas = match self.areas.take() {
            Some(areas) if areas.pinned.bytes() == data.len() => areas,
            old => {
                // What is of another length goes first.
                drop(old);
                CopyAreas {
                    pinned: PinnedMemory::new(&self.context, data.len())?,
                    near: self.memory.take_other(data.len() as u64)?,
                    far: self.memory.take_other(data.len() as u64)?,
                }
            }
        };
        areas.pinned.as_mut_slice().copy_from_slice(data);
        let took = self.timed_copy(|| areas.near.copy_in(&self.compute, &areas.pinned));
        self.areas = Some(areas);
        took
    }

    pub(super) fn copy_near(&self) -> Result<Duration, DeviceError> {
        let areas = self.areas.as_ref().ok_or_else(no_areas)?;
        self.timed_copy(|| areas.near.copy_to(&self.compute, &areas.far, areas.near.bytes()))
    }

    pub(super) fn read_back(&self, area: Area, out: &mut [u8]) -> Result<Duration, DeviceError> {
        let areas = self.areas.as_ref().filter(|areas| areas.pinned.bytes() >= out.len()).ok_or_else(no_areas)?;
        let from = if area == Area::Near { &areas.near } else { &areas.far };
        let took = self.timed_copy(|| from.copy_out(&self.compute, 0, out.len(), &areas.pinned))?;
        out.copy_from_slice(&areas.pinned.as_slice()[..out.len()]);
        Ok(took)
    }

    /// The time between two marks around a copy, which is done after it.
    fn timed_copy(&self, enqueue: impl FnOnce() -> Result<(), Fault>) -> Result<Duration, DeviceError> {
        let (start, end) = (CudaEvent::new(&self.context)?, CudaEvent::new(&self.context)?);
        start.record(&self.compute)?;
        enqueue()?;
        end.record(&self.compute)?;
        let doing = || "copying".to_owned();
        wait::until(&self.context, self.config.stall_limit, None, doing, || end.is_done(doing))?;
        Ok(end.since(&start)?)
    }
}

fn no_areas() -> DeviceError {
    DeviceError::Unsupported("nothing so long was written to the areas of copies".into())
}
