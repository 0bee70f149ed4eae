//! Keys and numbers of a burn-in, all from one seed, so that a run can be repeated.

use assay_work::leaf::keystream;
use assay_work::{PassKey, PassSample, ProbeKey, ProbeSeed, Segment};
use serde::Serialize;

/// The seed of all draws of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u8; 32]);

impl std::fmt::Display for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl std::str::FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut seed = [0; 32];
        hex::decode_to_slice(text, &mut seed).map_err(|_| "expected 64 hexadecimal digits, as a report has them")?;
        Ok(Self(seed))
    }
}

impl Serialize for Seed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Seed {
    /// A seed from the system's random source.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        Ok(Self(seed))
    }

    fn derive(&self, context: &str, round: u32) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(&self.0);
        hasher.update(&round.to_le_bytes());
        *hasher.finalize().as_bytes()
    }

    /// The key of a round's passes: the same for every device, so that their slots are.
    pub fn pass_key(&self, round: u32) -> PassKey {
        PassKey(self.derive("assay v1 diag pass", round))
    }

    /// The key of a round's probe.
    pub fn probe_key(&self, round: u32) -> ProbeKey {
        ProbeKey(self.derive("assay v1 diag probe", round))
    }

    /// The seed that stands in a round's probe where a challenge's would; nothing depends on it.
    pub fn probe_seed(&self, round: u32) -> ProbeSeed {
        ProbeSeed(self.derive("assay v1 diag probe seed", round))
    }

    /// The key of the bytes that a round copies.
    pub fn copy_key(&self, round: u32) -> [u8; 32] {
        self.derive("assay v1 diag copy", round)
    }

    pub fn draw(&self, round: u32, pass: u64) -> Draw {
        let stream = (pass ^ (pass >> 32)) as u32;
        Draw { key: self.derive("assay v1 diag draw", round), stream, at: 0 }
    }
}

#[derive(Debug)]
pub struct Draw {
    key: [u8; 32],
    stream: u32,
    at: u64,
}

impl Draw {
    /// A number below `bound`, which is above 0. The bias is below 2⁻³².
    pub fn below(&mut self, bound: u32) -> u32 {
        let mut bytes = [0; 8];
        keystream(&self.key, self.stream, self.at, &mut bytes);
        self.at += 8;
        // CAST: the remainder is below a u32.
        (u64::from_le_bytes(bytes) % u64::from(bound.max(1))) as u32
    }

    /// Samples of a pass of at least 3 slots: of the slots uniformly, then of their elements.
    pub fn samples(&mut self, n: u32, count: u32, samples: u32) -> Vec<PassSample> {
        let mut sample = || match self.below(count) {
            slot @ (0 | 1) => PassSample::Leaf { slot, row: self.below(n) },
            slot => PassSample::Product { slot, row: self.below(n), column: self.below(n), inner: self.below(n) },
        };
        (0..samples).map(|_| sample()).collect()
    }

    pub fn segments(&mut self, rounds: u32, walks: u32, segments: u32) -> Vec<Segment> {
        (0..segments).map(|_| Segment { round: self.below(rounds), walk: self.below(walks) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_written_as_it_is_read() {
        let seed = Seed(std::array::from_fn(|i| i as u8 * 7));
        assert_eq!(seed.to_string().parse(), Ok(seed));
        for text in ["", "00", &"g".repeat(64), &"ß".repeat(32)] {
            assert!(text.parse::<Seed>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_drawn_fits_the_pass_and_repeats_with_the_seed() {
        let seed = Seed([3; 32]);
        let samples = seed.draw(2, 9).samples(256, 5, 500);
        assert!(samples.iter().all(|sample| sample.fits(256, 5)));
        let slots: std::collections::BTreeSet<_> = samples.iter().map(|sample| sample.slot_and_row().0).collect();
        assert_eq!(slots.len(), 5, "every slot is sampled");
        assert_eq!(samples, seed.draw(2, 9).samples(256, 5, 500));
        assert_ne!(samples, seed.draw(2, 10).samples(256, 5, 500));
        assert_ne!(seed.pass_key(1), seed.pass_key(2));
    }
}
