//! Sources of random draws: the operating system, or a seed where a simulation must replay.

use assay_protocol::identity::random_bytes;

/// A source of random bytes, the only one that draws use.
pub trait Entropy: Send {
    /// 32 fresh bytes.
    ///
    /// # Errors
    /// The error of the source, when it has no bytes.
    fn bytes(&mut self) -> Result<[u8; 32], EntropyError>;

    /// A number below `bound`, uniform.
    ///
    /// # Errors
    /// As [`Entropy::bytes`].
    ///
    /// # Panics
    /// When `bound` is 0.
    fn below(&mut self, bound: u64) -> Result<u64, EntropyError> {
        assert!(bound > 0, "nothing lies below 0");
        // Draws at or above the largest multiple of the bound are thrown away: at most every second one.
        let limit = u64::MAX - (u64::MAX % bound + 1) % bound;
        loop {
            let mut draw = [0; 8];
            draw.copy_from_slice(&self.bytes()?[..8]);
            let draw = u64::from_le_bytes(draw);
            if draw <= limit {
                return Ok(draw % bound);
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no random bytes: {0}")]
pub struct EntropyError(pub String);

/// The operating system's random source.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn bytes(&mut self) -> Result<[u8; 32], EntropyError> {
        random_bytes().map_err(EntropyError)
    }
}

/// A deterministic source: the output of BLAKE3, which is as hard to foretell as its seed.
#[derive(Debug, Clone)]
pub struct SeededEntropy(blake3::OutputReader);

impl SeededEntropy {
    /// The same bytes for the same seed: for simulations and tests, never for a daemon.
    pub fn new(seed: u64) -> Self {
        Self::seeded(&seed.to_le_bytes())
    }

    /// The bytes of a seed that another source gives once: for hundreds of draws, each of which would be a system call.
    ///
    /// # Errors
    /// As [`Entropy::bytes`].
    pub fn expanding(seed: &mut dyn Entropy) -> Result<Self, EntropyError> {
        Ok(Self::seeded(&seed.bytes()?))
    }

    fn seeded(seed: &[u8]) -> Self {
        Self(blake3::Hasher::new().update(seed).finalize_xof())
    }
}

impl Entropy for SeededEntropy {
    fn bytes(&mut self) -> Result<[u8; 32], EntropyError> {
        let mut bytes = [0; 32];
        self.0.fill(&mut bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_uniform_below_the_bound() {
        let mut entropy = SeededEntropy::new(1);
        let mut seen = [0_u32; 5];
        for _ in 0..5000 {
            seen[entropy.below(5).unwrap() as usize] += 1;
        }
        // Five standard deviations around 1000.
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        assert_eq!(entropy.below(1).unwrap(), 0);
    }

    #[test]
    fn a_seed_is_asked_for_once_and_every_byte_of_it_decides_the_draws() {
        struct Seed([u8; 32], u32);
        impl Entropy for Seed {
            fn bytes(&mut self) -> Result<[u8; 32], EntropyError> {
                self.1 += 1;
                Ok(self.0)
            }
        }
        let drawn: std::collections::BTreeSet<Vec<u64>> = (0..32)
            .map(|place| {
                let mut seed = Seed([0; 32], 0);
                seed.0[place] = 1;
                let mut entropy = SeededEntropy::expanding(&mut seed).unwrap();
                let drawn = (0..100).map(|_| entropy.below(1 << 32).unwrap()).collect();
                assert_eq!(seed.1, 1);
                drawn
            })
            .collect();
        assert_eq!(drawn.len(), 32);
    }

    #[test]
    fn the_limit_is_the_last_number_of_a_whole_run() {
        // A source that gives one number above the limit, then one below it.
        struct Fixed(Vec<u64>);
        impl Entropy for Fixed {
            fn bytes(&mut self) -> Result<[u8; 32], EntropyError> {
                let mut bytes = [0; 32];
                bytes[..8].copy_from_slice(&self.0.remove(0).to_le_bytes());
                Ok(bytes)
            }
        }
        // 2^64 = 5k + 1: the one number u64::MAX is left over.
        assert_eq!(Fixed(vec![u64::MAX, 7]).below(5).unwrap(), 2);
        assert_eq!(Fixed(vec![u64::MAX - 1]).below(5).unwrap(), (u64::MAX - 1) % 5);
        assert_eq!(Fixed(vec![u64::MAX]).below(1 << 32).unwrap(), u64::from(u32::MAX));
    }
}
