//! Rounds: the members of a group are challenged in the same moment, and who did not start in time is named.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use assay_api::{BeginRound, ProblemCode, RoundDetail, RoundsBegun};
use assay_fleet::policy::{RoundScope, Rounds};
use assay_fleet::round::{Member as Candidate, partition};
use assay_fleet::schedule::draw_kind;
use assay_protocol::message::Inventory;
use assay_records::{Actor, MinerFilter, MinerRecord, RoundMember, RoundRecord};

use super::OperationError;
use crate::bounds::MAX_ROUNDS_AT_ONCE;
use crate::clock::{unix_ms, unix_seconds};
use crate::entropy::{Entropy, OsEntropy};
use crate::fleet::rules::laid_over;
use crate::fleet::schedule::uniform;
use crate::fleet::standing_of;
use crate::order::{Asked, Order};
use crate::registry::Miner;
use crate::round::{self, MAX_MEMBERS, Member, MemberEnd};
use crate::validator::Validator;

/// How long a member that does not take its challenge is waited for, where the group's policy does not say it.
const START_WITHIN: Duration = Duration::from_secs(10);
/// Beside the deadline of the commitment, how long probes are held back: for the slowest member's message.
const HOLD_ALLOWANCE: Duration = Duration::from_secs(5);

/// A miner that may be in a round.
struct Invited {
    record: MinerRecord,
    connected: Option<Miner>,
}

/// Runs the rounds of a group that are due by its policy, one after another.
///
/// # Errors
/// [`OperationError`].
pub async fn of_group(validator: &Validator, group: &str) -> Result<(), OperationError> {
    for planned in plan(validator, Some(group), None, Asked::Schedule).await? {
        run(validator, planned).await?;
    }
    Ok(())
}

/// Begins the rounds of a group, which go on by themselves, one after another.
///
/// # Errors
/// [`OperationError`]: no such group, nobody in it, or as many rounds run as may.
pub async fn begin(validator: Arc<Validator>, asked: BeginRound, actor: &Actor) -> Result<RoundsBegun, OperationError> {
    let place = validator.rounds.clone().try_acquire_owned();
    let too_many = |_| {
        let why = format!("{MAX_ROUNDS_AT_ONCE} rounds that operators began run: wait for one to end");
        OperationError::Refused(ProblemCode::Overloaded, why)
    };
    let place = place.map_err(too_many)?;
    let group = asked.group.filter(|group| !group.is_empty());
    let planned = plan(&validator, group.as_deref(), asked.by.map(scope), Asked::Operator).await?;
    let detail = serde_json::json!({ "group": group, "by": asked.by });
    validator.records.note_action(actor, "round", None, &detail.to_string()).await?;
    let rounds = planned.iter().map(|planned| planned.id.clone()).collect();
    tokio::spawn(async move {
        for planned in planned {
            let id = planned.id.clone();
            if let Err(error) = run(&validator, planned).await {
                tracing::warn!(round = id, "a round was not brought to its end: {error}");
            }
        }
        drop(place);
    });
    Ok(RoundsBegun { rounds })
}

const fn scope(scope: assay_api::RoundScope) -> RoundScope {
    match scope {
        assay_api::RoundScope::All => RoundScope::All,
        assay_api::RoundScope::Operator => RoundScope::Operator,
        assay_api::RoundScope::Address => RoundScope::Address,
        assay_api::RoundScope::Model => RoundScope::Model,
    }
}

/// A round that is in the records, and is to begin.
struct Planned {
    id: String,
    asked: Asked,
    invited: Vec<Invited>,
    start_within: Duration,
}

/// Plans the rounds of a group, and notes them.
async fn plan(
    validator: &Validator,
    group: Option<&str>,
    by: Option<RoundScope>,
    asked: Asked,
) -> Result<Vec<Planned>, OperationError> {
    let rules = validator.fleet.rules();
    let named = group.map(|name| rules.policy.group(name).ok_or_else(|| no_group(validator, name))).transpose()?;
    let mut how = named.and_then(|group| group.rounds.clone()).unwrap_or(Rounds {
        mean: None,
        by: RoundScope::All,
        start_within: START_WITHIN,
        most: None,
    });
    how.by = by.unwrap_or(how.by);
    let mut invited = invited(validator, group).await?;
    if invited.is_empty() {
        let of = group.map_or_else(String::new, |group| format!(" in group {group}"));
        return Err(OperationError::NotFound(format!("no miner{of} that may be challenged is in the records")));
    }
    let candidates: Vec<_> = invited.iter().map(|invited| candidate(validator, invited)).collect();
    let draw = |below: usize| OsEntropy.below(below.max(1) as u64).unwrap_or(0) as usize;
    let sets = partition(&candidates, &how, draw);
    if let Some((set, members)) = sets.iter().find(|(_, members)| members.len() > MAX_MEMBERS) {
        let count = members.len();
        return Err(OperationError::NotPossible(format!("{count} miners in {set}: a round has at most {MAX_MEMBERS}")));
    }
    let mut planned = Vec::with_capacity(sets.len());
    for (set, members) in sets {
        let label = match (group, set.as_str()) {
            (Some(group), "all") => group.to_owned(),
            (Some(group), set) => format!("{group}/{set}"),
            (None, set) => set.to_owned(),
        };
        let (of_set, others) = invited.into_iter().partition(|invited| members.contains(&invited.record.id));
        invited = others;
        let mut id = [0; 16];
        id.copy_from_slice(&OsEntropy.bytes().map_err(|error| OperationError::NotPossible(error.to_string()))?[..16]);
        let id = assay_work::ChallengeId(id).to_string();
        note(validator, &id, label, asked, &of_set).await?;
        planned.push(Planned { id, asked, invited: of_set, start_within: how.start_within });
    }
    Ok(planned)
}

fn no_group(validator: &Validator, name: &str) -> OperationError {
    let rules = validator.fleet.rules();
    let names: Vec<_> = rules.policy.groups.iter().map(|group| group.name.as_str()).collect();
    OperationError::NotFound(format!("no group {name} in the fleet's policy: there are {}", names.join(", ")))
}

/// The miners of a group that may be challenged, connected or not.
async fn invited(validator: &Validator, group: Option<&str>) -> Result<Vec<Invited>, OperationError> {
    let (rules, connected) = (validator.fleet.rules(), validator.registry.miners());
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let filter = MinerFilter { after: after.take(), ..MinerFilter::default() };
        let records = validator.records.miners(&filter).await?;
        let Some(last) = records.last() else { return Ok(found) };
        after = Some(last.id.clone());
        for record in records {
            let connected = connected.iter().find(|miner| record.keys.contains(&miner.key.to_string())).cloned();
            let models = connected.as_ref().map(|miner| models_of(&miner.inventory)).unwrap_or_default();
            let names: Vec<&str> = models.iter().map(String::as_str).collect();
            let is_member = group.is_none_or(|group| rules.policy.group_of(&record.labels, &names).name == group);
            // One that never had a session is no member yet.
            let was_here = connected.is_some() || record.last_verdict.is_some();
            if is_member && was_here && standing_of(&record).state.is_challenged() {
                found.push(Invited { record, connected });
            }
        }
    }
}

fn models_of(inventory: &Inventory) -> Vec<String> {
    inventory.devices.iter().map(|device| device.claimed_model().to_owned()).collect()
}

fn candidate(validator: &Validator, invited: &Invited) -> Candidate {
    let Invited { record, connected } = invited;
    let address = connected.as_ref().and_then(|miner| miner.address).map(|address| address.ip());
    Candidate {
        miner: record.id.clone(),
        operator: validator.fleet.rules().policy.operator_of(&record.labels).map(str::to_owned),
        address: address.or_else(|| record.address.parse().ok()).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        model: connected.as_ref().and_then(|miner| models_of(&miner.inventory).into_iter().next()),
    }
}

/// Notes a round before it begins: `label` is its group, or what else its members have in common.
async fn note(
    validator: &Validator,
    id: &str,
    label: String,
    asked: Asked,
    invited: &[Invited],
) -> Result<(), OperationError> {
    let round = RoundRecord {
        id: id.to_owned(),
        group: label,
        asked: asked.name().to_owned(),
        validator: validator.admission.identity.public_key().to_string(),
        begun_ms: unix_ms(),
        ended_ms: None,
        detail: String::new(),
    };
    let members: Vec<_> =
        invited.iter().map(|invited| member(&invited.record.id, "invited", None, String::new())).collect();
    Ok(validator.records.plan_round(&round, &members).await?)
}

fn member(miner: &str, state: &str, challenge: Option<String>, detail: String) -> RoundMember {
    RoundMember { miner: miner.to_owned(), state: state.to_owned(), challenge, at_ms: unix_ms(), detail }
}

/// Runs a round to its end.
async fn run(validator: &Validator, planned: Planned) -> Result<(), OperationError> {
    let Planned { id, asked, invited, start_within } = planned;
    let began_ms = unix_ms();
    // Of one that committed it is known when.
    let committed_at = |end: &MemberEnd| match end {
        MemberEnd::Judged { committed_ms: Some(after), .. } => i64::try_from(*after).ok().map(|after| began_ms + after),
        _ => None,
    };
    validator.records.begin_round(&id, began_ms).await?;
    let mut hold = Duration::ZERO;
    let mut members = Vec::new();
    for Invited { record, connected } in &invited {
        let Some(miner) = connected else { continue };
        let order = order_of(validator, record, miner, asked);
        hold = hold.max(order.policy.commit_deadline + HOLD_ALLOWANCE);
        members.push(Member { miner: miner.key, order });
    }
    let mut report = round::run(validator, &id, members, round::Limits { start_within, hold }).await;
    for Invited { record, .. } in invited.iter().filter(|invited| invited.connected.is_none()) {
        if let Ok(key) = record.key.parse() {
            report.members.insert(key, MemberEnd::NotStarted { why: "not connected".to_owned() });
        }
    }
    for (key, end) in &report.members {
        let (state, challenge, detail) = match end {
            MemberEnd::NotStarted { why } if why == "not connected" => ("absent", None, why.clone()),
            MemberEnd::NotStarted { why } => ("late", None, why.clone()),
            MemberEnd::Judged { challenge_id, outcome, .. } => ("judged", Some(challenge_id), outcome.to_string()),
            MemberEnd::Lost { challenge_id } => ("started", Some(challenge_id), String::new()),
        };
        let mut member = member(&key.to_string(), state, challenge.map(ToString::to_string), detail);
        member.at_ms = committed_at(end).unwrap_or(member.at_ms);
        validator.records.round_member(&id, &member).await?;
    }
    let detail = RoundDetail { probed_ms: report.probed_ms, probed_together: report.probed_together };
    let detail = serde_json::to_string(&detail).unwrap_or_default();
    validator.records.end_round(&id, unix_ms(), &detail).await?;
    Ok(())
}

/// What a member of a round is asked: the heavy kind of its group, which fills its memory, where there is one.
fn order_of(validator: &Validator, record: &MinerRecord, miner: &Miner, asked: Asked) -> Order {
    let rules = validator.fleet.rules();
    let models = models_of(&miner.inventory);
    let names: Vec<&str> = models.iter().map(String::as_str).collect();
    let group = rules.policy.group_of(&record.labels, &names);
    let kind = match &group.heavy {
        Some(heavy) => &heavy.kind,
        None => draw_kind(group, &standing_of(record), unix_seconds(), uniform(&mut OsEntropy)).0,
    };
    Order {
        asked,
        kind: kind.name.clone(),
        group: group.name.clone(),
        ..Order::manual(laid_over(&validator.policy(), group, Some(kind)))
    }
}
