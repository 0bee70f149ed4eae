//! A round: the members of a group are challenged at the same time, so that one card cannot stand in for two.
//!
//! Every member's probe waits until all of them have committed: their memory is filled at the same time, and answering
//! for two hosts with one requires the memory of both.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use assay_program::clock;
use assay_protocol::verdict::{Outcome, Verdict};
use assay_work::{ChallengeId, PublicKey};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;

use crate::course::Course;
use crate::order::{Order, ProbedMembers, RoundPart};
use crate::registry::SessionCommand;
use crate::validator::Validator;
use assay_judge::run::HELD;
use assay_judge::session::StartError;

/// The longest wait of a round for places among the concurrent challenges.
const PLACES_LIMIT: Duration = Duration::from_secs(10);
/// The most members of a round: each waits for a place among the concurrent challenges.
pub const MAX_MEMBERS: usize = 4096;
/// Buffered news of members.
const NEWS: usize = 64;

/// A member of a round, with its order.
#[derive(Debug, Clone)]
pub struct Member {
    /// The key of its session.
    pub miner: PublicKey,
    /// The miner's id in the records.
    pub id: String,
    /// The challenge; its part in the round is filled in here.
    pub order: Order,
}

/// Result of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberEnd {
    /// It did not start with the others, for this reason.
    NotStarted(String),
    Judged {
        /// Id of the challenge.
        challenge_id: ChallengeId,
        /// Milliseconds from the round's start to its commitment; `None` without one.
        committed_ms: Option<u64>,
        /// Outcome of the verdict.
        outcome: Outcome,
    },
    /// Its session was lost with its verdict on the way: the records have it.
    Lost(ChallengeId),
}

/// Result of a round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoundReport {
    /// Milliseconds from its start until the probes went out; `None` without any commitment.
    pub probed_ms: Option<u64>,
    /// Number of members probed at the same time.
    pub probed_together: u32,
    pub members: BTreeMap<PublicKey, MemberEnd>,
}

/// Progress of a member's challenge.
#[derive(Debug)]
enum MemberEvent {
    Started(Result<ChallengeId, StartError>),
    /// It did not take its challenge in time.
    Late,
    Committed,
    Ended(Option<Box<Verdict>>),
}

/// State of a member while the round runs.
#[derive(Debug, Default)]
struct MemberProgress {
    /// The miner's id in the records.
    id: String,
    challenge: Option<ChallengeId>,
    committed: Option<Instant>,
    is_late: bool,
    end: Option<MemberEnd>,
}

/// Time limits of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundLimits {
    /// For a member to begin: longer means that it did not start in time.
    pub start_within: Duration,
    /// For the others' commitments, while the probe of a committed member is held.
    pub hold: Duration,
}

/// Challenges all members at once, and waits for their verdicts.
pub async fn run(validator: &Validator, id: &str, members: Vec<Member>, limits: RoundLimits) -> RoundReport {
    let began = clock::now();
    let mut report = RoundReport::default();
    let invited = |member: &Member| MemberProgress { id: member.id.clone(), ..MemberProgress::default() };
    let mut progress: BTreeMap<_, _> = members.iter().map(|member| (member.miner, invited(member))).collect();
    let probed = Arc::new(OnceLock::new());
    let (news, mut told) = mpsc::channel(NEWS);
    let mut tasks = JoinSet::new();
    for (member, place) in places(validator, members, &mut progress).await {
        let Member { miner, mut order, .. } = member;
        order.round = Some(RoundPart { id: id.to_owned(), hold: limits.hold, probed: probed.clone() });
        let Some(commands) = validator.registry.commands(miner) else {
            progress.entry(miner).or_default().end = Some(not_started("not connected"));
            continue;
        };
        tasks.spawn(follow((miner, order, place), commands, news.clone(), limits.start_within));
    }
    drop(news);
    let mut released = false;
    while let Some((miner, what)) = told.recv().await {
        let Some(member) = progress.get_mut(&miner) else { continue };
        match what {
            MemberEvent::Started(started) => {
                // One that another challenge keeps busy is not late by its own doing, but with two in a row it evades rounds.
                let running = validator.registry.running(miner).filter(|_| matches!(started, Err(StartError::Busy)));
                member.is_late = validator.fleet.was_busy_before(&member.id, running.map(|running| running.id));
                match started {
                    Ok(id) => member.challenge = Some(id),
                    Err(error) => member.end = Some(not_started(&error.to_string())),
                }
            }
            MemberEvent::Late => {
                let running = validator.registry.running(miner).map(|running| running.id);
                member.is_late = validator.fleet.was_busy_before(&member.id, running) || running.is_none();
                member.end = Some(not_started(&format!("it did not start within {:?}", limits.start_within)));
            }
            MemberEvent::Committed => member.committed = Some(clock::now()),
            MemberEvent::Ended(verdict) => member.end = Some(ended(member, began, verdict.as_deref())),
        }
        if !released && progress.values().all(|member| member.committed.is_some() || member.end.is_some()) {
            released = true;
            let members = members_of(progress.values());
            report.probed_together = members.committed.len() as u32;
            if report.probed_together > 0 {
                report.probed_ms = Some(clock::since(began).as_millis() as u64);
            }
            // A round releases its members once.
            let _ = probed.set(members);
            release(validator, &progress);
        }
    }
    let end = |mut member: MemberProgress| member.end.take().unwrap_or_else(|| ended(&member, began, None));
    report.members = progress.into_iter().map(|(miner, member)| (miner, end(member))).collect();
    report
}

/// The members whose probes go out now, and those that ended before; of others the round says nothing.
fn members_of<'a>(progress: impl IntoIterator<Item = &'a MemberProgress>) -> ProbedMembers {
    let mut members = ProbedMembers::default();
    for member in progress.into_iter().filter(|it| it.challenge.is_some() || it.is_late) {
        let of = if member.end.is_none() { &mut members.committed } else { &mut members.uncommitted };
        of.insert(member.id.clone());
    }
    members
}

/// Gives each member a place among the concurrent challenges, before the first one starts.
async fn places(
    validator: &Validator,
    members: Vec<Member>,
    progress: &mut BTreeMap<PublicKey, MemberProgress>,
) -> Vec<(Member, OwnedSemaphorePermit)> {
    let mut placed = Vec::with_capacity(members.len());
    let until = clock::now() + PLACES_LIMIT;
    for member in members {
        let place = validator.capacity.challenges.clone().acquire_owned();
        match tokio::time::timeout_at(until.into(), place).await {
            Ok(Ok(place)) => placed.push((member, place)),
            _ => progress.entry(member.miner).or_default().end = Some(not_started(&StartError::TooMany.to_string())),
        }
    }
    placed
}

/// Starts one member's challenge, and reports its progress.
async fn follow(
    (miner, order, place): (PublicKey, Order, OwnedSemaphorePermit),
    commands: mpsc::Sender<SessionCommand>,
    news: mpsc::Sender<(PublicKey, MemberEvent)>,
    start_within: Duration,
) {
    let (started, answer) = oneshot::channel();
    let run = SessionCommand::Run { order: Box::new(order), place: Some(place), started };
    let begin = async {
        commands.send(run).await.map_err(|_| StartError::NotConnected)?;
        answer.await.map_err(|_| StartError::NotConnected)?
    };
    let Ok(begun) = tokio::time::timeout(start_within, begin).await else {
        // The round receives as long as it has members.
        let _ = news.send((miner, MemberEvent::Late)).await;
        return;
    };
    // The round receives as long as it has members.
    let (id, begun) = match begun {
        Ok(course) => {
            let id = course.borrow().now().id;
            (Ok(id), Some(course))
        }
        Err(error) => (Err(error), None),
    };
    let _ = news.send((miner, MemberEvent::Started(id))).await;
    if let Some(mut course) = begun {
        let has_committed = |course: &Course| course.phases().any(|now| now.phase == HELD) || course.verdict.is_some();
        if course.wait_for(has_committed).await.is_ok_and(|course| course.verdict.is_none()) {
            let _ = news.send((miner, MemberEvent::Committed)).await;
        }
        // Without a session there is no further information.
        let verdict = course.wait_for(|course| course.verdict.is_some()).await.ok().and_then(|it| it.verdict.clone());
        let _ = news.send((miner, MemberEvent::Ended(verdict))).await;
    }
}

/// Sends the held probes at once.
fn release(validator: &Validator, progress: &BTreeMap<PublicKey, MemberProgress>) {
    for (miner, member) in progress {
        let (Some(id), None) = (member.challenge, &member.end) else { continue };
        if let Some(commands) = validator.registry.commands(*miner)
            && let Err(TrySendError::Full(command)) = commands.try_send(SessionCommand::Release(id))
        {
            // In tasks: a busy session does not delay the others; an ended one has its verdict.
            tokio::spawn(async move { commands.send(command).await });
        }
    }
}

fn not_started(why: &str) -> MemberEnd {
    MemberEnd::NotStarted(why.to_owned())
}

fn ended(member: &MemberProgress, began: Instant, verdict: Option<&Verdict>) -> MemberEnd {
    let committed_ms = member.committed.map(|at| at.saturating_duration_since(began).as_millis() as u64);
    match (verdict, member.challenge) {
        (Some(verdict), _) => {
            MemberEnd::Judged { challenge_id: verdict.challenge_id, committed_ms, outcome: verdict.outcome }
        }
        (None, Some(challenge)) => MemberEnd::Lost(challenge),
        (None, None) => not_started("its session ended"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fleet;

    /// Regression test: a miner whose own challenges kept it from each round kept a disputed device unsettled.
    #[tokio::test]
    async fn who_is_busy_in_two_rounds_evades_them() {
        let folder = tempfile::tempdir().unwrap();
        let fleet = fleet(folder.path()).await;
        let busy = |id, running: Option<u8>| fleet.was_busy_before(id, running.map(|byte| ChallengeId([byte; 16])));
        assert!(!busy("a", Some(1)) && !busy("b", Some(2)) && busy("a", Some(3)));
        assert!(!busy("a", Some(3)), "one long challenge");
        assert!(!busy("b", None) && !busy("b", Some(4)), "a round between them");
    }

    /// Regression test: a member that the validator did not start counted as one that did not commit.
    #[test]
    fn only_members_that_were_challenged_are_told_apart() {
        let now = Some(clock::now());
        let (challenge, lost) = (ChallengeId([1; 16]), MemberEnd::Lost(ChallengeId([1; 16])));
        let member = |id: &str, challenge, committed, end| {
            let (id, is_late) = (id.to_owned(), false);
            MemberProgress { id, challenge, committed, is_late, end }
        };
        let progress = [
            member("0", Some(challenge), now, None),
            // It committed, and left before the probes.
            member("1", Some(challenge), now, Some(lost.clone())),
            member("2", Some(challenge), None, Some(lost)),
            member("3", None, None, Some(not_started("busy"))),
            // It did not take the challenge.
            MemberProgress { is_late: true, ..member("4", None, None, Some(not_started("late"))) },
        ];
        let members = members_of(&progress);
        let of = |numbers: &[&str]| numbers.iter().map(|number| (*number).to_owned()).collect();
        assert_eq!(members, ProbedMembers { committed: of(&["0"]), uncommitted: of(&["1", "2", "4"]) });
        // A late member, whose probe went out alone, shows nothing by the round.
        let shows = ["0", "1", "2", "3"].map(|id| members.with(id).is_some());
        assert_eq!(shows, [true, false, false, false]);
    }
}
