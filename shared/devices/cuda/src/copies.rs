//! The two areas that a burn-in copies to, within and from ([`assay_device::copies`]), timed by the device's events.

use std::sync::Arc;
use std::time::Duration;

use super::driver::{Context, CudaEvent, DeviceMemory, PinnedMemory, Stream};
use super::error::Fault;
use super::memory::Memory;
use super::wait;
use assay_device::DeviceError;
use assay_device::copies::Area;

/// The context, stream and limit of copies.
#[derive(Clone, Copy)]
pub(super) struct Copier<'a> {
    /// The context, which is bound.
    pub(super) context: &'a Arc<Context>,
    /// The stream for the copies.
    pub(super) stream: &'a Stream,
    /// The longest time of one copy.
    pub(super) stall_limit: Duration,
}

/// Memory for copies, all of one length.
#[derive(Debug)]
pub(super) struct CopyAreas {
    pinned: PinnedMemory,
    near: DeviceMemory,
    far: DeviceMemory,
}

impl CopyAreas {
    /// Takes areas of `bytes` bytes each, beside the memory in use.
    pub(super) fn take(copier: Copier<'_>, memory: &Memory, bytes: usize) -> Result<Self, DeviceError> {
        let pinned = PinnedMemory::new(copier.context, bytes)?;
        Ok(Self { pinned, near: memory.take_other(bytes as u64)?, far: memory.take_other(bytes as u64)? })
    }

    pub(super) const fn bytes(&self) -> usize {
        self.pinned.bytes()
    }

    /// Copies bytes to the near area, as many as it has.
    pub(super) fn write(&mut self, copier: Copier<'_>, data: &[u8]) -> Result<Duration, DeviceError> {
        self.pinned.as_mut_slice().copy_from_slice(data);
        copier.timed(|| self.near.copy_in(copier.stream, &self.pinned, data.len()))
    }

    /// Copies the near area to the far one.
    pub(super) fn copy(&self, copier: Copier<'_>) -> Result<Duration, DeviceError> {
        copier.timed(|| self.near.copy_to(copier.stream, &self.far, self.near.bytes()))
    }

    /// Copies the start of an area to the host.
    ///
    /// # Panics
    /// When `out` is longer.
    pub(super) fn read(&self, copier: Copier<'_>, area: Area, out: &mut [u8]) -> Result<Duration, DeviceError> {
        let from = if area == Area::Near { &self.near } else { &self.far };
        let took = copier.timed(|| from.copy_out(copier.stream, 0, out.len(), &self.pinned))?;
        out.copy_from_slice(&self.pinned.as_slice()[..out.len()]);
        Ok(took)
    }
}

impl Copier<'_> {
    /// The time between two marks around a copy, which is done after it.
    fn timed(&self, enqueue: impl FnOnce() -> Result<(), Fault>) -> Result<Duration, DeviceError> {
        let (start, end) = (CudaEvent::new(self.context)?, CudaEvent::new(self.context)?);
        start.record(self.stream)?;
        enqueue()?;
        end.record(self.stream)?;
        let doing = || "copying".to_owned();
        wait::until(self.context, self.stall_limit, None, doing, || end.is_done(doing))?;
        Ok(end.since(&start)?)
    }
}
