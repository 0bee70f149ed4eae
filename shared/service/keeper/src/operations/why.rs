//! Explains why a miner is not attested, and the remedy.

use assay_api::AttestationGap;
use assay_policy::state::{QuarantineEnd, Standing, State};
use assay_program::utc;
use assay_protocol::verdict::ReasonCode;
use assay_records::{Approval, MinerRecord, MinerSummary};

use crate::allow::AdmissionReason;

/// Explains why a miner is not attested; `None` where it is.
pub(super) fn why_not(
    record: &MinerRecord,
    admitted: Option<AdmissionReason>,
    summary: &MinerSummary,
) -> Option<AttestationGap> {
    let (state, standing) = (State::named(&record.state), record.standing());
    match (record.status, admitted) {
        (Approval::Revoked, _) | (_, Some(AdmissionReason::Revoked)) => return of_state(State::Revoked, &standing),
        (Approval::Suspended, _) => return of_state(State::Suspended, &standing),
        (Approval::Pending, Some(AdmissionReason::Pending)) => {
            return Some(AttestationGap {
                why: "it waits for an operator to let it in".to_owned(),
                remedy: "approve it: `assay-validator approve`, or revoke it".to_owned(),
            });
        }
        _ => {}
    }
    if state.is_some_and(State::is_attested) && state != Some(State::Suspect) {
        return None;
    }
    // A quarantine does not end with the next verdict.
    let of_verdict = of_verdict(record, summary).filter(|_| standing.quarantine.is_none());
    of_verdict.or_else(|| of_state(state?, &standing))
}

/// Explanation by the first reason of its last verdict, unless that was a pass.
fn of_verdict(record: &MinerRecord, summary: &MinerSummary) -> Option<AttestationGap> {
    record.last_verdict.as_ref().filter(|last| last.outcome != "pass")?;
    let (code, detail) = summary.reasons.first()?;
    let code = ReasonCode::named(code)?;
    let about = code.about().trim_end_matches('.');
    let why = if detail.is_empty() { format!("{about}.") } else { format!("{about}: {detail}") };
    Some(AttestationGap { why, remedy: code.advice().to_owned() })
}

fn of_state(state: State, standing: &Standing) -> Option<AttestationGap> {
    let challenge = "wait for its next challenges, or challenge it: `assay-validator challenge` counts, but not for a \
                     fail in a group with `heavy`";
    let because = match standing.because.as_str() {
        "" => String::new(),
        because => format!(" ({because})"),
    };
    let (why, remedy) = match state {
        State::Passing => return None,
        State::Enrolled => ("it has not passed the first challenges that its group asks for yet".to_owned(), challenge),
        State::Suspect => (
            format!("results that show nothing add up{because}"),
            "wait until they are older than `window` in the group's `grace`",
        ),
        State::Failed => {
            let paid = standing.paid;
            (format!("it failed{because}, and has not passed as often as it must since: {paid} so far"), challenge)
        }
        State::Expired => (format!("its attestation has ended{because}"), challenge),
        State::Quarantined => {
            let until = match standing.quarantine {
                Some(QuarantineEnd::Time(until_s)) => utc::text(until_s),
                Some(QuarantineEnd::Release) | None => "an operator releases it".to_owned(),
            };
            (
                format!("it is in quarantine until {until}{because}: its passes do not count"),
                "look at its verdicts; `assay-validator release` ends its quarantine",
            )
        }
        State::Suspended => ("an operator suspended it".to_owned(), "resume it: `assay-validator resume`"),
        State::Revoked => {
            ("an operator revoked it: it is not let in".to_owned(), "nothing; `approve` would let it in again")
        }
    };
    Some(AttestationGap { why, remedy: remedy.to_owned() })
}

#[cfg(test)]
mod tests {
    use assay_records::LastVerdict;

    use super::*;

    fn record(status: Approval, state: State, outcome: &str) -> MinerRecord {
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
            let why = why_not(&record(Approval::Approved, state, "pass"), None, &summary);
            assert_eq!(why.is_none(), state == State::Passing, "{state:?}");
            assert!(why.is_none_or(|why| !why.why.is_empty() && !why.remedy.is_empty()));
        }
    }

    #[test]
    fn a_failing_verdict_says_why_and_an_operators_decision_counts_more() {
        let reasons = vec![("too_slow".to_owned(), "88 TOPS of 1513".to_owned())];
        let summary = MinerSummary { reasons, ..MinerSummary::default() };
        let why = why_not(&record(Approval::Approved, State::Failed, "fail"), None, &summary).unwrap();
        assert!(why.why.contains("longer than a device of the model") && why.why.ends_with("88 TOPS of 1513"));
        assert_eq!(why.remedy, ReasonCode::TooSlow.advice());
        let why = why_not(&record(Approval::Suspended, State::Failed, "fail"), None, &summary).unwrap();
        assert!(why.why.contains("operator suspended"));
        assert_eq!(why_not(&record(Approval::Approved, State::Passing, "inconclusive"), None, &summary), None);
    }

    #[test]
    fn what_sets_a_miner_apart_is_said_until_it_is_over() {
        let mut standing = Standing {
            state: State::Quarantined,
            because: "too_fast: 3 fails within 7 days".to_owned(),
            quarantine: Some(QuarantineEnd::Time(1_767_225_599)),
            ..Standing::default()
        };
        let summary = MinerSummary { reasons: vec![("miner_busy".to_owned(), String::new())], ..Default::default() };
        let why = |standing: &Standing, outcome: &str| {
            let mut record = record(Approval::Approved, standing.state, outcome);
            record.standing = Some(serde_json::value::to_raw_value(standing).unwrap());
            why_not(&record, None, &summary).unwrap()
        };
        // Independent of the last verdict.
        for outcome in ["pass", "fail", "inconclusive"] {
            let AttestationGap { why, remedy } = why(&standing, outcome);
            let said = "it is in quarantine until 2025-12-31 23:59:59 UTC (too_fast: 3 fails within 7 days): its passes do not count";
            assert_eq!(why, said);
            assert!(remedy.contains("assay-validator release"), "{remedy}");
        }
        standing.quarantine = Some(QuarantineEnd::Release);
        assert!(why(&standing, "pass").why.starts_with("it is in quarantine until an operator releases it (too_fast"));
        (standing.state, standing.quarantine) = (State::Failed, None);
        assert!(
            why(&standing, "pass").why.starts_with("it failed (too_fast: 3 fails within 7 days), and has not passed")
        );
    }
}
