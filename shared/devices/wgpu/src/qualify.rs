//! Checks at a device's start-up: its shaders give the right results on this driver; of two kinds of products the faster
//! one is chosen.
//!
//! The worker's self-test sees matrices of n = 256 in one buffer, which touch half of the shaders. Checked here is the
//! other half: large tiles, trees of more than one workgroup, walks over several buffers and in groups of them, sums. Walks in
//! subgroups are used only if they give the results of walks in single threads: the driver decides how invocations form
//! subgroups, and some report it wrongly.

use std::time::{Duration, Instant};

use super::config::DotChoice;
use super::device::WgpuDevice;
use super::error::WgpuError;
use super::kernels;
use super::plan::AdapterBounds;
use super::shaders::Dot;
use assay_device::{Device, DeviceError, Handle, Pass, ProbeRound, SweepRound};
use assay_work::challenge::{MIN_COUNT, MIN_N};
use assay_work::digest::pass_root;
use assay_work::{Digest, PassKey, Precision, RoundKey};

/// The pass that is tried: its digests are of trees of several workgroups, and both kinds of tiles divide it.
const PASS: Pass = Pass { precision: Precision::Int8, key: PassKey([1; 32]), n: 512, offset: 0, count: 6 };
/// The passes to compare with the reference, in tiles of both kinds, each with its root.
const PASSES: [(Pass, &str); 6] = [
    (PASS, "b4538b0b6773fd128073491119a45f149f7263cb037bddab05f480b9285e75b2"),
    (small_pass(Precision::F16), "b98e58c7d06038b658968f7210277c8100af435fdac30046e967613b7413d90c"),
    (small_pass(Precision::Fp8), "a903c89a1a0891d88b8b26c8a82312a10cc9f5f512f686faafed023855a89280"),
    (small_pass(Precision::Fp4), "40a08deb27b8711a8d2a812a325e0781e0d02f74428b874cd4f872f340e9db0e"),
    (small_pass(Precision::Field), "466d0579eb5232f70ebcd2fc24fffab77f14dc45fb4b0eb0fef1510369bb29a1"),
    (small_pass(Precision::Network), "6f96188878c7f77684daa6a425d0e59e5243633b79419284836804f942001cc6"),
];
/// How often it is timed. The first time also learns the device's rates.
const TRIES: u32 = 3;
/// The sweep over [`PASS`], and its digest.
const SWEEP: SweepRound = SweepRound { key: RoundKey([2; 32]), n: PASS.n, count: PASS.count };
const SUMS: &str = "70164fe5b8dcc7e698d7a4f853cd64eb2ab49e1f88cc54618789f962e6f351e8";
const ROUND: ProbeRound = ProbeRound { key: RoundKey([2; 32]), walks: 512, steps: 3 };
/// A buffer for one slot of the smallest size, and one for all that are tried.
const SLOT_BYTES: u64 = MIN_N as u64 * MIN_N as u64;
const ALL_BYTES: u64 = 1 << 22;

/// A pass of another kind of work: its products read operands that were written out.
const fn small_pass(precision: Precision) -> Pass {
    Pass { precision, n: MIN_N, ..PASS }
}

impl WgpuDevice {
    /// Runs all checks. Nothing is resident afterwards.
    ///
    /// # Errors
    /// [`WgpuError::Refused`] when a shader gives wrong bits and nothing replaces it; else the device's.
    pub(super) fn qualify(&mut self) -> Result<(), WgpuError> {
        let device = self.description().title();
        let qualified = self.qualify_products().and_then(|()| self.qualify_walks()).and_then(|()| self.qualify_sweep());
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
            self.choose_of(Precision::Int8, [Dot::Plain, Dot::Packed])?;
        }
        if self.tries_floats() && self.has_exact_sums(Precision::F16, Dot::Float)? {
            self.choose_of(Precision::F16, [Dot::Wide, Dot::Float])?;
        }
        self.qualify_cooperative()?;
        for (which, what) in [(0, "products in large tiles"), (1, "products in small tiles")] {
            self.kernels.use_only(Some(which));
            for (pass, root) in PASSES {
                self.qualify_pass(&pass, root, what)?;
            }
        }
        Ok(())
    }

    /// Takes cooperative matrices where they were asked for and are exact, or the fastest was asked for and they are that.
    fn qualify_cooperative(&mut self) -> Result<(), NotQualified> {
        if self.kernels.cooperative().is_none() {
            if self.config.dot == DotChoice::Cooperative {
                let title = self.description().title();
                tracing::warn!("{title}: no cooperative matrices of half floats with FP32 sums, and none are used");
            }
            return Ok(());
        }
        for precision in Precision::OF_BYTES.into_iter().filter(|kind| Dot::of(*kind).contains(&Dot::Cooperative)) {
            if !self.has_exact_sums(precision, Dot::Cooperative)? {
                continue;
            }
            if self.config.dot == DotChoice::Cooperative {
                self.kernels.multiply_by(precision, Dot::Cooperative);
                continue;
            }
            match self.choose_of(precision, [self.kernels.dot(precision), Dot::Cooperative]) {
                Err(NotQualified::Device(DeviceError::Unsupported(why))) => self.leave_matrices(precision, &why),
                other => other?,
            }
        }
        Ok(())
    }

    /// Multiplies a kind of work in no cooperative matrices any more.
    fn leave_matrices(&mut self, precision: Precision, why: &str) {
        self.kernels.leave_matrices(precision);
        self.float_sums.refute(precision, Dot::Cooperative, why);
        tracing::warn!("{}: {precision} in no cooperative matrices: {why}", self.description().title());
    }

    /// A kind of work other than INT8 whose bits are wrong, or whose shaders the driver does not take, is not offered;
    /// before that, one in cooperative matrices multiplies another way.
    fn qualify_pass(&mut self, pass: &Pass, root: &str, what: &'static str) -> Result<(), NotQualified> {
        let kind = pass.precision;
        if !self.precisions.contains(&kind) {
            return Ok(());
        }
        let filled = self.fill(pass, &Handle::default());
        let why = match &filled {
            Ok(digests) if pass_root(digests).to_string() == root => return Ok(()),
            Ok(_) => format!("{what} give other bits on its driver than they must"),
            Err(DeviceError::Unsupported(why)) => why.clone(),
            Err(error) => return Err(error.clone().into()),
        };
        if self.kernels.dot(kind) == Dot::Cooperative {
            self.leave_matrices(kind, &why);
            return self.qualify_pass(pass, root, what);
        }
        if kind == Precision::Int8 {
            return Err(filled.map_or_else(Into::into, |_| NotQualified::Bits(what)));
        }
        self.precisions.retain(|offered| *offered != kind);
        tracing::warn!("{}: {kind} is not offered: {why}", self.description().title());
        Ok(())
    }

    /// Whether float products are examined, and tried where they are exact. A software adapter multiplies integers no
    /// slower.
    fn tries_floats(&self) -> bool {
        match self.config.dot {
            DotChoice::Fastest => true,
            DotChoice::Auto | DotChoice::Cooperative => !self.description().software,
            DotChoice::Packed | DotChoice::Plain => false,
        }
    }

    /// Takes whichever of two ways to multiply is faster here, the first where they are equal.
    fn choose_of(&mut self, precision: Precision, dots: [Dot; 2]) -> Result<(), NotQualified> {
        let [first, second] = [self.try_products(precision, dots[0])?, self.try_products(precision, dots[1])?];
        tracing::debug!(device = %self.description().id, ?dots, ?first, ?second, "products tried");
        self.kernels.multiply_by(precision, if first <= second { dots[0] } else { dots[1] });
        Ok(())
    }

    /// The best time of a few small passes.
    fn try_products(&mut self, precision: Precision, dot: Dot) -> Result<Duration, DeviceError> {
        self.kernels.multiply_by(precision, dot);
        let mut best = Duration::MAX;
        for _ in 0..TRIES {
            let start = Instant::now();
            self.fill(&Pass { precision, ..PASS }, &Handle::default())?;
            best = best.min(start.elapsed());
        }
        Ok(best)
    }

    /// Walks over as many buffers as can be bound, and over one more, against walks over one; and walks in subgroups against
    /// walks in threads.
    fn qualify_walks(&mut self) -> Result<(), NotQualified> {
        let buffers = self.bounds.slot_buffers;
        let mut subgroups = self.kernels.has_quads();
        for count in [buffers.max(MIN_COUNT), (buffers + 1).max(MIN_COUNT)] {
            let [one, several] =
                [self.try_walks(ALL_BYTES, count, subgroups)?, self.try_walks(SLOT_BYTES, count, subgroups)?];
            if one[0] != several[0] {
                return Err(NotQualified::Bits("walks over several buffers"));
            }
            if [one[1], several[1]] != [one[0]; 2] {
                let title = self.description().title();
                tracing::warn!("{title}: walks in subgroups give other bits than in threads, and are not used");
                subgroups = false;
            }
        }
        self.kernels.walk_in(subgroups);
        Ok(())
    }

    /// A small round over `count` small slots, in buffers of at most `buffer_bytes`: in threads, and in subgroups where
    /// walks may go in them.
    fn try_walks(&mut self, buffer_bytes: u64, count: u32, subgroups: bool) -> Result<[Digest; 2], DeviceError> {
        self.over_buffers(buffer_bytes, &Pass { n: MIN_N, count, ..PASS }, |device| {
            let threads = device.try_round(false)?;
            Ok([threads, if subgroups { device.try_round(true)? } else { threads }])
        })
    }

    /// Sums of rows in one buffer, and in several for each slot.
    fn qualify_sweep(&mut self) -> Result<(), NotQualified> {
        for buffer_bytes in [ALL_BYTES, SLOT_BYTES] {
            let digest =
                self.over_buffers(buffer_bytes, &PASS, |device| device.sweep_round(&SWEEP, &Handle::default()));
            if digest?.to_string() != SUMS {
                return Err(NotQualified::Bits("sums of rows"));
            }
        }
        Ok(())
    }

    /// Fills in buffers of at most `buffer_bytes`, and tries the slots.
    fn over_buffers<T>(
        &mut self,
        buffer_bytes: u64,
        pass: &Pass,
        tried: impl FnOnce(&mut Self) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let bounds = AdapterBounds { buffer_bytes: buffer_bytes.min(self.bounds.binding_bytes), ..self.bounds };
        let bounds = std::mem::replace(&mut self.bounds, bounds);
        let result = self.fill(pass, &Handle::default()).and_then(|_| tried(self));
        self.bounds = bounds;
        result
    }

    fn try_round(&mut self, subgroups: bool) -> Result<Digest, DeviceError> {
        self.kernels.walk_in(subgroups);
        self.prepare_probe(&self.resident()?)?;
        self.probe_round(&ROUND, &Handle::default())
    }
}

enum NotQualified {
    /// The named shaders give wrong bits.
    Bits(&'static str),
    Device(DeviceError),
    /// The driver did not take a shader.
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
    use crate::{PRECISIONS, WgpuConfig};
    use assay_kits::reference::ReferenceDevice;
    use assay_work::DeviceId;

    /// A device whose matrices give other bits in a pass than in the self-test multiplies another way, and keeps to that.
    #[test]
    #[ignore = "needs a driver with cooperative matrices: scripts/check-cooperative"]
    fn cooperative_matrices_that_give_other_bits_are_left() {
        let adapter = crate::detect(&[]).unwrap().into_iter().find(|adapter| adapter.refusal.is_none()).unwrap();
        let config = WgpuConfig { memory_bytes: Some(256 << 20), dot: DotChoice::Cooperative, ..WgpuConfig::default() };
        let mut device = crate::open(adapter.id, config, &mut |_| ()).unwrap();
        let other = small_pass(Precision::Fp8);
        for kind in [Precision::Int8, Precision::F16] {
            assert_eq!(device.kernels(kind)[0], "cooperative");
            let pass = Pass { precision: kind, ..PASS };
            // The root of another pass: to the device, its own is wrong, whichever way it multiplies.
            let qualified = device.qualify_pass(&pass, PASSES[2].1, "a test");
            assert_eq!(qualified.is_err(), kind == Precision::Int8);
            assert_eq!(device.precisions.contains(&kind), kind == Precision::Int8);
            assert!(!device.kernels(kind).contains(&"cooperative".to_owned()), "{kind}");
            assert!(device.choose_kernel(kind, "cooperative").is_err(), "{kind}");
            let found = device.info().units.into_iter().find(|unit| unit.precision == kind).unwrap();
            assert_eq!(found.failed.as_deref(), Some("a test give other bits on its driver than they must"));
        }
        assert_eq!(device.kernels(Precision::Fp8)[0], "cooperative");
        assert!(device.qualify_pass(&other, PASSES[2].1, "a test").is_ok());
    }

    #[test]
    fn the_roots_are_the_references() {
        let mut reference = ReferenceDevice::new(DeviceId([1; 16]), "the reference", PASS.bytes());
        for (pass, root) in PASSES {
            let digests = reference.fill(&pass, &Handle::default()).unwrap();
            assert_eq!(pass_root(&digests).to_string(), root, "{}", pass.precision);
        }
        reference.fill(&PASS, &Handle::default()).unwrap();
        assert_eq!(reference.sweep_round(&SWEEP, &Handle::default()).unwrap().to_string(), SUMS);
        assert_eq!(PASSES.map(|(pass, _)| pass.precision), PRECISIONS);
    }
}
