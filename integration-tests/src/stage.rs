//! One validator and one miner that may lie.

use assay_protocol::verdict::Mode;

use crate::dishonest::{Disguise, DishonestMiner};
use crate::evidence::judged_again;
use crate::validator::{Policy, Ruling, TestValidator};

/// One validator and one connected miner.
pub struct Stage {
    pub validator: TestValidator,
    pub miner: DishonestMiner,
}

/// The evidence of every verdict gives that verdict again, in every test.
impl Drop for Stage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let judged = judged_again(&self.validator.file("evidence"));
            assert!(!judged.is_empty(), "evidence is kept");
        }
    }
}

impl Stage {
    /// A validator with a policy and a miner with a device for each of these claimed counts of slots of n = 256.
    pub async fn new(policy: &Policy, slots: &[u64]) -> Self {
        Self::of(policy, &Disguise::new(slots)).await
    }

    /// A validator with a policy and this miner.
    pub async fn of(policy: &Policy, disguise: &Disguise) -> Self {
        let mut policy = policy.clone();
        // So that passes are judged again too.
        policy.keeps_passes_percent = Some(100);
        let validator = TestValidator::start(&policy).await;
        let miner = DishonestMiner::connect(validator.address, disguise).await;
        validator.wait_for_miner(miner.key, true).await;
        Self { validator, miner }
    }

    /// One device, the usual policy.
    pub async fn with_one_device() -> Self {
        Self::new(&Policy::default(), &[14]).await
    }

    pub async fn challenge(&self, mode: Mode) -> Ruling {
        let ruling = self.validator.challenge(self.miner.key, Some(mode)).await;
        ruling.unwrap_or_else(|status| panic!("no challenge was made: {status}"))
    }
}
