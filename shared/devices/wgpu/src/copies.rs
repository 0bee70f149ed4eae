//! The two areas that a burn-in copies to, within and from ([`assay_device::copies`]), by the host's clock, wgpu's own
//! time included.

use std::time::{Duration, Instant};

use ::wgpu::CommandEncoderDescriptor;

use super::copy::Staging;
use super::gpu::Gpu;
use super::memory::{DeviceBuffer, SlotPiece};
use assay_device::DeviceError;
use assay_device::copies::Area;

/// Memory for copies, both of one length.
pub(super) struct CopyAreas {
    /// The one that the host writes.
    pub(super) near: DeviceBuffer,
    /// The one that the near one is copied to.
    pub(super) far: DeviceBuffer,
}

/// The device, staging memory and limit of copies.
#[derive(Clone, Copy)]
pub(super) struct Copier<'a> {
    pub(super) gpu: &'a Gpu,
    /// Memory of the host for the bytes read back.
    pub(super) staging: &'a Staging,
    /// The longest time of one copy.
    pub(super) stall_limit: Duration,
}

impl CopyAreas {
    pub(super) const fn bytes(&self) -> u64 {
        self.near.bytes
    }

    /// Copies bytes to the near area, as many as it has.
    pub(super) fn write(&self, copier: Copier<'_>, data: &[u8]) -> Result<Duration, DeviceError> {
        let Copier { gpu, stall_limit, .. } = copier;
        let start = Instant::now();
        gpu.calling(|| {
            gpu.queue.write_buffer(&self.near.raw, 0, data);
            gpu.queue.submit([]);
        })?;
        gpu.idle(stall_limit, "copying from the host")?;
        Ok(start.elapsed())
    }

    /// Copies the near area to the far one.
    pub(super) fn copy(&self, copier: Copier<'_>) -> Result<Duration, DeviceError> {
        let Copier { gpu, stall_limit, .. } = copier;
        let start = Instant::now();
        gpu.calling(|| {
            let mut encoder = gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
            encoder.copy_buffer_to_buffer(&self.near.raw, 0, &self.far.raw, 0, self.near.bytes);
            gpu.queue.submit([encoder.finish()]);
        })?;
        gpu.idle(stall_limit, "copying on the device")?;
        Ok(start.elapsed())
    }

    /// Copies the start of an area to the host.
    ///
    /// # Panics
    /// When `out` is longer.
    pub(super) fn read(&self, copier: Copier<'_>, area: Area, out: &mut [u8]) -> Result<Duration, DeviceError> {
        let from = if area == Area::Near { &self.near } else { &self.far };
        let start = Instant::now();
        copier.staging.read(copier.gpu, copier.stall_limit, SlotPiece::whole(from), 0, out)?;
        Ok(start.elapsed())
    }
}
