//! The extent of a replay, and the capacity of machines for it: capacity sizes a challenge, selects its mode and
//! assigns a job to a machine.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_protocol::message::MATRIX_SIZES;
use assay_protocol::verdict::Mode;
use assay_protocol::wire::limits::MAX_DEVICES;
use assay_work::challenge::MAX_TOTAL;
use assay_work::{Challenge, Precision};
use serde::{Deserialize, Serialize};

/// The fastest machine accepted as real, in multiply-accumulates per second: a thousand times a host of today.
const MAX_MACS_PER_S: f64 = 1e19;

/// The iterations of each device to replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Every pass.
    Everything,
    /// For each share, in order, these iterations, each alone from the root before it.
    Sampled(Vec<Vec<u32>>),
}

/// Replay capacity of the devices of one machine, as it measured itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineCapacity {
    /// Number of devices.
    pub devices: u32,
    /// Multiply-accumulates a second of all devices together, for each kind of work that every one of them computes; 0
    /// where they were too small to be measured.
    pub macs_per_s: BTreeMap<Precision, f64>,
    /// The most slots that any device holds, for each of [`MATRIX_SIZES`].
    pub room: [u32; MATRIX_SIZES.len()],
}

/// Reasons to reject the capacity of a machine.
#[derive(Debug, thiserror::Error)]
pub enum CapacityError {
    #[error("not the capacity of a machine: {0}")]
    Form(#[from] serde_json::Error),
    /// More than 1e19 multiply-accumulates per second, or a number of devices outside 1 … [`MAX_DEVICES`]: no such
    /// machine exists.
    #[error("a machine with {devices} devices that computes {macs_per_s} multiply-accumulates a second does not exist")]
    Absurd {
        /// Devices that it claims.
        devices: u32,
        /// The refused rate; 0 where the number of devices is refused.
        macs_per_s: f64,
    },
}

impl MachineCapacity {
    /// Reads a capacity that another process of this program wrote.
    pub fn read(text: &str) -> Result<Self, CapacityError> {
        let mut read: Self = serde_json::from_str(text)?;
        let Self { devices, ref macs_per_s, ref mut room } = read;
        let speed = 0.0..=MAX_MACS_PER_S;
        let absurd = macs_per_s.values().copied().find(|macs_per_s| !speed.contains(macs_per_s));
        if devices == 0 || devices as usize > MAX_DEVICES || absurd.is_some() {
            return Err(CapacityError::Absurd { devices, macs_per_s: absurd.unwrap_or(0.0) });
        }
        room.iter_mut().for_each(|slots| *slots = (*slots).min(MAX_TOTAL as u32));
        Ok(read)
    }

    /// The JSON that [`MachineCapacity::read`] takes.
    pub fn written(&self) -> String {
        // Numbers always become JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns whether its devices compute the kind of work, and every share fits one of them.
    pub fn fits(&self, challenge: &Challenge) -> bool {
        if !self.macs_per_s.contains_key(&challenge.precision()) {
            return false;
        }
        let room = MATRIX_SIZES.iter().position(|n| *n == challenge.n()).map_or(0, |size| self.room[size]);
        challenge.shares().iter().all(|share| share.count <= room)
    }

    /// The bytes of the largest share that may fit a device.
    pub fn largest_bytes(&self) -> i64 {
        let bytes = |(n, slots): (&u32, &u32)| i64::from(*slots) * i64::from(*n) * i64::from(*n);
        MATRIX_SIZES.iter().zip(&self.room).map(bytes).max().unwrap_or(0)
    }

    /// Estimates the time of a full replay; `None` when a share fits no device, or the devices were too small to be
    /// measured.
    pub fn estimate(&self, challenge: &Challenge) -> Option<Duration> {
        let work = || challenge.shares().iter().map(|s| challenge.multiply_accumulates(s)).sum::<u128>();
        let macs_per_s = self.macs_per_s.get(&challenge.precision()).copied().filter(|rate| *rate > 0.0)?;
        let seconds = self.fits(challenge).then(|| work() as f64 / macs_per_s)?;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// Replay capacity of the machines that a validator may use now, one replay each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplayCapacity(pub Vec<MachineCapacity>);

impl ReplayCapacity {
    /// The most slots of a share of this kind of work that can be replayed, for each of [`MATRIX_SIZES`]; `None`
    /// without a machine for it.
    pub fn room(&self, precision: Precision) -> Option<[u32; MATRIX_SIZES.len()]> {
        let able = |machine: &&MachineCapacity| machine.macs_per_s.contains_key(&precision);
        let largest = |size: usize| self.0.iter().filter(able).map(|machine| machine.room[size]).max();
        largest(0)?;
        Some(std::array::from_fn(|size| largest(size).unwrap_or(0)))
    }

    /// Estimates the time of a full replay on the fastest machine that has room for it.
    pub fn estimate(&self, challenge: &Challenge) -> Option<Duration> {
        self.0.iter().filter_map(|machine| machine.estimate(challenge)).min()
    }
}

pub trait Replays {
    /// The capacity of the machines available now.
    fn capacity(&self) -> ReplayCapacity;

    /// Whether a replay of this may be refused, for as many that wait where it fits; those of new miners keep no known
    /// one out.
    fn is_full(&self, _challenge: &Challenge, _is_known: bool) -> bool {
        false
    }

    /// The mode of a challenge for which a policy sets none: replays that are expected to fit into the budget.
    fn auto_mode(&self, challenge: &Challenge, is_known: bool, budget: Duration) -> Mode {
        let fits = || self.capacity().estimate(challenge).is_some_and(|time| time <= budget);
        if !self.is_full(challenge, is_known) && fits() { Mode::Replay } else { Mode::Audit }
    }
}

impl Replays for ReplayCapacity {
    fn capacity(&self) -> ReplayCapacity {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_work::challenge::{UncheckedChallenge, WORK_VERSION};
    use assay_work::{ChallengeId, DeviceId, Nonce, PublicKey, Share};

    /// Two devices with 5 and 4 slots of n = 256, two passes.
    fn challenge() -> Challenge {
        let share = |id, offset, count| Share { device_id: DeviceId([id; 16]), offset, count };
        let unchecked = UncheckedChallenge {
            version: WORK_VERSION,
            challenge_id: ChallengeId([4; 16]),
            nonce: Nonce([5; 32]),
            validator_key: PublicKey([6; 32]),
            miner_key: PublicKey([7; 32]),
            precision: 1,
            n: 256,
            iterations: 2,
            shares: vec![share(1, 0, 5), share(2, 5, 4)],
        };
        Challenge::try_from(unchecked).unwrap()
    }

    fn machine(slots: u32, macs_per_s: f64) -> MachineCapacity {
        let macs_per_s = BTreeMap::from([(Precision::Int8, macs_per_s)]);
        MachineCapacity { devices: 1, macs_per_s, room: [slots; MATRIX_SIZES.len()] }
    }

    #[test]
    fn the_fastest_machine_with_room_counts() {
        // Shares of 5 and 4 slots of n = 256 over 2 iterations: 10 products of 2^24 each.
        let challenge = challenge();
        let work = 10.0 * f64::from(1 << 24);
        let capacity = ReplayCapacity(vec![machine(5, work / 4.0), machine(8, work / 8.0), machine(4, work)]);
        assert_eq!(capacity.estimate(&challenge), Some(Duration::from_secs(4)));
        assert_eq!(capacity.room(Precision::Int8), Some([8; MATRIX_SIZES.len()]));
        assert_eq!(ReplayCapacity(vec![machine(4, work)]).estimate(&challenge), None, "a share has 5 slots");
        assert_eq!(ReplayCapacity(vec![machine(5, 0.0)]).estimate(&challenge), None);
        assert!(machine(5, 0.0).fits(&challenge) && !machine(4, 0.0).fits(&challenge));
        assert_eq!(
            (ReplayCapacity::default().room(Precision::Int8), ReplayCapacity::default().estimate(&challenge)),
            (None, None)
        );
    }

    /// Machines for which as many replays of new miners wait as may.
    struct Full(ReplayCapacity);

    impl Replays for Full {
        fn capacity(&self) -> ReplayCapacity {
            self.0.clone()
        }

        fn is_full(&self, _: &Challenge, is_known: bool) -> bool {
            !is_known
        }
    }

    #[test]
    fn auto_replays_within_the_budget_unless_the_queue_is_full() {
        let capacity = ReplayCapacity(vec![machine(5, 10.0 * f64::from(1 << 24))]);
        let auto =
            |replays: &dyn Replays, is_known, ms| replays.auto_mode(&challenge(), is_known, Duration::from_millis(ms));
        assert_eq!([auto(&capacity, false, 1000), auto(&capacity, false, 999)], [Mode::Replay, Mode::Audit]);
        let full = Full(capacity);
        assert_eq!([auto(&full, false, 1000), auto(&full, true, 1000)], [Mode::Audit, Mode::Replay]);
    }

    #[test]
    fn a_machine_replays_the_kinds_of_work_that_all_its_devices_compute() {
        let challenge = challenge();
        let macs_per_s = BTreeMap::from([(Precision::F16, 1e12)]);
        let other = MachineCapacity { macs_per_s, ..machine(8, 1.0) };
        assert!(!other.fits(&challenge) && other.estimate(&challenge).is_none());
        let capacity = ReplayCapacity(vec![other, machine(5, 1e12)]);
        let room = |precision| capacity.room(precision).map(|room| room[0]);
        assert_eq!([Precision::Int8, Precision::F16, Precision::Fp8].map(room), [Some(5), Some(8), None]);
        let read = MachineCapacity::read(&capacity.0[0].written()).unwrap();
        assert_eq!(read, capacity.0[0]);
    }

    #[test]
    fn an_absurd_capacity_is_not_believed() {
        let good = machine(7, 1e12);
        assert_eq!(MachineCapacity::read(&good.written()).unwrap(), good);
        let absurd = [
            MachineCapacity { devices: 0, ..good.clone() },
            MachineCapacity { devices: 65, ..good.clone() },
            machine(7, -1.0),
            machine(7, 1e20),
        ];
        assert!(
            absurd.iter().all(|c| matches!(MachineCapacity::read(&c.written()), Err(CapacityError::Absurd { .. })))
        );
        for form in ["", "{}", r#"{"devices":1,"macs_per_s":1.0,"room":[1]}"#] {
            assert!(matches!(MachineCapacity::read(form), Err(CapacityError::Form(_))), "{form}");
        }
        let large = MachineCapacity::read(&machine(u32::MAX, 1.0).written()).unwrap();
        assert_eq!(u64::from(large.room[0]), MAX_TOTAL);
    }
}
