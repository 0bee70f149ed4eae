//! A miner's state in one line, as a service manager shows it.

use super::{ConnectionStatus, MinerStatus, VerdictTotals};

impl MinerStatus {
    /// The miner's state and the counts of its verdicts, in one line.
    pub fn in_a_line(&self) -> String {
        let VerdictTotals { pass, fail, inconclusive } = self.verdicts;
        let now = match (&self.challenge, &self.connection) {
            (Some(challenge), _) => format!("challenge {}: {}", challenge.challenge_id, challenge.stage),
            (None, _) if self.validators.len() > 1 => {
                let connected = self.validators.iter().filter(|v| v.connection.connected_since.is_some()).count();
                format!("connected to {connected} of {} validators", self.validators.len())
            }
            (None, ConnectionStatus { connected_since: Some(_), .. }) => {
                format!("connected to {}, waiting for challenges", self.validator)
            }
            (None, ConnectionStatus { last_error: Some(error), .. }) => {
                format!("not connected to {}: {}", self.validator, error.why)
            }
            (None, _) => format!("connecting to {}", self.validator),
        };
        format!("verdicts: {pass} pass, {fail} fail, {inconclusive} inconclusive; {now}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{RunningStatus, TimedReason, ValidatorStatus};

    #[test]
    fn the_line_says_what_is_done_now() {
        let mut status = MinerStatus { validator: "a:7400".into(), ..MinerStatus::default() };
        let line = |status: &MinerStatus| status.in_a_line().split_once("; ").unwrap().1.to_owned();
        assert_eq!(line(&status), "connecting to a:7400");
        status.connection.last_error = Some(TimedReason { at: 1, why: "refused".into() });
        assert_eq!(line(&status), "not connected to a:7400: refused");
        status.connection.connected_since = Some(2);
        assert_eq!(line(&status), "connected to a:7400, waiting for challenges");
        status.validators = vec![ValidatorStatus::default(); 2];
        status.validators[1].connection.connected_since = Some(2);
        assert_eq!(line(&status), "connected to 1 of 2 validators");
        status.challenge = Some(RunningStatus {
            challenge_id: "ab".into(),
            validator: "a:7400".into(),
            n: 256,
            iterations: 1,
            devices: 1,
            stage: "probe".into(),
            since: 3,
            done_slots: 0,
            all_slots: 1,
        });
        assert_eq!(line(&status), "challenge ab: probe");
        status.verdicts.pass = 7;
        assert!(status.in_a_line().starts_with("verdicts: 7 pass, 0 fail, 0 inconclusive; "));
    }
}
