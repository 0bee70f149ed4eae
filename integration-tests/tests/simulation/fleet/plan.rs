//! The plan of a seed: who takes part, which faults come, and when.

use std::fmt;
use std::time::Duration;

use assay_judge::entropy::{Entropy, SeededEntropy};

use super::planted::Planted;

/// Validators of one database.
pub const VALIDATORS: usize = 2;
/// Miners that all of them challenge.
pub const MINERS: usize = 3;
/// When the last fault is over.
pub const HEALED: Duration = Duration::from_secs(20);
/// How long everything may take from then on.
pub const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// What a miner does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conduct {
    Honest,
    /// Commits to other work than it was asked for.
    Forges,
    /// Commits after the deadline.
    Late,
    /// Breaks challenges off once positions are named.
    Abandons,
    /// Loses a device, and hides that.
    LosesDevice,
    /// Does the work; now and then it says what has no place there, or its link repeats or garbles a message.
    Babbles,
}

/// A fault of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The validator is lost, and starts again after a while.
    CrashValidator {
        validator: usize,
        away: Duration,
    },
    /// The same, after so many points of its calls of the database.
    CrashValidatorAfter {
        validator: usize,
        points: u64,
        away: Duration,
    },
    CrashMiner {
        miner: usize,
        away: Duration,
    },
    /// Connections break.
    Cut {
        validator: usize,
        miner: usize,
    },
    /// Nothing passes.
    Block {
        validator: usize,
        miner: usize,
        time: Duration,
    },
    /// The miner connects once more, with the connection that it has.
    Duplicate {
        validator: usize,
        miner: usize,
    },
    /// The clocks of the daemons jump.
    Clock {
        seconds: i64,
    },
    /// Another program takes half of a miner's memory for a while.
    Tenant {
        miner: usize,
        time: Duration,
    },
    /// The disk of a validator is slow.
    SlowDisk {
        validator: usize,
        most_ms: u64,
        time: Duration,
    },
    /// Some calls of the database of a validator fail, or all.
    Outage {
        validator: usize,
        percent: u64,
        time: Duration,
    },
}

/// The plan of a seed.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub conduct: [Conduct; MINERS],
    /// Faults with their times, in order.
    pub faults: Vec<(Duration, Fault)>,
    pub planted: Option<Planted>,
}

impl Plan {
    /// The plan of a seed, with a planted fault or none.
    pub fn new(seed: u64, planted: Option<Planted>) -> Self {
        let mut draws = SeededEntropy::new(seed.wrapping_mul(2));
        let mut draw = |bound: u64| draws.below(bound).expect("a seed does not end");
        let third = match draw(6) {
            0 => Conduct::Honest,
            1 => Conduct::Forges,
            2 => Conduct::Late,
            3 => Conduct::Abandons,
            4 => Conduct::Babbles,
            _ => Conduct::LosesDevice,
        };
        let count = draw(7);
        let mut faults: Vec<_> =
            (0..count).map(|_| (Duration::from_millis(draw(16_000)), Self::fault(&mut draw))).collect();
        if third == Conduct::LosesDevice {
            let away = Duration::from_millis(100 + draw(1000));
            faults.push((Duration::from_millis(7000 + draw(6000)), Fault::CrashMiner { miner: MINERS - 1, away }));
        }
        faults.sort_by_key(|(at, _)| *at);
        Self { seed, conduct: [Conduct::Honest, Conduct::Honest, third], faults, planted }
    }

    fn fault(draw: &mut impl FnMut(u64) -> u64) -> Fault {
        let (validator, miner) = (draw(VALIDATORS as u64) as usize, draw(MINERS as u64) as usize);
        let away = Duration::from_millis(100 + draw(4000));
        match draw(11) {
            0 => Fault::CrashValidator { validator, away },
            1 | 2 => Fault::CrashValidatorAfter { validator, points: 1 + draw(90), away },
            3 => Fault::CrashMiner { miner, away },
            4 => Fault::Cut { validator, miner },
            5 => Fault::Block { validator, miner, time: Duration::from_millis(500 + draw(5500)) },
            6 => Fault::Duplicate { validator, miner },
            7 => Fault::Clock { seconds: draw(240) as i64 - 120 },
            8 => Fault::Tenant { miner, time: Duration::from_millis(500 + draw(5500)) },
            9 => Fault::SlowDisk { validator, most_ms: 1 + draw(120), time: Duration::from_millis(500 + draw(4000)) },
            _ => {
                let percent = [10, 50, 100][draw(3) as usize];
                Fault::Outage { validator, percent, time: Duration::from_millis(500 + draw(7500)) }
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CrashValidator { validator, away } => write!(f, "v{validator} crashes, back in {away:?}"),
            Self::CrashValidatorAfter { validator, points, away } => {
                write!(f, "v{validator} crashes after {points} points of calls of its database, back in {away:?}")
            }
            Self::CrashMiner { miner, away } => write!(f, "m{miner} crashes, back in {away:?}"),
            Self::Cut { validator, miner } => write!(f, "the connection of v{validator} and m{miner} breaks"),
            Self::Block { validator, miner, time } => write!(f, "v{validator} and m{miner} are parted for {time:?}"),
            Self::Duplicate { validator, miner } => write!(f, "m{miner} connects to v{validator} once more"),
            Self::Tenant { miner, time } => write!(f, "half of the memory of m{miner} is taken for {time:?}"),
            Self::Clock { seconds } => write!(f, "the clocks jump by {seconds} s"),
            Self::SlowDisk { validator, most_ms, time } => {
                write!(f, "the disk of v{validator} takes up to {most_ms} ms for {time:?}")
            }
            Self::Outage { validator, percent, time } => {
                write!(f, "{percent} % of the calls of v{validator}'s database fail for {time:?}")
            }
        }
    }
}

impl Fault {
    /// Its name in the counts of events.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CrashValidator { .. } => "crash of a validator",
            Self::CrashValidatorAfter { .. } => "crash of a validator within a transaction",
            Self::CrashMiner { .. } => "crash of a miner",
            Self::Cut { .. } => "broken connection",
            Self::Block { .. } => "partition",
            Self::Duplicate { .. } => "duplicate connection",
            Self::Clock { .. } => "clock jump",
            Self::Tenant { .. } => "tenant",
            Self::SlowDisk { .. } => "slow disk",
            Self::Outage { .. } => "outage of the database",
        }
    }
}
