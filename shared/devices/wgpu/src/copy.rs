//! Reading device memory back, piece by piece through memory that the host can map.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use ::wgpu::{Buffer, BufferUsages, COPY_BUFFER_ALIGNMENT, CommandEncoderDescriptor, MapMode};

use super::gpu::{CreationFailure, Gpu};
use super::memory::SlotPiece;
use assay_device::DeviceError;

/// Bytes of one copy.
const STAGING_BYTES: u64 = 4 << 20;
/// The state of a mapping: pending, done, failed.
const MAPPING: u8 = 0;
const MAPPED: u8 = 1;
const FAILED: u8 = 2;

/// Memory of the host that copies go through.
pub(super) struct Staging(Buffer);

impl Staging {
    pub(super) fn new(gpu: &Gpu) -> Result<Self, CreationFailure> {
        gpu.buffer("staging", STAGING_BYTES, BufferUsages::MAP_READ | BufferUsages::COPY_DST).map(Self)
    }

    /// Copies a piece from `first` on, as many bytes as `out` has, once all that was submitted before is done.
    pub(super) fn read(
        &self,
        gpu: &Gpu,
        stall_limit: Duration,
        piece: SlotPiece<'_>,
        first: u64,
        out: &mut [u8],
    ) -> Result<(), DeviceError> {
        assert!(first + out.len() as u64 <= piece.bytes, "bytes of the piece");
        let mut at = piece.first + first;
        let mut rest = out;
        while !rest.is_empty() {
            // Copies start and end at multiples of 4; a few bytes around are dropped.
            let before = at % COPY_BUFFER_ALIGNMENT;
            let bytes = (STAGING_BYTES - before).min(rest.len() as u64);
            let (part, after) = rest.split_at_mut(bytes as usize);
            let span = (before + bytes).next_multiple_of(COPY_BUFFER_ALIGNMENT);
            gpu.calling(|| {
                let mut encoder = gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
                encoder.copy_buffer_to_buffer(&piece.buffer.raw, at - before, &self.0, 0, span);
                gpu.queue.submit([encoder.finish()]);
            })?;
            self.take(gpu, stall_limit, span, before, part)?;
            at += bytes;
            rest = after;
        }
        Ok(())
    }

    fn take(
        &self,
        gpu: &Gpu,
        stall_limit: Duration,
        span: u64,
        before: u64,
        part: &mut [u8],
    ) -> Result<(), DeviceError> {
        let state = Arc::new(AtomicU8::new(MAPPING));
        let told = state.clone();
        let slice = self.0.slice(..span);
        slice.map_async(MapMode::Read, move |result| {
            told.store(if result.is_ok() { MAPPED } else { FAILED }, Ordering::Release);
        });
        gpu.wait_until(stall_limit, "copying to the host", || state.load(Ordering::Acquire) != MAPPING)?;
        gpu.check()?;
        if state.load(Ordering::Acquire) == FAILED {
            return Err(gpu.lose("memory of the host could not be mapped"));
        }
        let view = slice.get_mapped_range().map_err(|error| gpu.lose(&error.to_string()))?;
        part.copy_from_slice(&view[before as usize..before as usize + part.len()]);
        drop(view);
        self.0.unmap();
        Ok(())
    }
}
