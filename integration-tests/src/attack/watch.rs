//! The cost of an attack to the validator, and its effect on an honest miner and a newcomer.

use std::io;
use std::time::{Duration, Instant};

use assay_api::ProblemCode;
use assay_protocol::verdict::Mode;
use assay_protocol::wire::v1::Outcome;
use assay_work::PublicKey;

use super::{Attack, Scale};
use crate::dialled::Target;
use crate::handmade::HandmadeMiner;
use crate::validator::{Policy, TestValidator};

/// Where honest miners dial from.
const HONEST: [u8; 4] = [127, 0, 0, 1];
/// Between two newcomers, and between two attempts of one.
const PAUSE: Duration = Duration::from_millis(100);

/// Measurements during an attack.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// The count that [`Attack::run`] gives.
    pub count: u32,
    /// How long it went on.
    pub time: Duration,
    /// The growth of the validator's memory at its peak.
    pub grown_bytes: u64,
    /// The validator's time on cores.
    pub cpu: Duration,
    /// Challenges that the honest miner passed, and those that it did not.
    pub passed: u32,
    /// As they are counted by outcome.
    pub not_passed: u32,
    /// The longest that one of them took.
    pub longest_challenge: Duration,
    /// Newcomers that got in, and all of them.
    pub newcomers: [u32; 2],
    /// The longest that one of them took.
    pub longest_newcomer: Duration,
}

/// The policy of a validator that is attacked: it challenges each miner that connects, by small work.
#[must_use]
pub fn policy() -> Policy {
    let flags = vec!["--policy-fields=openings_deadline=120s".to_owned()];
    Policy { challenge_on_connect: true, ping_interval_ms: 10_000, flags, ..Policy::default() }
}

/// Attacks a validator, and meanwhile challenges a miner that is connected there, and lets newcomers in.
pub async fn attack(
    validator: &TestValidator,
    honest: PublicKey,
    attack: Attack,
    target: Target,
    scale: Scale,
) -> io::Result<Measured> {
    let (before, cpu) = (validator.daemon.memory(), validator.daemon.cpu_time());
    validator.daemon.forget_peak();
    let began = Instant::now();
    let attacking = tokio::spawn(attack.run(target, scale));
    let is_over = || attacking.is_finished();
    let (challenged, newcomers) = tokio::join!(challenge(validator, honest, is_over), newcomers(target, is_over));
    let count = attacking.await.map_err(io::Error::other)??;
    let (passed, not_passed, longest_challenge) = challenged;
    let (newcomers, longest_newcomer) = newcomers;
    let peak = validator.daemon.memory().peak_bytes;
    Ok(Measured {
        count,
        time: began.elapsed(),
        grown_bytes: peak.saturating_sub(before.now_bytes),
        cpu: validator.daemon.cpu_time().saturating_sub(cpu),
        passed,
        not_passed,
        longest_challenge,
        newcomers,
        longest_newcomer,
    })
}

/// One challenge after another until it is over, at least one.
async fn challenge(validator: &TestValidator, honest: PublicKey, is_over: impl Fn() -> bool) -> (u32, u32, Duration) {
    let (mut passed, mut not_passed, mut longest) = (0, 0, Duration::ZERO);
    loop {
        let began = Instant::now();
        match validator.challenge(honest, Some(Mode::Audit)).await {
            Ok(ruling) if ruling.verdict.outcome() == Outcome::Pass => passed += 1,
            // One that the policy asked for runs.
            Err(error) if matches!(error.code(), Some(ProblemCode::Busy | ProblemCode::NotPossible)) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            _ => not_passed += 1,
        }
        longest = longest.max(began.elapsed());
        if is_over() {
            return (passed, not_passed, longest);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Miners that come and go until it is over, at least one.
async fn newcomers(target: Target, is_over: impl Fn() -> bool) -> ([u32; 2], Duration) {
    let (mut entered, mut came, mut longest) = (0, 0, Duration::ZERO);
    loop {
        let (began, mut seed) = (Instant::now(), [0xb0; 32]);
        seed[..4].copy_from_slice(&u32::to_be_bytes(came));
        came += 1;
        while began.elapsed() < crate::daemon::PATIENCE {
            let entering = HandmadeMiner::accepted(target, HONEST, seed, 0);
            if tokio::time::timeout(Duration::from_secs(20), entering).await.is_ok_and(|entered| entered.is_ok()) {
                entered += 1;
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        longest = longest.max(began.elapsed());
        if is_over() {
            return ([entered, came], longest);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
