//! Miners that hide a part of their slots from the probe, in a model of it: the memory that they spare, held against
//! the bound that a verdict states (WORK.md, What can hide).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use assay_judge::entropy::{Entropy, SeededEntropy};
use assay_work::ProbeSeed;
use assay_work::bounds::TimedProbe;
use assay_work::probe::{Probe, UncheckedProbe};

const WALKS: u32 = 64;
const STEPS: u32 = 16;
const ROUNDS: u32 = 64;
/// Slots of n = 256: 4096 lines.
const SLOTS: u32 = 4;
const LINES: u64 = 4 * 1024;

/// The attack of a miner on the probe.
#[derive(Debug, Clone, Copy, Default)]
struct Attack {
    /// Lines that are not in memory, and computed again for all walks that wait for one.
    hidden: u64,
    /// Rounds whose digests are made up, so that the rounds after them run beside the others.
    invented: u32,
    /// A walk with so few steps left ends in a copy elsewhere, where it meets a hidden line.
    steps_elsewhere: u32,
}

/// Walks at a hidden line: since when the first one waits, and of each its chain of rounds and the steps that it still
/// has to make.
type Waiting = (Reverse<u64>, Vec<(usize, u32)>);

/// A probe under way.
struct Miner {
    attack: Attack,
    entropy: SeededEntropy,
    waiting: BTreeMap<u64, Waiting>,
    /// Of each chain: rounds that did not start, and walks of the round that runs.
    chains: Vec<(u32, u32)>,
    computed: u64,
    elsewhere: u64,
}

impl Miner {
    fn new(attack: Attack, seed: u64) -> Self {
        let (chains, walked) = (attack.invented + 1, ROUNDS - attack.invented);
        let rounds = |chain| (walked / chains + u32::from(chain < walked % chains), 0);
        let chains = (0..chains).map(rounds).collect();
        let entropy = SeededEntropy::new(seed);
        Self { attack, entropy, waiting: BTreeMap::new(), chains, computed: 0, elsewhere: 0 }
    }

    /// Steps over lines in memory. Whether the walk came to its end.
    fn walk(&mut self, chain: usize, mut steps: u32) -> bool {
        while steps > 0 {
            let line = self.entropy.below(LINES).unwrap();
            if line < self.attack.hidden && steps <= self.attack.steps_elsewhere {
                self.elsewhere += u64::from(steps);
                return true;
            }
            if line < self.attack.hidden {
                let since = (Reverse(self.computed), Vec::new());
                self.waiting.entry(line).or_insert(since).1.push((chain, steps));
                return false;
            }
            steps -= 1;
        }
        true
    }

    /// Starts rounds of a chain until one has to wait.
    fn start(&mut self, chain: usize) {
        while self.chains[chain].0 > 0 && self.chains[chain].1 == 0 {
            self.chains[chain].0 -= 1;
            let waiting = (0..WALKS).filter(|_| !self.walk(chain, STEPS)).count();
            self.chains[chain].1 = u32::try_from(waiting).unwrap();
        }
    }

    /// Answers all rounds, and always computes the line for which the most walks wait, the longest of such.
    fn answer(mut self) -> Self {
        (0..self.chains.len()).for_each(|chain| self.start(chain));
        while let Some(line) = self.next_line() {
            self.computed += 1;
            for (chain, steps) in self.waiting.remove(&line).unwrap().1 {
                if self.walk(chain, steps - 1) {
                    self.chains[chain].1 -= 1;
                }
                self.start(chain);
            }
        }
        self
    }

    fn next_line(&self) -> Option<u64> {
        let most = self.waiting.iter().max_by_key(|(_, (since, walks))| (walks.len(), *since));
        most.map(|(line, _)| *line)
    }

    /// The share that the verdict states, with and without the terms for these attacks.
    fn shares(&self) -> (f64, f64) {
        let unchecked =
            UncheckedProbe { seed: ProbeSeed([0; 32]), walks: WALKS, steps: STEPS, rounds: ROUNDS, link: 0 };
        let probe = Probe::try_from(unchecked).unwrap();
        let line_bytes = 64.0;
        let timed = TimedProbe {
            probe: &probe,
            n: 256,
            terms: 256,
            count: SLOTS,
            seconds: 1.0,
            multiply_accumulates_per_s: 0.0,
            bus_bytes_per_s: self.computed as f64 * line_bytes,
            copy_bytes_per_s: self.elsewhere as f64 * line_bytes,
            open_walks: f64::from(self.attack.invented) / f64::from(ROUNDS),
            operands: None,
        };
        let one_round_at_a_time = TimedProbe { copy_bytes_per_s: 0.0, open_walks: 0.0, ..timed };
        (timed.hiding().share, one_round_at_a_time.hiding().share)
    }
}

/// The share of its memory that the attack hides, and the shares that a verdict states with and without the terms.
fn mounted(attack: Attack, seed: u64) -> (f64, f64, f64) {
    let (with, without) = Miner::new(attack, seed).answer().shares();
    (attack.hidden as f64 / LINES as f64, with, without)
}

#[test]
fn lines_computed_again_hide_no_more_than_the_bound() {
    for seed in 0..8 {
        for hidden in [100, 400, 800] {
            let (share, stated, first) = mounted(Attack { hidden, ..Attack::default() }, seed);
            assert!(share <= first && first <= stated, "{share} hidden, {first} and {stated} stated");
        }
    }
}

/// Seven rounds run at a time, and one computation of a line serves the walks of all: the first rule stated less than
/// was hidden.
#[test]
fn invented_digests_hide_no_more_than_the_bound() {
    for seed in 0..8 {
        for hidden in [400, 800] {
            let (share, stated, first) = mounted(Attack { hidden, invented: 6, steps_elsewhere: 0 }, seed);
            assert!(first < share && share <= stated, "{share} hidden, {first} and {stated} stated");
        }
    }
}

/// Walks end in a copy in host memory and never come back.
#[test]
fn a_copy_elsewhere_hides_no_more_than_the_bound() {
    for seed in 0..8 {
        for (hidden, steps_elsewhere) in [(400, 8), (800, 8), (800, 12)] {
            let (share, stated, first) = mounted(Attack { hidden, invented: 0, steps_elsewhere }, seed);
            assert!(first < share && share <= stated, "{share} hidden, {first} and {stated} stated");
            let (share, stated, first) = mounted(Attack { hidden, invented: 6, steps_elsewhere }, seed);
            assert!(first < share && share <= stated, "with invented digests: {share}, {first} and {stated}");
        }
    }
}
