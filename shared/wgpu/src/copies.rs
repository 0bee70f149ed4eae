//! The two areas that a burn-in copies to, within and from ([`assay_device::copies`]), by the host's clock: what wgpu
//! adds counts.

use std::time::{Duration, Instant};

use ::wgpu::CommandEncoderDescriptor;

use super::device::WgpuDevice;
use super::gpu::NotMade;
use super::memory::{DeviceBuffer, SlotPiece};
use super::plan;
use assay_device::DeviceError;
use assay_device::copies::Area;

/// Memory for copies, both of one length.
pub(super) struct CopyAreas {
    near: DeviceBuffer,
    far: DeviceBuffer,
}

impl WgpuDevice {
    pub(super) fn write_near(&mut self, data: &[u8]) -> Result<Duration, DeviceError> {
        let bytes = data.len() as u64;
        if self.areas.as_ref().is_none_or(|areas| areas.near.bytes != bytes) {
            // What is of another length goes first.
            self.areas = None;
            self.areas = Some(CopyAreas { near: self.take_area(bytes)?, far: self.take_area(bytes)? });
        }
        let areas = self.areas.as_ref().ok_or_else(no_areas)?;
        let start = Instant::now();
        self.gpu.calling(|| {
            self.gpu.queue.write_buffer(&areas.near.raw, 0, data);
            self.gpu.queue.submit([]);
        })?;
        self.gpu.idle(self.config.stall_limit, "copying from the host")?;
        Ok(start.elapsed())
    }

    pub(super) fn copy_near(&self) -> Result<Duration, DeviceError> {
        let areas = self.areas.as_ref().ok_or_else(no_areas)?;
        let start = Instant::now();
        self.gpu.calling(|| {
            let mut encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
            encoder.copy_buffer_to_buffer(&areas.near.raw, 0, &areas.far.raw, 0, areas.near.bytes);
            self.gpu.queue.submit([encoder.finish()]);
        })?;
        self.gpu.idle(self.config.stall_limit, "copying on the device")?;
        Ok(start.elapsed())
    }

    pub(super) fn read_back(&self, area: Area, out: &mut [u8]) -> Result<Duration, DeviceError> {
        let areas = self.areas.as_ref().filter(|areas| areas.near.bytes >= out.len() as u64).ok_or_else(no_areas)?;
        let from = if area == Area::Near { &areas.near } else { &areas.far };
        let start = Instant::now();
        self.staging.read(&self.gpu, self.config.stall_limit, SlotPiece::whole(from), 0, out)?;
        Ok(start.elapsed())
    }

    fn take_area(&mut self, bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        let free_bytes = self.free_bytes().saturating_sub(self.memory.held_bytes());
        let busy = DeviceError::Busy { needed_bytes: bytes, free_bytes };
        if bytes > plan::usable_bytes(free_bytes) {
            return Err(busy);
        }
        self.memory.other(&self.gpu, bytes).map_err(|error| match error {
            NotMade::OutOfMemory => busy,
            NotMade::Refused(why) => self.gpu.lose(&why),
        })
    }
}

fn no_areas() -> DeviceError {
    DeviceError::Unsupported("nothing so long was written to the areas of copies".into())
}
