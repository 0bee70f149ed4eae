//! Invariants of a simulated fleet, checked at its end against the records.

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_program::clock;
use assay_protocol::verdict::{Outcome, Verdict};
use assay_records::{Records, VerdictFilter};

use super::miner::MinerHost;
use super::plan::Conduct;
use super::validator::ABANDONED_LIMIT;
use super::world::{SentOffer, World, short};

/// How long a challenge without a verdict may have run at the end: it goes on.
const RUNNING: Duration = Duration::from_secs(45);

/// Checks what was told against the records.
pub async fn check(world: &World, records: &Records, miners: &[Arc<MinerHost>]) {
    let offers = world.ledger().offers.clone();
    for (number, miner) in miners.iter().enumerate() {
        let filter = VerdictFilter { miner: Some(miner.key()), ..VerdictFilter::default() };
        let rows = records.verdicts(&filter).await.expect("records are read");
        let mut verdicts: Vec<Verdict> =
            rows.iter().map(|row| serde_json::from_str(row.verdict.get()).expect("a verdict")).collect();
        verdicts.reverse();
        let own: Vec<_> = offers.iter().filter(|offer| offer.pair.1 == number).collect();
        told(world, &own, &verdicts);
        judged(world, number, &own, &verdicts);
        if world.plan.conduct[number] == Conduct::Abandons {
            abandoned(world, &verdicts);
        }
    }
    for offer in &offers {
        let challenge = records.challenge(&offer.id.to_string()).await.expect("records are read");
        let runs = challenge.is_some_and(|challenge| challenge.ended_ms.is_none());
        if runs && (offer.is_orphan || clock::since(offer.at) > RUNNING) {
            world.broken(format!("lost: challenge {} of m{} has no verdict", short(offer.id), offer.pair.1));
        }
    }
}

/// Each verdict that was told is the recorded one.
fn told(world: &World, offers: &[&SentOffer], verdicts: &[Verdict]) {
    for offer in offers {
        let recorded = verdicts.iter().find(|verdict| verdict.challenge_id == offer.id).map(|verdict| verdict.outcome);
        for told in &offer.told {
            if recorded != Some(*told) {
                let of = short(offer.id);
                world.broken(format!("lost: {of} of m{}: told {told:?}, recorded {recorded:?}", offer.pair.1));
            }
        }
    }
}

/// No honest miner fails, and no other one passes.
fn judged(world: &World, number: usize, offers: &[&SentOffer], verdicts: &[Verdict]) {
    let conduct = world.plan.conduct[number];
    let lost_device = world.ledger().lost_device;
    for verdict in verdicts {
        let codes: Vec<_> = verdict.reasons.iter().map(|reason| reason.code.name()).collect();
        let offered = offers.iter().find(|offer| offer.id == verdict.challenge_id).map(|offer| offer.at);
        let said = || format!("m{number}, {conduct:?}: {} {codes:?}", short(verdict.challenge_id));
        match (conduct, verdict.outcome) {
            (Conduct::Honest, Outcome::Fail) => world.broken(format!("blamed: {}", said())),
            (Conduct::Forges | Conduct::Late | Conduct::Abandons, Outcome::Pass) => {
                world.broken(format!("passed: {}", said()));
            }
            (Conduct::LosesDevice, Outcome::Pass)
                if is_after(offered, lost_device) && showed_all(verdicts, verdict) =>
            {
                world.broken(format!("forgotten: {}", said()));
            }
            _ => {}
        }
    }
}

fn is_after(at: Option<Instant>, event: Option<Instant>) -> bool {
    at.zip(event).is_some_and(|(at, event)| at > event)
}

/// Whether an earlier verdict passed on both devices.
fn showed_all(verdicts: &[Verdict], before: &Verdict) -> bool {
    let earlier = verdicts.iter().take_while(|verdict| verdict.challenge_id != before.challenge_id);
    earlier.into_iter().any(|verdict| verdict.outcome == Outcome::Pass && verdict.devices.len() == 2)
}

/// Of the abandoned challenges of a miner, the last that it may is a failure, and every later one: those that are none are
/// fewer, whatever the clocks said of their order.
fn abandoned(world: &World, verdicts: &[Verdict]) {
    let is_mild = |verdict: &&Verdict| verdict.reasons.iter().any(|reason| reason.code.name() == "abandoned");
    let mild: Vec<_> = verdicts.iter().filter(is_mild).map(|verdict| short(verdict.challenge_id)).collect();
    if mild.len() >= ABANDONED_LIMIT as usize {
        world.broken(format!("forgotten: {} are abandoned, and none is a failure", mild.join(", ")));
    }
}
