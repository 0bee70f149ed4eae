//! Sources of random draws: the operating system, or a seed where a simulation must replay.

use std::sync::{Arc, Mutex, PoisonError};

use assay_protocol::identity::random_bytes;

/// Bytes of a block: 32 draws.
pub const BLOCK_BYTES: usize = 1024;

/// A source of random bytes, the only one that draws use.
pub trait Entropy: Send {
    /// 32 fresh bytes.
    ///
    /// # Errors
    /// The error of the source, when it has no bytes.
    fn bytes(&mut self) -> Result<[u8; 32], EntropyError>;

    /// As many fresh bytes as several draws take.
    ///
    /// # Errors
    /// As [`Entropy::bytes`].
    fn block(&mut self) -> Result<[u8; BLOCK_BYTES], EntropyError> {
        let mut block = [0; BLOCK_BYTES];
        for part in block.chunks_exact_mut(32) {
            part.copy_from_slice(&self.bytes()?);
        }
        Ok(block)
    }

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

    fn block(&mut self) -> Result<[u8; BLOCK_BYTES], EntropyError> {
        random_bytes().map_err(EntropyError)
    }
}

/// The bytes of another source, asked for many at a time: a challenge takes hundreds of draws.
pub struct BlockEntropy<'a> {
    from: &'a mut dyn Entropy,
    block: [u8; BLOCK_BYTES],
    used: usize,
}

impl<'a> BlockEntropy<'a> {
    pub fn new(from: &'a mut dyn Entropy) -> Self {
        Self { from, block: [0; BLOCK_BYTES], used: BLOCK_BYTES }
    }
}

impl Entropy for BlockEntropy<'_> {
    fn bytes(&mut self) -> Result<[u8; 32], EntropyError> {
        if self.used == BLOCK_BYTES {
            (self.block, self.used) = (self.from.block()?, 0);
        }
        let mut bytes = [0; 32];
        bytes.copy_from_slice(&self.block[self.used..][..32]);
        self.used += 32;
        Ok(bytes)
    }
}

/// A deterministic source, the same bytes for the same seed: for simulations and tests, never for a daemon.
#[derive(Debug, Clone)]
pub struct SeededEntropy(blake3::OutputReader);

impl SeededEntropy {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof())
    }
}

impl Entropy for SeededEntropy {
    fn bytes(&mut self) -> Result<[u8; 32], EntropyError> {
        let mut bytes = [0; 32];
        self.0.fill(&mut bytes);
        Ok(bytes)
    }
}

/// The source of a validator's draws. Clones share it.
#[derive(Debug, Clone, Default)]
pub enum EntropySource {
    /// The operating system's: that of every daemon.
    #[default]
    Os,
    /// That of a simulation.
    Seeded(Arc<Mutex<SeededEntropy>>),
}

impl Entropy for EntropySource {
    fn bytes(&mut self) -> Result<[u8; 32], EntropyError> {
        match self {
            Self::Os => OsEntropy.bytes(),
            Self::Seeded(seeded) => seeded.lock().unwrap_or_else(PoisonError::into_inner).bytes(),
        }
    }

    fn block(&mut self) -> Result<[u8; BLOCK_BYTES], EntropyError> {
        match self {
            Self::Os => OsEntropy.block(),
            Self::Seeded(seeded) => seeded.lock().unwrap_or_else(PoisonError::into_inner).block(),
        }
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
    fn a_block_has_the_bytes_of_its_source_each_once() {
        let (mut source, mut same) = (SeededEntropy::new(3), SeededEntropy::new(3));
        let mut blocks = BlockEntropy::new(&mut source);
        // Over the end of a block, and of the next.
        for _ in 0..70 {
            assert_eq!(blocks.bytes(), same.bytes());
        }
    }

    #[test]
    fn no_byte_of_the_systems_is_given_twice() {
        let drawn: std::collections::BTreeSet<_> = (0..2)
            .flat_map(|_| {
                let mut source = OsEntropy;
                let mut blocks = BlockEntropy::new(&mut source);
                (0..100).map(|_| blocks.bytes().unwrap()).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(drawn.len(), 200);
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
