//! Checks at a device's start-up: its shaders give the right results on this driver; of two kinds of products the faster
//! one is chosen.
//!
//! The worker's self-test sees matrices of n = 256 in one buffer, which touch half of the shaders. Checked here is the
//! other half: large tiles, trees of more than one workgroup, walks over several buffers and in groups of them. Walks in
//! subgroups are used only if they give the results of walks in single threads: the driver decides how invocations form
//! subgroups, and some report it wrongly.

use std::time::{Duration, Instant};

use super::device::WgpuDevice;
use super::error::WgpuError;
use super::kernels;
use super::plan::Bounds;
use super::shaders::Dot;
use assay_device::{Device, DeviceError, Handle, Pass, ProbeRound};
use assay_work::challenge::{MIN_COUNT, MIN_N};
use assay_work::digest::pass_root;
use assay_work::{Digest, PassKey, RoundKey};

/// The pass that is tried: its digests are of trees of several workgroups, and both kinds of tiles divide it.
const PASS: Pass = Pass { key: PassKey([1; 32]), n: 512, offset: 0, count: 6 };
/// Its root, as the reference gives it.
const ROOT: &str = "b4538b0b6773fd128073491119a45f149f7263cb037bddab05f480b9285e75b2";
/// How often it is timed. The first time also learns the device's rates.
const TRIES: u32 = 3;
/// The round that is tried.
const ROUND: ProbeRound = ProbeRound { key: RoundKey([2; 32]), walks: 512, steps: 3 };
/// A buffer for one slot of the smallest size, and one for all that are tried.
const SLOT_BYTES: u64 = MIN_N as u64 * MIN_N as u64;
const ALL_BYTES: u64 = 1 << 22;

impl WgpuDevice {
    /// Runs all checks. Nothing is resident afterwards.
    ///
    /// # Errors
    /// [`WgpuError::Refused`] when a shader gives wrong bits that nothing else can give, and what the device says.
    pub(super) fn qualify(&mut self) -> Result<(), WgpuError> {
        let device = self.description().title();
        let qualified = self.qualify_products().and_then(|()| self.qualify_walks());
        self.kernels.use_only(None);
        self.release();
        qualified.map_err(|why| match why {
            NotQualified::Bits(what) => {
                WgpuError::Refused { device, reason: format!("{what} give other bits on its driver than they must") }
            }
            NotQualified::Device(error) => WgpuError::Device { device, error },
            NotQualified::Shader(error) => error,
        })
    }

    fn qualify_products(&mut self) -> Result<(), NotQualified> {
        if kernels::chosen(self.config.dot, self.description()).is_none() {
            self.choose_products()?;
        }
        for (which, what) in [(0, "products in large tiles"), (1, "products in small tiles")] {
            self.kernels.use_only(Some(which));
            let digests = self.fill(&PASS, &Handle::default())?;
            if pass_root(&digests).to_string() != ROOT {
                return Err(NotQualified::Bits(what));
            }
        }
        Ok(())
    }

    /// Takes whichever kind of product is faster here.
    fn choose_products(&mut self) -> Result<(), NotQualified> {
        let plain = self.try_products()?;
        let spare = self.kernels.multiply_by(&self.gpu, Dot::Packed)?;
        let packed = self.try_products()?;
        tracing::debug!(device = %self.description().id, ?plain, ?packed, "products tried");
        if plain <= packed {
            self.kernels.take_products(Dot::Plain, spare);
        }
        Ok(())
    }

    /// The best time of a few small passes.
    fn try_products(&mut self) -> Result<Duration, DeviceError> {
        let mut best = Duration::MAX;
        for _ in 0..TRIES {
            let start = Instant::now();
            self.fill(&PASS, &Handle::default())?;
            best = best.min(start.elapsed());
        }
        Ok(best)
    }

    /// Walks over as many buffers as can be bound, and over one more, against walks over one.
    fn qualify_walks(&mut self) -> Result<(), NotQualified> {
        let buffers = self.bounds.slot_buffers;
        for count in [buffers.max(MIN_COUNT), (buffers + 1).max(MIN_COUNT)] {
            let mut subgroups = None;
            if self.kernels.has_quads() {
                subgroups = Some([self.try_walks(ALL_BYTES, count)?, self.try_walks(SLOT_BYTES, count)?]);
            }
            self.kernels.walk_in(false);
            let threads = [self.try_walks(ALL_BYTES, count)?, self.try_walks(SLOT_BYTES, count)?];
            if threads[0] != threads[1] {
                return Err(NotQualified::Bits("walks over several buffers"));
            }
            let Some(subgroups) = subgroups else { continue };
            self.kernels.walk_in(subgroups == threads);
            if subgroups != threads {
                let title = self.description().title();
                tracing::warn!("{title}: walks in subgroups give other bits than in threads, and are not used");
            }
        }
        Ok(())
    }

    /// A small round over so many small slots, in buffers of at most this size.
    fn try_walks(&mut self, buffer_bytes: u64, count: u32) -> Result<Digest, DeviceError> {
        let tried = Bounds { buffer_bytes: buffer_bytes.min(self.bounds.binding_bytes), ..self.bounds };
        let bounds = std::mem::replace(&mut self.bounds, tried);
        let handle = Handle::default();
        let pass = Pass { n: MIN_N, count, ..PASS };
        let walked = self.fill(&pass, &handle).and_then(|_| self.probe_round(&ROUND, &handle));
        self.bounds = bounds;
        walked
    }
}

/// Why a device is not offered.
enum NotQualified {
    /// These give wrong bits.
    Bits(&'static str),
    /// The device failed.
    Device(DeviceError),
    /// A shader was not taken.
    Shader(WgpuError),
}

impl From<DeviceError> for NotQualified {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl From<WgpuError> for NotQualified {
    fn from(error: WgpuError) -> Self {
        Self::Shader(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_device::reference::ReferenceDevice;
    use assay_work::DeviceId;

    #[test]
    fn the_root_is_the_references() {
        let mut reference = ReferenceDevice::new(DeviceId([1; 16]), "the reference", PASS.bytes());
        let digests = reference.fill(&PASS, &Handle::default()).unwrap();
        assert_eq!(pass_root(&digests).to_string(), ROOT);
    }
}
