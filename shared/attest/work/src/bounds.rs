//! Probabilities and bounds that a verdict may claim: of a faked answer that passes (WORK.md, Verification), of work
//! that an audit leaves open (Audit), and of memory that a probe leaves open (Residency probe, "What can hide").

use super::challenge::Challenge;
use super::probe::{LINE_BYTES, Probe};

/// The binary logarithm of the chance that `samples` independent draws all miss a fraction `faked` of the drawn-from
/// set, `(1 - g)^q`: it stays meaningful where the chance is too small to print.
///
/// # Panics
/// When `faked` is not from 0 to 1.
pub fn pass_log2(faked: f64, samples: u64) -> f64 {
    assert!((0.0..=1.0).contains(&faked), "a fraction");
    if samples == 0 { 0.0 } else { samples as f64 * (-faked).ln_1p() / std::f64::consts::LN_2 }
}

/// The fraction g of wrong work that `samples` draws leave open: `tries · (1 - g)^q = chance`, the `tries` being the
/// challenges that one could have passed (WORK.md, Audit: `chance` is 0.05). 1 without samples: nothing was checked.
///
/// # Panics
/// When `tries` is 0, or `chance` is not above 0 and at most 1.
pub fn hidden_fraction(samples: u64, tries: u32, chance: f64) -> f64 {
    assert!(tries > 0, "at least this challenge");
    assert!(chance > 0.0 && chance <= 1.0, "a probability above 0");
    if samples == 0 { 1.0 } else { -((chance / f64::from(tries)).ln() / samples as f64).exp_m1() }
}

/// Which iterations of a challenge are examined: the last one always, and some of the others, drawn uniformly without
/// repetition (WORK.md, Verification).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IterationDraw {
    iterations: u32,
    drawn: u32,
}

impl IterationDraw {
    /// A draw of `sampled` (the policy's m) of the iterations before the last one; of all, where there are fewer.
    ///
    /// # Panics
    /// When there is no iteration.
    pub const fn new(iterations: u32, sampled: u32) -> Self {
        assert!(iterations > 0, "at least one iteration");
        let others = iterations - 1;
        Self { iterations, drawn: if sampled < others { sampled } else { others } }
    }

    /// How many iterations before the last one are drawn.
    pub const fn drawn(&self) -> u32 {
        self.drawn
    }

    /// How many iterations are examined, the last one with them.
    pub const fn examined(&self) -> u32 {
        self.drawn + 1
    }

    /// How many iterations can go unexamined, and can be faked with a chance to pass: 0 when all are examined.
    pub const fn unexamined(&self) -> u32 {
        self.iterations - self.examined()
    }

    /// The chance that none of `faked` faked iterations is drawn, none of them the last one:
    /// `binomial(I-1-s, m) / binomial(I-1, m)`.
    ///
    /// # Panics
    /// When more are faked than there are before the last one.
    pub fn undrawn_probability(&self, faked: u32) -> f64 {
        let others = self.iterations - 1;
        assert!(faked <= others, "iterations before the last one");
        let honest = others - faked;
        if self.drawn > honest {
            return 0.0;
        }
        (0..self.drawn).map(|i| f64::from(honest - i) / f64::from(others - i)).product()
    }
}

/// The bytes that a linked probe moves between memories (WORK.md, Linked probe, "What it shows"): 64 for each step whose
/// line is not where its walk is, in all steps but the first of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crossing {
    /// Between the devices, at least: all but the share of the device with the most slots.
    pub devices_bytes: f64,
    /// In one direction between two hosts, had each half of the slots.
    pub halves_bytes: f64,
    /// In one direction between two hosts, were the device with the fewest slots alone on one of them.
    pub least_bytes: f64,
}

impl Crossing {
    /// Counts the bytes that cross in all rounds of a linked probe of a challenge.
    pub fn of(challenge: &Challenge, probe: &Probe) -> Self {
        let shares = challenge.shares();
        let counts = || shares.iter().map(|share| f64::from(share.count));
        let (total, most) = (counts().sum::<f64>(), counts().fold(0.0, f64::max));
        let least = counts().fold(f64::INFINITY, f64::min) / total;
        let steps = f64::from(probe.steps() - 1) * f64::from(probe.rounds());
        let bytes = shares.len() as f64 * probe.out_bytes() as f64 * steps;
        // A walk that moves crosses a cut into parts s and 1 - s in s · (1 - s) of its steps, each way.
        Self {
            devices_bytes: bytes * (1.0 - most / total),
            halves_bytes: bytes / 4.0,
            least_bytes: bytes * least * (1.0 - least),
        }
    }
}

/// A timed probe of one device, and the other resources that the device may have beside the probed memory.
#[derive(Debug, Clone, Copy)]
pub struct TimedProbe<'a> {
    /// The probe as sent.
    pub probe: &'a Probe,
    /// Matrix size n.
    pub n: u32,
    /// κ: the terms of the sum behind an element.
    pub terms: u32,
    /// Slots of the device.
    pub count: u32,
    /// t, on the validator's clock, with the round trip in it.
    pub seconds: f64,
    /// ρ, the multiply-accumulates a second that the device may have: for computing hidden lines again.
    pub multiply_accumulates_per_s: f64,
    /// β, bytes a second into the device, in one direction, over all its buses: for fetching hidden lines.
    pub bus_bytes_per_s: f64,
    /// μ, bytes a second that processors elsewhere read of a copy of all slots, beside the traffic of the buses.
    pub copy_bytes_per_s: f64,
    /// f, the share of the walks that the segments leave open: [`hidden_fraction`] of their number.
    pub open_walks: f64,
    /// Costs of reading the operands of lines again, where these bound the hidden lines too.
    pub operands: Option<OperandReads>,
}

/// Resources for reading the operands of hidden lines again (WORK.md, "The operands' way").
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperandReads {
    /// s, bytes a second that come onto the chip: read, over buses, or computed again.
    pub bytes_per_s: f64,
    /// Z, bytes that the chip holds.
    pub chip_bytes: f64,
    /// e, bytes of 64 columns' operands that count, of each of the n of a block.
    pub block_bytes: f64,
    /// Whether the time of lines computed again is no bound beside it: ρ cannot be seen.
    pub alone: bool,
}

/// The share of a device's lines that a probe leaves open (WORK.md, Residency probe, "What can hide").
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HidingBound {
    /// x_c: lines that could be computed again in the time of the probe, over the lines that it read.
    pub computed: f64,
    /// x_b: lines that could be moved over buses in that time, over the lines that it read.
    pub over_buses: f64,
    /// m: steps of walks that could be made in a copy elsewhere in that time, over all steps.
    pub elsewhere: f64,
    /// x_r: blocks of operands that could come onto the chip in that time, by the bytes of their lines over those read; 0
    /// where the operands' way is no bound.
    pub operands: f64,
    /// Whether h is that of the operands' way.
    pub is_by_operands: bool,
    /// h: the share of the device's lines that may have been elsewhere; at 1 the probe showed nothing.
    pub share: f64,
}

impl TimedProbe<'_> {
    /// Bounds the lines that were not in the device's memory: by lines computed again and moved over buses, while the
    /// rounds after an invented digest run beside the others and the last steps of walks are made elsewhere.
    ///
    /// # Panics
    /// When the time, a rate or the share of open walks is negative or not finite.
    pub fn hiding(&self) -> HidingBound {
        let given = [self.seconds, self.multiply_accumulates_per_s, self.bus_bytes_per_s, self.copy_bytes_per_s];
        assert!(given.iter().all(|x| x.is_finite() && *x >= 0.0), "a time and rates");
        assert!((0.0..=1.0).contains(&self.open_walks), "a fraction");
        let read_bytes = self.probe.read_bytes() as f64;
        // A line is 64 elements of κ multiply-accumulates each: κ of them a byte.
        let computed = self.multiply_accumulates_per_s * self.seconds / (f64::from(self.terms) * read_bytes);
        let over_buses = self.bus_bytes_per_s * self.seconds / read_bytes;
        let elsewhere = self.copy_bytes_per_s * self.seconds / read_bytes;
        let (mut h, mut operands, mut is_by_operands) = (self.waiting_walks(computed + over_buses, 1.0), 0.0, false);
        if let Some(reads) = &self.operands {
            operands = reads.bytes_per_s * self.seconds * LINE_BYTES as f64
                / (reads.block_bytes * f64::from(self.n) * read_bytes);
            let by_operands = self.by_operands(reads, operands) + self.waiting_walks(over_buses, 1.0);
            is_by_operands = reads.alone || by_operands < h;
            h = if is_by_operands { by_operands } else { h };
        }
        let share = self.with_walks_elsewhere(h, elsewhere).min(1.0);
        HidingBound { computed, over_buses, elsewhere, operands, is_by_operands, share }
    }

    /// h_r: blocks whose operands the chip holds or that are brought again, each for `n` lines, and slot 2, whose operands
    /// are a leaf's.
    fn by_operands(&self, reads: &OperandReads, x: f64) -> f64 {
        let n = f64::from(self.n);
        let held = LINE_BYTES as f64 / reads.block_bytes * reads.chip_bytes + n * n;
        held / (f64::from(self.count) * n * n) + self.waiting_walks(x, n)
    }

    /// `x/2 + √(x²/4 + 2·x·W·(1 + f·R)·lines/L)` with L = count · n² / 64: walks wait at hidden lines, those of all rounds that
    /// run at once, and `lines` are served together.
    fn waiting_walks(&self, x: f64, lines: f64) -> f64 {
        let n = f64::from(self.n);
        let at_once = f64::from(self.probe.walks()) * (1.0 + self.open_walks * f64::from(self.probe.rounds()));
        let walks_per_line = at_once * LINE_BYTES as f64 / (f64::from(self.count) * n * n);
        x / 2.0 + (x * x / 4.0 + 2.0 * x * walks_per_line * lines).sqrt()
    }

    /// `((√(m/2T) + √(m/2T + c·(h + f/T))) / c)²` with c = 1 - m - f: walks end in a copy elsewhere, or are left out at their
    /// first hidden line. 1 where c is not above 0.
    fn with_walks_elsewhere(&self, h: f64, m: f64) -> f64 {
        let (f, steps) = (self.open_walks, f64::from(self.probe.steps()));
        let c = 1.0 - m - f;
        if c <= 0.0 {
            return 1.0;
        }
        let ends = m / (2.0 * steps);
        ((ends.sqrt() + (ends + c * (h + f / steps)).sqrt()) / c).powi(2)
    }
}

/// A timed sweep of one device, and the other resources that the device may have beside the memory that is summed.
#[derive(Debug, Clone, Copy)]
pub struct TimedSweep {
    /// Bytes of the slots.
    pub slots_bytes: f64,
    /// R.
    pub rounds: u32,
    /// t, on the validator's clock, with the round trip in it.
    pub seconds: f64,
    /// ρ / κ, or φ / 2 + β: bytes a second that the device may compute again.
    pub computed_bytes_per_s: f64,
    /// μ, bytes a second of all memory outside the device that any processor reads.
    pub elsewhere_bytes_per_s: f64,
    /// Z, bytes that the chip holds.
    pub chip_bytes: f64,
    /// f, the share of the sums that the samples leave open.
    pub open_sums: f64,
}

impl TimedSweep {
    /// h: the share of the device's memory that may have been elsewhere (WORK.md, Sweep, "What it shows"); at 1 the sweep
    /// showed nothing.
    pub fn hidden_share(&self) -> f64 {
        let other = self.computed_bytes_per_s + self.elsewhere_bytes_per_s;
        let moved = other * self.seconds / (f64::from(self.rounds) * self.slots_bytes);
        (moved + self.chip_bytes / self.slots_bytes + self.open_sums).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::UncheckedProbe;
    use crate::{DeviceId, ProbeSeed, UncheckedChallenge};

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} is not {expected}");
    }

    /// Pascal's triangle: exact in the range that the test uses.
    fn binomial(n: u32, k: u32) -> f64 {
        let mut row = vec![1_u128];
        for _ in 0..n {
            let next = row.windows(2).map(|w| w[0] + w[1]).collect::<Vec<_>>();
            row = [vec![1], next, vec![1]].concat();
        }
        row.get(k as usize).map_or(0.0, |&b| b as f64)
    }

    /// WORK.md's device of 141 GB and 4.8 TB/s with R = 16: half a second.
    #[test]
    fn a_sweep_leaves_little_open() {
        let sweep = TimedSweep {
            slots_bytes: 141e9,
            rounds: 16,
            seconds: 16.0 * 141e9 / 4.8e12,
            computed_bytes_per_s: 650e12 / 8192.0,
            elsewhere_bytes_per_s: 500e9,
            chip_bytes: 256e6,
            open_sums: hidden_fraction(256, 1, 0.05),
        };
        close(sweep.hidden_share(), (650e12 / 8192.0 + 500e9) / 4.8e12 + 256.0 / 141e3 + sweep.open_sums);
        assert!((0.011..0.012).contains(&sweep.open_sums), "{}", sweep.open_sums);
        close(TimedSweep { seconds: 100.0, ..sweep }.hidden_share(), 1.0);
    }

    fn pass_probability(faked: f64, samples: u64) -> f64 {
        pass_log2(faked, samples).exp2()
    }

    #[test]
    fn samples_multiply() {
        close(pass_probability(0.01, 300), 0.99_f64.powi(300));
        close(pass_probability(0.5, 10), 1.0 / 1024.0);
        close(pass_log2(0.5, 4000), -4000.0);
        assert_eq!(pass_probability(0.5, 4000), 0.0);
    }

    /// WORK.md's table for 8 devices with equal counts and W = 2¹⁸: microseconds a step at these bandwidths.
    #[test]
    fn what_crosses_takes_as_long_as_the_table_says() {
        let counts = (0..8).map(|index| (DeviceId([index; 16]), 64));
        let challenge = Challenge::try_from(UncheckedChallenge::unasked(256, 1, counts));
        let unchecked = UncheckedProbe { seed: ProbeSeed([6; 32]), walks: 1 << 18, steps: 65, rounds: 3, link: 1 };
        let crossing = Crossing::of(&challenge.unwrap(), &Probe::try_from(unchecked).unwrap());
        // The first step of a round need not cross.
        let us_a_step = |bytes: f64, gb_per_s: f64| (bytes / (64.0 * 3.0) / (gb_per_s * 1e3)).round();
        for (gb_per_s, us) in [(770.0, 19.0), (375.0, 39.0), (235.0, 62.0), (336.0, 44.0)] {
            assert_eq!(us_a_step(crossing.devices_bytes / 8.0, gb_per_s), us, "one host, {gb_per_s} GB/s");
        }
        assert_eq!(us_a_step(crossing.halves_bytes, 4.0 * 48.0), 175.0, "two hosts of 4, 400G for each device");
        assert_eq!(us_a_step(crossing.halves_bytes, 8.0 * 48.0), 87.0, "two hosts of 4, eight cards a host");
        assert_eq!(us_a_step(crossing.least_bytes, 8.0 * 48.0), 38.0, "7 + 1 devices, eight cards a host");
    }

    #[test]
    fn nothing_faked_always_passes_and_everything_faked_never_does() {
        for samples in [1, 5, 1000] {
            assert_eq!(pass_probability(0.0, samples), 1.0);
            assert_eq!(pass_probability(1.0, samples), 0.0);
        }
        assert_eq!(pass_probability(1.0, 0), 1.0);
    }

    #[test]
    fn draws_are_without_repetition() {
        for iterations in 1..=12 {
            for sampled in 0..=iterations {
                let draw = IterationDraw::new(iterations, sampled);
                for faked in 0..iterations {
                    let others = iterations - 1;
                    let expected = binomial(others - faked, draw.drawn()) / binomial(others, draw.drawn());
                    close(draw.undrawn_probability(faked), expected);
                }
            }
        }
    }

    /// Two of iterations 0 … 3 are drawn, beside iteration 4: of six pairs, three leave out one that is faked, and one
    /// leaves out two.
    #[test]
    fn the_last_iteration_is_always_examined() {
        let draw = IterationDraw::new(5, 2);
        assert_eq!((draw.drawn(), draw.examined(), draw.unexamined()), (2, 3, 2));
        close(draw.undrawn_probability(1), 3.0 / 6.0);
        close(draw.undrawn_probability(2), 1.0 / 6.0);
        assert_eq!(draw.undrawn_probability(3), 0.0, "one of three is among any two of four");
        for sampled in [0, 1, 7] {
            let one = IterationDraw::new(1, sampled);
            assert_eq!((one.examined(), one.unexamined()), (1, 0));
            assert_eq!(one.undrawn_probability(0), 1.0);
        }
        assert_eq!(IterationDraw::new(2, u32::MAX).examined(), 2);
        assert_eq!(IterationDraw::new(65_536, 0).undrawn_probability(1), 1.0, "nothing but the last one is examined");
    }

    #[test]
    #[should_panic(expected = "iterations before the last one")]
    fn the_last_iteration_cannot_be_faked_unseen() {
        let _ = IterationDraw::new(4, 1).undrawn_probability(4);
    }

    #[test]
    fn an_audit_leaves_a_fraction_open() {
        let percent = |samples, tries| (hidden_fraction(samples, tries, 0.05) * 1000.0).round() / 10.0;
        assert_eq!((percent(128, 1), percent(512, 1)), (2.3, 0.6), "as WORK.md says");
        assert!(hidden_fraction(128, 2, 0.05) > hidden_fraction(128, 1, 0.05), "a second try helps the miner");
        for (samples, tries, chance) in [(1, 1, 0.05), (7, 3, 0.5), (128, 20, 0.05), (4000, 1, 1e-9)] {
            let g = hidden_fraction(samples, tries, chance);
            let passes = f64::from(tries) * pass_probability(g, samples);
            assert!((passes - chance).abs() <= 1e-9 * chance, "{passes} is not {chance}");
        }
        assert_eq!(hidden_fraction(0, 1, 0.05), 1.0, "without samples nothing was checked");
        assert_eq!(hidden_fraction(5, 1, 1.0), 0.0);
    }

    fn probe(walks: u32, steps: u32, rounds: u32) -> Probe {
        Probe::try_from(UncheckedProbe { seed: ProbeSeed([0; 32]), walks, steps, rounds, link: 0 }).unwrap()
    }

    /// The example of WORK.md: n = 8192, W/L = 2⁻¹³, a device that reads 2.6 TB/s and shows 650 T
    /// multiply-accumulates a second, of which twice as many are assumed, behind 16 lanes of PCIe 5.
    fn example(probe: &Probe) -> TimedProbe<'_> {
        TimedProbe {
            probe,
            n: 8192,
            terms: 8192,
            count: 2048,
            seconds: probe.read_bytes() as f64 / 2.6e12,
            multiply_accumulates_per_s: 2.0 * 650e12,
            bus_bytes_per_s: 64e9,
            copy_bytes_per_s: 0.0,
            open_walks: 0.0,
            operands: None,
        }
    }

    #[test]
    fn what_hides_from_a_fast_device() {
        let probe = probe(1 << 18, 64, 512);
        let timed = example(&probe);
        let HidingBound { computed, over_buses, elsewhere, share, .. } = timed.hiding();
        close(computed, 1300e12 / (8192.0 * 2.6e12));
        close(over_buses, 64.0 / 2600.0);
        assert_eq!(elsewhere, 0.0);
        assert!((0.085..0.086).contains(&share), "{share}");
        // By the definition: x = h² / (h + 2·W/L).
        close(share * share / (share + 2.0 / 8192.0), computed + over_buses);
    }

    /// The figures of WORK.md for R = 100 with 32 and 128 segments, and for walks that are left out or end elsewhere.
    #[test]
    fn invented_digests_and_a_copy_elsewhere_hide_more() {
        let probe = probe(1 << 18, 64, 100);
        let timed = |segments: u64, copy_bytes_per_s: f64| {
            let open_walks = hidden_fraction(segments, 1, 0.05);
            TimedProbe { copy_bytes_per_s, open_walks, ..example(&probe) }
        };
        let percent = |share: f64| (share * 1000.0).round() / 10.0;
        let waiting = |segments| {
            let timed = timed(segments, 0.0);
            let HidingBound { computed, over_buses, .. } = timed.hiding();
            percent(timed.waiting_walks(computed + over_buses, 1.0))
        };
        assert_eq!((waiting(32), waiting(128)), (8.8, 8.6));
        // Of the other bound's 4.9 %, with μ = 0, and 61 and 236 GB/s of a device that reads 2.6 TB/s.
        let elsewhere = |gb_per_s: f64| {
            let timed = timed(32, gb_per_s * 1e9);
            percent(timed.with_walks_elsewhere(0.049, timed.hiding().elsewhere))
        };
        assert_eq!((elsewhere(0.0), elsewhere(61.0), elsewhere(236.0)), (5.5, 6.5, 8.0));
        assert!(timed(32, 0.0).hiding().share < timed(32, 61e9).hiding().share);
        assert_eq!(timed(1, 0.0).hiding().share, 1.0, "one segment leaves 95 % of the walks open");
        assert_eq!(timed(32, 2.6e12).hiding().share, 1.0, "a copy that is read as fast");
    }

    /// The figures of WORK.md for the operands' way: without invented digests, and with R = 100 and 32 and 128 segments.
    #[test]
    fn operands_that_are_read_again_hide_less() {
        let probe = probe(1 << 18, 64, 100);
        let percent = |share: f64| (share * 1000.0).round() / 10.0;
        // A device of n² · count bytes, at n = 2048 and 1024 with as many more slots.
        let timed = |n: u32, open_walks: f64| {
            let (count, seconds) = (2048 * (8192 / n).pow(2), probe.read_bytes() as f64 / 2.6e12);
            TimedProbe { n, terms: n, count, seconds, open_walks, ..example(&probe) }
        };
        let by_operands = |timed: TimedProbe<'_>, bytes_per_s: f64, block_bytes: f64| {
            let reads = OperandReads { bytes_per_s, chip_bytes: 256e6, block_bytes, alone: false };
            let bound = TimedProbe { operands: Some(reads), ..timed }.hiding();
            assert!(bound.operands > 0.0);
            percent(timed.by_operands(&reads, bound.operands) + timed.waiting_walks(bound.over_buses, 1.0))
        };
        // s of kinds 1 and 7: B = 4.8 TB/s, β, and ρ / κ; φ / 2 of 44 G field operations a second, and β.
        let int8 = |n: u32, open| by_operands(timed(n, open), 4.8e12 + 64e9 + 1300e12 / f64::from(n), 64.0);
        let field = |open, block_bytes| by_operands(timed(1024, open), 22e9 + 64e9, block_bytes);
        let first = |n| percent(timed(n, 0.0).hiding().share);
        assert_eq!((int8(8192, 0.0), int8(2048, 0.0), field(0.0, 62.0)), (4.9, 5.0, 3.0));
        assert_eq!(first(2048).round(), 27.0);
        let open = [32, 128].map(|segments| hidden_fraction(segments, 1, 0.05));
        assert_eq!(open.map(|open| int8(8192, open)), [9.8, 6.7]);
        assert_eq!(open.map(|open| int8(2048, open)), [10.1, 6.9]);
        // The page has its figures of kind 7 for e = 64.
        assert_eq!(open.map(|open| field(open, 64.0)), [3.8, 3.2]);
        assert_eq!(open.map(|open| field(open, 62.0)), [3.8, 3.3]);
    }

    #[test]
    fn the_smaller_bound_is_stated_unless_only_one_holds() {
        let probe = probe(1 << 18, 64, 512);
        let with = |bytes_per_s, alone| {
            let reads = OperandReads { bytes_per_s, chip_bytes: 256e6, block_bytes: 64.0, alone };
            TimedProbe { operands: Some(reads), ..example(&probe) }.hiding()
        };
        let first = example(&probe).hiding();
        assert_eq!(with(1e18, false).share, first.share, "operands that come as fast hide everything");
        assert!(with(1e18, true).share > first.share && with(1e18, true).is_by_operands);
        assert!(with(5e12, false).share < first.share && with(5e12, false).is_by_operands);
    }

    #[test]
    fn hiding_has_its_limits() {
        let probe = probe(64, 1, 1);
        let idle = TimedProbe {
            probe: &probe,
            n: 256,
            terms: 256,
            count: 3,
            seconds: 1.0,
            multiply_accumulates_per_s: 0.0,
            bus_bytes_per_s: 0.0,
            copy_bytes_per_s: 0.0,
            open_walks: 0.0,
            operands: None,
        };
        let hiding = |computed, over_buses, share| {
            let (elsewhere, operands, is_by_operands) = (0.0, 0.0, false);
            HidingBound { computed, over_buses, elsewhere, operands, is_by_operands, share }
        };
        assert_eq!(idle.hiding(), hiding(0.0, 0.0, 0.0));
        // All 64 lines that were read, moved in the second that the probe took.
        let slow = TimedProbe { bus_bytes_per_s: 4096.0, ..idle };
        assert_eq!(slow.hiding(), hiding(0.0, 1.0, 1.0), "capped");
        // The same lines, computed again: 64 · 256 multiply-accumulates each.
        let busy = TimedProbe { multiply_accumulates_per_s: 64.0 * 64.0 * 256.0, ..idle };
        assert_eq!(busy.hiding(), hiding(1.0, 0.0, 1.0));
        // Twice the terms: half the lines.
        let deeper = TimedProbe { terms: 512, ..busy };
        assert_eq!(deeper.hiding().computed, 0.5);
        // W/L = 64 · 64 / (3 · 256²) = 1/48; x = 1/8 of both: h = 1/16 + √(1/256 + 1/192).
        let both = TimedProbe { seconds: 1.0 / 16.0, bus_bytes_per_s: 4096.0, ..busy };
        let HidingBound { computed, over_buses, share, .. } = both.hiding();
        assert_eq!((computed, over_buses), (1.0 / 16.0, 1.0 / 16.0));
        close(share, 1.0 / 16.0 + (1.0_f64 / 256.0 + 1.0 / 192.0).sqrt());
        assert_eq!(TimedProbe { seconds: 0.0, ..busy }.hiding().share, 0.0);
    }
}
