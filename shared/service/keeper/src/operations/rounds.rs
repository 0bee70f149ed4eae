//! Rounds: the members of a group are challenged at the same time, and late starters are named.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use assay_api::{BeginRound, ProblemCode, RoundDetail, StartedRound};
use assay_policy::round::drawn;
use assay_policy::schedule::draw_kind;
use assay_protocol::message::Inventory;
use assay_records::{Actor, MinerFilter, MinerRecord, Records, RecordsError, RoundMember, RoundRecord};

use super::OperationError;
use crate::fleet::conclude::at_last;
use crate::fleet::schedule::uniform;
use crate::order::{Order, OrderOrigin};
use crate::registry::ConnectedMiner;
use crate::round::{self, MAX_MEMBERS, Member, MemberEnd, RoundReport};
use crate::validator::Validator;
use assay_judge::entropy::{Entropy, OsEntropy};
use assay_judge::issue;
use assay_listen::bounds::MAX_ROUNDS_AT_ONCE;
use assay_program::clock::{unix_ms, unix_seconds};
use tokio::time::timeout;

/// Default time limit for a member to take its challenge.
const START_WITHIN: Duration = Duration::from_secs(10);
/// Hold of the probes beyond the last start and the deadline of the commitment: for the slowest member's message.
const HOLD_ALLOWANCE: Duration = Duration::from_secs(5);

/// Label of the rounds for disputed devices.
const DISPUTED: &str = "disputed device";
/// Time in ms within which two miners are not in another such round.
const DISPUTED_AGAIN_MS: i64 = 3_600_000;
/// The same after a round in which one of them was not challenged.
const UNSTARTED_AGAIN_MS: i64 = 600_000;

/// A possible member of a round.
struct RoundCandidate {
    record: MinerRecord,
    connected: Option<ConnectedMiner>,
}

/// Runs the scheduled round of a group.
pub async fn of_group(validator: &Validator, group: &str) -> Result<(), OperationError> {
    run(validator, plan(validator, Some(group), OrderOrigin::Schedule).await?).await
}

/// Challenges a miner in one round with the others that show its devices: it is unknown which of them lies. With each of
/// them it is in one such round an hour; rounds of theirs with others delay none of its own.
pub async fn of_disputed(
    validator: &Validator,
    asking: String,
    others: BTreeSet<String>,
) -> Result<(), OperationError> {
    let place = timeout(Duration::from_millis(DISPUTED_AGAIN_MS.unsigned_abs()), validator.capacity.disputes.acquire());
    let Ok(Ok(_place)) = place.await else { return Ok(()) };
    let since_ms = (unix_ms() - DISPUTED_AGAIN_MS, unix_ms() - UNSTARTED_AGAIN_MS);
    let mut is_open = false;
    for other in &others {
        is_open = is_open || !validator.records.were_in_round([&asking, other], DISPUTED, since_ms).await?;
    }
    if !is_open {
        return Ok(());
    }
    let connected = validator.registry.miners();
    let mut invited = Vec::new();
    for miner in std::iter::once(&asking).chain(&others).take(MAX_MEMBERS) {
        let record = validator.records.miner(miner).await?;
        let Some(record) = record.filter(|it| it.standing().state.is_challenged()) else { continue };
        let connected = connected.iter().find(|miner| record.keys.contains(&miner.who.miner.to_string())).cloned();
        invited.push(RoundCandidate { record, connected });
    }
    run(validator, note(validator, DISPUTED, OrderOrigin::Schedule, invited, START_WITHIN).await?).await
}

/// Starts a round of a group in the background.
///
/// # Errors
/// [`OperationError`]: no such group, no members in it, or the limit of concurrent rounds.
pub async fn begin(
    validator: Arc<Validator>,
    asked: BeginRound,
    actor: &Actor,
) -> Result<StartedRound, OperationError> {
    let place = validator.capacity.rounds.clone().try_acquire_owned();
    let too_many = |_| {
        let why = format!("{MAX_ROUNDS_AT_ONCE} rounds that operators began run: wait for one to end");
        OperationError::Refused(ProblemCode::Overloaded, why)
    };
    let place = place.map_err(too_many)?;
    let empty = || OperationError::Invalid("group: it is empty: leave it out for all miners".to_owned());
    let group = asked.group.map(|group| Some(group).filter(|group| !group.is_empty()).ok_or_else(empty)).transpose()?;
    let actor = actor.clone();
    // The client may hang up meanwhile: once it is recorded the round comes to its end without it.
    let begun = tokio::spawn(async move {
        let planned = plan(&validator, group.as_deref(), OrderOrigin::Operator).await?;
        let (id, detail) = (planned.id.clone(), serde_json::json!({ "group": group }).to_string());
        let begun = StartedRound { round: id.clone() };
        tokio::spawn(async move {
            let noted = validator.records.note_action(&actor, "round", None, &detail).await;
            noted.unwrap_or_else(|error| tracing::warn!(round = id, "it is not noted who began a round: {error}"));
            if let Err(error) = run(&validator, planned).await {
                tracing::warn!(round = id, "a round was not brought to its end: {error}");
            }
            drop(place);
        });
        Ok(begun)
    });
    begun.await.unwrap_or_else(|error| Err(OperationError::NotPossible(error.to_string())))
}

/// A recorded round before its start.
struct PlannedRound {
    id: String,
    asked: OrderOrigin,
    invited: Vec<RoundCandidate>,
    start_within: Duration,
}

/// Plans and records a round of a group.
async fn plan(validator: &Validator, group: Option<&str>, asked: OrderOrigin) -> Result<PlannedRound, OperationError> {
    let rules = validator.fleet.rules();
    let unknown = |name: &str| {
        let names: Vec<_> = rules.policy.groups.iter().map(|group| group.name.as_str()).collect();
        OperationError::NotFound(format!("no group {name} in the fleet's policy: there are {}", names.join(", ")))
    };
    let named = group.map(|name| rules.policy.group(name).ok_or_else(|| unknown(name))).transpose()?;
    let how = named.and_then(|group| group.rounds.as_ref());
    let found = invited(validator, group).await?;
    if found.is_empty() {
        let of = group.map_or_else(String::new, |group| format!(" in group {group}"));
        return Err(OperationError::NotFound(format!("no miner{of} that may be challenged is in the records")));
    }
    let draw = |below: usize| OsEntropy.below(below.max(1) as u64).unwrap_or(0) as usize;
    let invited = drawn(found, how.and_then(|how| how.most), draw);
    let (label, count) = (group.unwrap_or("all"), invited.len());
    if count > MAX_MEMBERS {
        let why = format!("{count} miners in {label}: a round has at most {MAX_MEMBERS}");
        return Err(OperationError::NotPossible(why));
    }
    note(validator, label, asked, invited, how.map_or(START_WITHIN, |how| how.start_within)).await
}

/// Miners of a group that may be challenged, connected or not.
async fn invited(validator: &Validator, group: Option<&str>) -> Result<Vec<RoundCandidate>, OperationError> {
    let (rules, connected) = (validator.fleet.rules(), validator.registry.miners());
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let filter = MinerFilter { after: after.take(), ..MinerFilter::default() };
        let records = validator.records.miners(&filter).await?;
        let Some(last) = records.last() else { return Ok(found) };
        after = Some(last.id.clone());
        for record in records {
            let connected = connected.iter().find(|miner| record.keys.contains(&miner.who.miner.to_string())).cloned();
            let models = connected.as_ref().map(|miner| models_of(&miner.inventory)).unwrap_or_default();
            let is_member = group.is_none_or(|group| rules.policy.group_of(&record.labels, &models).name == group);
            // A miner without a session so far is not a member yet.
            let was_here = connected.is_some() || record.last_verdict.is_some();
            if is_member && was_here && record.standing().state.is_challenged() {
                found.push(RoundCandidate { record, connected });
            }
        }
    }
}

fn models_of(inventory: &Inventory) -> Vec<String> {
    inventory.devices.iter().map(|device| device.claimed_model().to_owned()).collect()
}

/// Records a round before it begins: `label` is its group, or the common property of its members.
async fn note(
    validator: &Validator,
    label: &str,
    asked: OrderOrigin,
    invited: Vec<RoundCandidate>,
    start_within: Duration,
) -> Result<PlannedRound, OperationError> {
    let (id, _) = issue::fresh(&mut OsEntropy).map_err(|error| OperationError::NotPossible(error.to_string()))?;
    let id = id.to_string();
    let round = RoundRecord {
        id: id.clone(),
        group: label.to_owned(),
        asked: asked.name().to_owned(),
        validator: validator.access.admission.identity.public_key().to_string(),
        begun_ms: unix_ms(),
        ended_ms: None,
        detail: String::new(),
    };
    let members: Vec<_> =
        invited.iter().map(|invited| member(&invited.record.id, "invited", None, String::new())).collect();
    validator.records.plan_round(&round, &members).await?;
    Ok(PlannedRound { id, asked, invited, start_within })
}

fn member(miner: &str, state: &str, challenge: Option<String>, detail: String) -> RoundMember {
    RoundMember { miner: miner.to_owned(), state: state.to_owned(), challenge, at_ms: unix_ms(), detail }
}

/// Runs a round to its end.
async fn run(validator: &Validator, planned: PlannedRound) -> Result<(), OperationError> {
    let PlannedRound { id, asked, invited, start_within } = planned;
    let began_ms = unix_ms();
    if let Err(error) = validator.records.begin_round(&id, began_ms).await {
        end(&validator.records, &id, began_ms, &RoundReport::default()).await?;
        return Err(error.into());
    }
    let mut hold = Duration::ZERO;
    let mut members = Vec::new();
    for RoundCandidate { record, connected } in &invited {
        let Some(miner) = connected else { continue };
        let order = order_of(validator, record, miner, asked);
        hold = hold.max(start_within + order.policy.commit_deadline + HOLD_ALLOWANCE);
        members.push(Member { miner: miner.who.miner, id: record.id.clone(), order });
    }
    let mut report = round::run(validator, &id, members, round::RoundLimits { start_within, hold }).await;
    for RoundCandidate { record, .. } in invited.iter().filter(|invited| invited.connected.is_none()) {
        if let Ok(key) = record.key.parse() {
            report.members.insert(key, MemberEnd::NotStarted("not connected".to_owned()));
        }
    }
    Ok(end(&validator.records, &id, began_ms, &report).await?)
}

/// Records the ends of a round's members, and its own, once the records can be written: without an end it would count as
/// running until a restart. An end that they refuse stops no other one.
async fn end(records: &Records, id: &str, began_ms: i64, report: &RoundReport) -> Result<(), RecordsError> {
    // Only committed members have a time.
    let committed_at = |end: &MemberEnd| match end {
        MemberEnd::Judged { committed_ms: Some(after), .. } => i64::try_from(*after).ok().map(|after| began_ms + after),
        _ => None,
    };
    let mut noted = Ok(());
    for (key, end) in &report.members {
        let (state, challenge, detail) = match end {
            MemberEnd::NotStarted(why) if why == "not connected" => ("absent", None, why.clone()),
            MemberEnd::NotStarted(why) => ("late", None, why.clone()),
            MemberEnd::Judged { challenge_id, outcome, .. } => ("judged", Some(challenge_id), outcome.to_string()),
            MemberEnd::Lost(challenge_id) => ("started", Some(challenge_id), String::new()),
        };
        let mut member = member(&key.to_string(), state, challenge.map(ToString::to_string), detail);
        member.at_ms = committed_at(end).unwrap_or(member.at_ms);
        noted = noted.and(at_last(|| records.round_member(id, &member)).await);
    }
    let detail = RoundDetail { probed_ms: report.probed_ms, probed_together: report.probed_together };
    let detail = serde_json::to_string(&detail).unwrap_or_default();
    at_last(|| records.end_round(id, unix_ms(), &detail)).await?;
    noted
}

/// The order of a member: the heavy kind of its group, which fills its memory, if there is one.
fn order_of(validator: &Validator, record: &MinerRecord, miner: &ConnectedMiner, asked: OrderOrigin) -> Order {
    let rules = validator.fleet.rules();
    let models = models_of(&miner.inventory);
    let group = rules.policy.group_of(&record.labels, &models);
    let kind = match &group.heavy {
        Some(heavy) => &heavy.kind,
        None => draw_kind(group, &record.standing(), unix_seconds(), uniform(&mut OsEntropy)).0,
    };
    Order::of(asked, group, kind, &validator.policy())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use assay_records::calls::{CallFuture, Calls};
    use assay_records::{Location, MinerChange};
    use assay_work::{ChallengeId, PublicKey};

    use super::*;

    /// A database of which so many of the next calls get no answer; of two the first is done.
    #[derive(Debug, Default)]
    struct Unanswered(AtomicU32);

    impl Calls for Unanswered {
        fn run<'a>(self: Arc<Self>, work: CallFuture<'a>) -> CallFuture<'a, bool> {
            Box::pin(async move {
                let left = self.0.load(Ordering::SeqCst);
                self.0.store(left.saturating_sub(1), Ordering::SeqCst);
                if left != 1 {
                    work.await;
                }
                left == 0
            })
        }

        fn run_for_others<'a>(self: Arc<Self>, work: CallFuture<'a>) -> CallFuture<'a> {
            work
        }
    }

    /// Regression test: a round whose end the records could not take stayed open until the validator restarted.
    #[tokio::test]
    async fn a_round_ends_once_the_records_can_be_written() {
        let (folder, calls) = (tempfile::tempdir().unwrap(), Arc::<Unanswered>::default());
        let location = Location::File(folder.path().join("validator.db"));
        let records = Records::open_simulated(&location, calls.clone()).await.unwrap();
        records.plan_round(&crate::tests::round("aa", PublicKey([0xee; 32])), &[]).await.unwrap();
        calls.0.store(2, Ordering::SeqCst);
        end(&records, "aa", 1, &RoundReport::default()).await.unwrap();
        assert_eq!(calls.0.load(Ordering::SeqCst), 0);
        assert!(records.round("aa").await.unwrap().unwrap().0.ended_ms.is_some());
    }

    /// Regression test: a round with a member whose end could not be recorded never ended.
    #[tokio::test]
    async fn a_round_ends_also_where_a_member_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let [gone, here] = [1, 2].map(|key| PublicKey([key; 32]));
        let allow = MinerChange { action: "allow", status: None, standing: None };
        let actor = Actor { name: "ada".to_owned(), uid: None };
        records.change_miner(&here.to_string(), &allow, &actor).await.unwrap();
        records.plan_round(&crate::tests::round("aa", PublicKey([0xee; 32])), &[]).await.unwrap();
        let lost = || MemberEnd::Lost(ChallengeId([3; 16]));
        let report = RoundReport { members: [gone, here].map(|key| (key, lost())).into(), ..RoundReport::default() };
        assert!(matches!(end(&records, "aa", 1, &report).await, Err(RecordsError::NoSuchMiner(_))));
        let (round, members) = records.round("aa").await.unwrap().unwrap();
        assert!(round.ended_ms.is_some());
        assert_eq!(members.iter().map(|member| &member.miner).collect::<Vec<_>>(), [&here.to_string()]);
    }
}
