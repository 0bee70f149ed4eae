//! A challenge from its offer to its verdict, with a miner's messages in any order.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use assay_judge::action::Action;
use assay_judge::run::ChallengeRun;
use assay_protocol::message::{MinerMessage, OpeningsPart};
use assay_protocol::verdict::{Outcome, Verdict};
use assay_protocol::wire::stored::{miner_bytes, miner_message};
use assay_work::ChallengeId;

use crate::{edits, honest};

/// The messages of an honest miner, which passes.
static HONEST: LazyLock<Vec<MinerMessage>> = LazyLock::new(|| honest::messages().collect());

/// A message without the claims that no verdict rests on, and without the challenge where the session compares it.
fn proven(mut message: MinerMessage) -> MinerMessage {
    use MinerMessage::{Commitment, DeviceDigests, DeviceRoots, OpeningsChunk, ProbeAnswer};
    let none = ChallengeId([0; 16]);
    match &mut message {
        Commitment(signed) | ProbeAnswer(signed) => signed.claimed = Duration::ZERO,
        DeviceRoots(roots) => {
            (roots.challenge_id, roots.claimed, roots.claimed_telemetry) = (none, Duration::ZERO, None);
        }
        DeviceDigests(digests) => (digests.challenge_id, digests.claimed) = (none, Duration::ZERO),
        OpeningsChunk(chunk) => {
            chunk.challenge_id = none;
            if let OpeningsPart::Sample(sample) = &mut chunk.part {
                sample.parents = None;
            }
        }
        _ => {}
    }
    message
}

/// Carries the actions out; the verdict, if it is among them.
fn carry_out(run: &mut ChallengeRun, actions: Vec<Action>, now: Instant) -> Option<Box<Verdict>> {
    let mut verdict = None;
    for action in actions {
        match action {
            Action::Send(_, sent) => sent.set(now),
            Action::Check(job) => {
                let actions = run.checked(job.run());
                verdict = verdict.or(carry_out(run, actions, now));
            }
            Action::Judged(judged) => verdict = Some(judged),
            _ => {}
        }
    }
    verdict
}

/// The honest miner's messages after edits: the challenge always ends, and passes only by the honest messages.
pub fn edited(data: &[u8]) {
    let mut messages: Vec<_> = HONEST.iter().cloned().map(miner_bytes).collect();
    edits::apply(&mut messages, data);
    let (now, mut entropy) = (Instant::now(), honest::entropy());
    let (mut run, actions) = honest::start(now);
    let (mut given, mut verdict) = (Vec::new(), carry_out(&mut run, actions, now));
    for message in messages.iter().filter_map(|bytes| miner_message(bytes).ok()) {
        given.push(proven(message.clone()));
        let actions = run.message(message, now + honest::TOOK, &mut entropy);
        verdict = verdict.or(carry_out(&mut run, actions, now));
        if verdict.is_some() {
            break;
        }
    }
    let late = now + Duration::from_secs(86_400);
    let verdict = verdict.or_else(|| {
        let actions = run.tick(late, &mut entropy);
        carry_out(&mut run, actions, late)
    });
    let verdict = verdict.expect("a challenge ends after its deadlines");
    if verdict.outcome == Outcome::Pass {
        assert!(HONEST.iter().cloned().map(proven).eq(given), "a pass without the work");
    }
}
