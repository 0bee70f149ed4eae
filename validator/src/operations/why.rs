//! Why a miner is not attested, in words, and what to do about it.

use assay_api::WhyNot;
use assay_fleet::state::State;
use assay_protocol::verdict::ReasonCode;
use assay_records::{MinerRecord, MinerSummary, Status};

use crate::allow::Admitted;

/// Why a miner is not attested; `None` where it is.
pub(super) fn why_not(record: &MinerRecord, admitted: Option<Admitted>, summary: &MinerSummary) -> Option<WhyNot> {
    let state = State::named(&record.state);
    match (record.status, admitted) {
        (Status::Revoked, _) | (_, Some(Admitted::Revoked)) => {
            return said("an operator revoked it: it is not let in", "nothing; `approve` would let it in again");
        }
        (Status::Suspended, _) => return said("an operator suspended it", "resume it: `assay-validator resume`"),
        (Status::Pending, Some(Admitted::Pending)) => {
            return said(
                "it waits for an operator to let it in",
                "approve it: `assay-validator approve`, or revoke it",
            );
        }
        _ => {}
    }
    if state.is_some_and(State::is_attested) && state != Some(State::Suspect) {
        return None;
    }
    of_verdict(record, summary).or_else(|| of_state(state))
}

/// By the first reason of its last verdict, where that was no pass.
fn of_verdict(record: &MinerRecord, summary: &MinerSummary) -> Option<WhyNot> {
    record.last_verdict.as_ref().filter(|last| last.outcome != "pass")?;
    let (code, detail) = summary.reasons.first()?;
    let code = ReasonCode::named(code)?;
    let about = code.about().trim_end_matches('.');
    let why = if detail.is_empty() { format!("{about}.") } else { format!("{about}: {detail}") };
    Some(WhyNot { why, remedy: code.advice().to_owned() })
}

fn of_state(state: Option<State>) -> Option<WhyNot> {
    let challenge = "wait for its next challenges, or challenge it: `assay-validator challenge`";
    match state? {
        State::Passing => None,
        State::Enrolled => said("it has not passed the first challenges that its group asks for yet", challenge),
        State::Suspect => said("results that show nothing add up", challenge),
        State::Failed => said("it failed, and has not passed as often as it must since", challenge),
        State::Expired => said("its last pass is too old", challenge),
        State::Quarantined => said(
            "it failed repeatedly: passes do not count until its quarantine is over",
            "look at its verdicts: docs/policy.md says when a quarantine ends",
        ),
        State::Suspended => said("an operator suspended it", "resume it: `assay-validator resume`"),
        State::Revoked => said("an operator revoked it: it is not let in", "nothing; `approve` would let it in again"),
    }
}

/// A miner that is attested has no reason: callers ask for the others.
#[allow(clippy::unnecessary_wraps)]
fn said(why: &str, remedy: &str) -> Option<WhyNot> {
    Some(WhyNot { why: why.to_owned(), remedy: remedy.to_owned() })
}

#[cfg(test)]
mod tests {
    use assay_records::LastVerdict;

    use super::*;

    fn record(status: Status, state: State, outcome: &str) -> MinerRecord {
        let last = LastVerdict { challenge: "c".to_owned(), outcome: outcome.to_owned(), at_ms: 1 };
        MinerRecord {
            id: "a".to_owned(),
            key: "a".to_owned(),
            keys: vec!["a".to_owned()],
            status,
            labels: Default::default(),
            state: state.name().to_owned(),
            standing: None,
            first_seen_ms: 0,
            last_seen_ms: 0,
            address: String::new(),
            software: String::new(),
            due: None,
            last_verdict: Some(last),
            connected_to: None,
        }
    }

    #[test]
    fn every_miner_that_is_not_attested_has_a_reason_and_a_remedy() {
        let summary = MinerSummary::default();
        for state in State::ALL {
            let why = why_not(&record(Status::Approved, state, "pass"), None, &summary);
            assert_eq!(why.is_none(), state == State::Passing, "{state:?}");
            assert!(why.is_none_or(|why| !why.why.is_empty() && !why.remedy.is_empty()));
        }
    }

    #[test]
    fn a_failing_verdict_says_why_and_an_operators_decision_counts_more() {
        let reasons = vec![("too_slow".to_owned(), "88 TOPS of 1513".to_owned())];
        let summary = MinerSummary { reasons, ..MinerSummary::default() };
        let why = why_not(&record(Status::Approved, State::Failed, "fail"), None, &summary).unwrap();
        assert!(why.why.contains("longer than a device of the model") && why.why.ends_with("88 TOPS of 1513"));
        assert_eq!(why.remedy, ReasonCode::TooSlow.advice());
        let why = why_not(&record(Status::Suspended, State::Failed, "fail"), None, &summary).unwrap();
        assert!(why.why.contains("operator suspended"));
        assert_eq!(why_not(&record(Status::Approved, State::Passing, "inconclusive"), None, &summary), None);
    }
}
