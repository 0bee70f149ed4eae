//! One validator and one miner that may lie.

use assay_protocol::verdict::{Mode, ReasonCode};
use parking_lot::Mutex;

use crate::dishonest::{Disguise, DishonestMiner, Lies};
use crate::evidence::judged_again;
use crate::validator::{Policy, Ruling, TestValidator};

/// The modes that see all of the work, or enough of it.
pub const REPLAY_AND_AUDIT: [Mode; 2] = [Mode::Replay, Mode::Audit];

/// One validator and one connected miner.
pub struct Stage {
    /// The validator.
    pub validator: TestValidator,
    /// The miner.
    pub miner: DishonestMiner,
    /// The modes that the miner has passed in; it passes again after each lie.
    passed: Mutex<Vec<Mode>>,
}

/// Whatever a test made of its stage: the evidence of every verdict gives that verdict again.
impl Drop for Stage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let judged = judged_again(&self.validator.file("evidence"));
            assert!(!judged.is_empty(), "evidence is kept");
        }
    }
}

impl Stage {
    /// A validator with a policy and a miner with devices that claim so many slots of n = 256.
    pub async fn new(policy: &Policy, slots: &[u64]) -> Self {
        Self::of(policy, &Disguise::new(slots)).await
    }

    /// A validator with a policy and this miner.
    pub async fn of(policy: &Policy, disguise: &Disguise) -> Self {
        let mut policy = policy.clone();
        // So that passes are judged again too.
        policy.flags.push("--evidence-passes-percent=100".to_owned());
        let validator = TestValidator::start(&policy).await;
        let miner = DishonestMiner::connect(validator.address, disguise).await;
        validator.wait_for_miner(miner.key, true).await;
        Self { validator, miner, passed: Mutex::default() }
    }

    /// One device, the usual policy.
    pub async fn with_one_device() -> Self {
        Self::new(&Policy::default(), &[14]).await
    }

    /// Two devices of the same size, the usual policy.
    pub async fn with_two_devices() -> Self {
        Self::new(&Policy::default(), &[7, 7]).await
    }

    /// Challenges the miner.
    ///
    /// # Panics
    /// When no challenge is made.
    pub async fn challenge(&self, mode: Mode) -> Ruling {
        let ruling = self.validator.challenge(self.miner.key, Some(mode)).await;
        ruling.unwrap_or_else(|status| panic!("no challenge was made: {status}"))
    }

    /// The whole of most tests: in each mode the miner passes while it is honest, is caught for `code` while it
    /// lies, and passes again after.
    ///
    /// # Panics
    /// When one of them is otherwise.
    pub async fn catches(&self, modes: &[Mode], code: ReasonCode, lie: impl Fn(&Lies)) {
        for &mode in modes {
            // The pass after one lie is the pass before the next.
            if !self.passed.lock().contains(&mode) {
                self.challenge(mode).await.expect_pass();
                self.passed.lock().push(mode);
            }
            lie(&self.miner.lies);
            self.challenge(mode).await.expect(code);
            self.miner.lies.stop();
            self.challenge(mode).await.expect_pass();
        }
    }

    /// As [`Stage::catches`] in mode replay, for a lie that the samples before the replay may see, or else the replay.
    ///
    /// # Panics
    /// When one of them is otherwise.
    pub async fn catches_in_replay(&self, sampled: ReasonCode, lie: impl Fn(&Lies)) {
        self.challenge(Mode::Replay).await.expect_pass();
        lie(&self.miner.lies);
        let ruling = self.challenge(Mode::Replay).await;
        let replayed = ruling.verdict.reasons.iter().any(|reason| reason.code == ReasonCode::RootMismatch.name());
        ruling.expect(if replayed { ReasonCode::RootMismatch } else { sampled });
        self.miner.lies.stop();
        self.challenge(Mode::Replay).await.expect_pass();
    }

    /// As [`Stage::catches`], for a lie that the session ends with.
    ///
    /// # Panics
    /// When one of them is otherwise.
    pub async fn throws_out(mut self, mode: Mode, code: ReasonCode, lie: impl Fn(&Lies)) {
        self.challenge(mode).await.expect_pass();
        lie(&self.miner.lies);
        self.challenge(mode).await.expect(code);
        self.validator.wait_for_miner(self.miner.key, false).await;
        // How the miner learns of it is a race between the goodbye and the end of the stream.
        let _ = self.miner.ended().await;
    }
}
