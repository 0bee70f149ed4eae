//! A replay's documents in the records: the job for a machine of the operator's and its report, each checked by the
//! reading end.

use std::sync::Arc;

use assay_protocol::identity;
use assay_work::challenge::ChallengeError;
use assay_work::commitment::{CommitmentError, Evidence, commitment_message};
use assay_work::text::quoted;
use assay_work::{Challenge, ChallengeId, Digest, UncheckedChallenge};
use serde::{Deserialize, Serialize};

use super::{Confirmation, Extent, Mismatch, ReplayFinding, ReplayOutcome};
use assay_judge::history::SecondComputation;
use assay_judge::issue::MAX_ROOTS;

/// The only format of a job and its report.
const FORMAT: u32 = 1;
/// The most bytes of a job: those of 65,536 roots, each 67 in JSON, and the same again for all other fields.
pub const MAX_JOB_BYTES: usize = 9 << 20;
/// The most bytes of a report.
pub const MAX_REPORT_BYTES: usize = 4096;
/// The most characters of a worker's reason for not replaying.
const MAX_DETAIL_CHARS: usize = 512;
/// The most characters of a worker's name.
pub const MAX_WORKER_CHARS: usize = 128;

/// A job for a machine: passes to compute again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayJob {
    pub challenge: Arc<Challenge>,
    pub evidence: Arc<Evidence>,
    /// The passes.
    pub extent: Extent,
    /// Whether a root that differs is computed twice.
    pub second: SecondComputation,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenJob<C, E> {
    format: u32,
    challenge: C,
    evidence: E,
    extent: Extent,
    second: SecondComputation,
}

/// The field read first from either document.
#[derive(Debug, Deserialize)]
struct Head {
    format: u32,
}

/// Reasons to refuse a job.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("the job has {0} bytes, at most {MAX_JOB_BYTES} are read")]
    TooLarge(usize),
    /// Another release's format.
    #[error("the job has format {0}, this release reads {FORMAT}: run one release on validators and workers")]
    Format(u32),
    /// Not a job.
    #[error("not a job: {0}")]
    Form(#[from] serde_json::Error),
    #[error("the challenge of the job breaks a rule: {0}")]
    Challenge(#[from] ChallengeError),
    /// The evidence does not commit to the challenge.
    #[error("the evidence of the job: {0}")]
    Evidence(#[from] CommitmentError),
    #[error("the commitment of the job is not signed by the miner")]
    Signature,
    /// More roots than a challenge has.
    #[error("the job asks for more roots than a challenge has")]
    Roots,
    /// The passes are not distinct passes of the challenge.
    #[error("the passes drawn for device {0} of the job are not distinct passes of the challenge")]
    Extent(usize),
}

impl ReplayJob {
    /// Encodes the job for the records.
    pub fn written(&self) -> Vec<u8> {
        let Self { challenge, evidence, extent, second } = self;
        let (extent, second) = (extent.clone(), *second);
        let written = WrittenJob { format: FORMAT, challenge: &**challenge, evidence: &**evidence, extent, second };
        // Texts and numbers always become JSON.
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// Reads a job, and checks all of it: the rules of the challenge, every checksum of the evidence, its signature.
    pub fn read(bytes: &[u8]) -> Result<Self, JobError> {
        if bytes.len() > MAX_JOB_BYTES {
            return Err(JobError::TooLarge(bytes.len()));
        }
        let Head { format } = serde_json::from_slice(bytes)?;
        if format != FORMAT {
            return Err(JobError::Format(format));
        }
        let WrittenJob { challenge, evidence, extent, second, .. } =
            serde_json::from_slice::<WrittenJob<UncheckedChallenge, Evidence>>(bytes)?;
        let challenge = Challenge::try_from(challenge)?;
        let roots = challenge.shares().len() as u64 * u64::from(challenge.iterations());
        if roots > MAX_ROOTS {
            return Err(JobError::Roots);
        }
        evidence.check(&challenge)?;
        let message = commitment_message(challenge.work_key(), &evidence.checksum);
        let key = &challenge.fields().miner_key;
        if !evidence.signature.is_some_and(|signature| identity::verify(key, &message, &signature)) {
            return Err(JobError::Signature);
        }
        check_extent(&extent, &challenge)?;
        Ok(Self { challenge: challenge.into(), evidence: evidence.into(), extent, second })
    }

    /// The number of slots filled for it, if every root matches.
    pub fn slots(&self) -> u64 {
        let passes = |index: usize| match &self.extent {
            Extent::Everything => u64::from(self.challenge.iterations()),
            Extent::Sampled(drawn) => drawn[index].len() as u64,
        };
        self.challenge.shares().iter().enumerate().map(|(index, s)| u64::from(s.count) * passes(index)).sum()
    }

    /// Number of slots of its largest share.
    pub fn largest_share(&self) -> u32 {
        self.challenge.shares().iter().map(|share| share.count).max().unwrap_or(0)
    }

    /// Whether it includes this pass.
    fn includes(&self, share: usize, iteration: u32) -> bool {
        match &self.extent {
            Extent::Everything => true,
            Extent::Sampled(drawn) => drawn[share].contains(&iteration),
        }
    }
}

fn check_extent(extent: &Extent, challenge: &Challenge) -> Result<(), JobError> {
    let Extent::Sampled(drawn) = extent else { return Ok(()) };
    if drawn.len() != challenge.shares().len() {
        return Err(JobError::Extent(drawn.len()));
    }
    for (index, drawn) in drawn.iter().enumerate() {
        let mut sorted = drawn.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let is_pass = sorted.last().is_some_and(|last| *last < challenge.iterations());
        if !is_pass || sorted.len() != drawn.len() {
            return Err(JobError::Extent(index));
        }
    }
    Ok(())
}

/// Digest by which a report names its job.
pub fn digest(job: &[u8]) -> Digest {
    Digest(*blake3::hash(job).as_bytes())
}

/// A worker's report on a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayReport {
    format: u32,
    /// The job's [`digest`].
    job: Digest,
    challenge_id: ChallengeId,
    /// Name of the worker.
    pub worker: String,
    /// Computing time in seconds.
    pub seconds: f64,
    finding: ReplayFinding,
    computed_again: Option<SecondComputation>,
}

/// Reasons to reject a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("the report has {0} bytes, at most {MAX_REPORT_BYTES} are read")]
    TooLarge(usize),
    /// Another release's format.
    #[error("the report has format {0}, this release reads {FORMAT}: run one release on validators and workers")]
    Format(u32),
    /// Not a report.
    #[error("not a report: {0}")]
    Form(#[from] serde_json::Error),
    /// A report on another job.
    #[error("the report is about another job")]
    OtherJob,
    /// It names a root that is not the miner's, was not part of the job, or does not differ.
    #[error("the report names a mismatch that cannot be: {0}")]
    Mismatch(&'static str),
    /// Its second computation contradicts its finding.
    #[error("the report contradicts itself about the second computation")]
    SecondComputation,
}

impl ReplayReport {
    /// Creates the report of a finished job.
    pub fn new(job: Digest, challenge_id: ChallengeId, worker: &str, seconds: f64, replayed: ReplayOutcome) -> Self {
        let ReplayOutcome { mut finding, computed_again } = replayed;
        if let ReplayFinding::Unknown { detail } = &mut finding {
            *detail = detail.chars().take(MAX_DETAIL_CHARS).collect();
        }
        let worker = worker.chars().take(MAX_WORKER_CHARS).collect();
        Self { format: FORMAT, job, challenge_id, worker, seconds, finding, computed_again }
    }

    /// Encodes the report for the records.
    pub fn written(&self) -> String {
        // Texts and numbers always become JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a worker's report on this job, whose digest is `digest`.
    pub fn read(text: &str, job: &ReplayJob, digest: Digest) -> Result<Self, ReportError> {
        if text.len() > MAX_REPORT_BYTES {
            return Err(ReportError::TooLarge(text.len()));
        }
        let Head { format } = serde_json::from_str(text)?;
        if format != FORMAT {
            return Err(ReportError::Format(format));
        }
        let report: Self = serde_json::from_str(text)?;
        if report.job != digest || report.challenge_id != job.challenge.id() {
            return Err(ReportError::OtherJob);
        }
        report.check_finding(job)?;
        Ok(report)
    }

    fn check_finding(&self, job: &ReplayJob) -> Result<(), ReportError> {
        use SecondComputation::{Confirmed, Due, Unreliable};
        let agrees = match (&self.finding, job.second) {
            (ReplayFinding::Equal, _) => self.computed_again.is_none(),
            (ReplayFinding::Differs(found), Due) => {
                found.confirmation == Confirmation::Twice && self.computed_again == Some(Confirmed)
            }
            (ReplayFinding::Differs(found), Confirmed) => {
                found.confirmation == Confirmation::Earlier && self.computed_again.is_none()
            }
            (ReplayFinding::Differs(_), Unreliable) => false,
            (ReplayFinding::Unknown { .. }, second) => {
                self.computed_again.is_none_or(|again| second == Due && again == Unreliable)
            }
        };
        if !agrees {
            return Err(ReportError::SecondComputation);
        }
        match &self.finding {
            ReplayFinding::Differs(found) => check_mismatch(found, job).map_err(ReportError::Mismatch),
            ReplayFinding::Equal | ReplayFinding::Unknown { .. } => Ok(()),
        }
    }

    /// The result for the verdict; it names the worker where the finding is [`ReplayFinding::Unknown`].
    pub fn into_replayed(self) -> ReplayOutcome {
        let Self { worker, finding, computed_again, .. } = self;
        let finding = match finding {
            ReplayFinding::Unknown { detail } => {
                ReplayFinding::Unknown { detail: format!("replay worker {}: {}", quoted(&worker), quoted(&detail)) }
            }
            finding => finding,
        };
        ReplayOutcome { finding, computed_again }
    }

    /// Name of the finding, in one word.
    pub const fn word(&self) -> &'static str {
        match self.finding {
            ReplayFinding::Equal => "equal",
            ReplayFinding::Differs(_) => "differs",
            ReplayFinding::Unknown { .. } => "unknown",
        }
    }
}

fn check_mismatch(found: &Mismatch, job: &ReplayJob) -> Result<(), &'static str> {
    let Mismatch { device_id, iteration, committed, computed, .. } = found;
    let shares = job.challenge.shares();
    let share = shares.iter().position(|share| share.device_id == *device_id).ok_or("no such device was challenged")?;
    let root = job.evidence.devices[share].roots.get(*iteration as usize).ok_or("there was no such pass")?;
    if !job.includes(share, *iteration) {
        Err("this pass was not to be computed")
    } else if root != committed {
        Err("the miner committed to another root")
    } else if computed == committed {
        Err("the roots are equal")
    } else {
        Ok(())
    }
}

#[cfg(test)]
pub mod testing {
    use super::*;
    use assay_protocol::identity::Identity;
    use assay_work::{DeviceId, Root};

    fn identity() -> Identity {
        Identity::from_seed(&[9; 32])
    }

    /// Two devices with 5 and 4 slots of n = 256, two passes.
    pub fn challenge() -> Challenge {
        let counts = [(DeviceId([1; 16]), 5), (DeviceId([2; 16]), 4)];
        let miner_key = identity().public_key();
        let challenge_id = ChallengeId([4; 16]);
        let unchecked = UncheckedChallenge { challenge_id, miner_key, ..UncheckedChallenge::unasked(256, 2, counts) };
        Challenge::try_from(unchecked).unwrap()
    }

    /// A job with a signed commitment to these roots of [`challenge`].
    pub fn job(roots: [[Root; 2]; 2], extent: Extent) -> ReplayJob {
        let challenge = challenge();
        let mut evidence = Evidence::assemble(&challenge, roots.map(Vec::from).into());
        let message = commitment_message(challenge.work_key(), &evidence.checksum);
        evidence.signature = Some(identity().sign(&message));
        ReplayJob { challenge: challenge.into(), evidence: evidence.into(), extent, second: SecondComputation::Due }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_work::{DeviceId, Root};
    use serde_json::{Value, json};

    fn job() -> ReplayJob {
        let root = |byte| Root([byte; 32]);
        testing::job([[root(1), root(2)], [root(3), root(4)]], Extent::Sampled(vec![vec![1], vec![0, 1]]))
    }

    /// Reads the job after a change of its JSON.
    fn changed(change: impl FnOnce(&mut Value)) -> Result<ReplayJob, JobError> {
        let mut json: Value = serde_json::from_slice(&job().written()).unwrap();
        change(&mut json);
        ReplayJob::read(json.to_string().as_bytes())
    }

    #[test]
    fn a_job_arrives_as_it_was_sent() {
        for extent in [Extent::Everything, Extent::Sampled(vec![vec![0], vec![1]])] {
            let sent = ReplayJob { extent, ..job() };
            assert_eq!(ReplayJob::read(&sent.written()).unwrap(), sent);
        }
        assert_eq!((job().slots(), job().largest_share()), (5 + 2 * 4, 5));
    }

    #[test]
    fn a_job_that_is_none_is_not_computed() {
        assert!(matches!(ReplayJob::read(&vec![b' '; MAX_JOB_BYTES + 1]), Err(JobError::TooLarge(_))));
        assert!(matches!(ReplayJob::read(b"{}"), Err(JobError::Form(_))));
        assert!(matches!(changed(|j| j["format"] = json!(2)), Err(JobError::Format(2))));
        assert!(matches!(changed(|j| j["more"] = json!(2)), Err(JobError::Form(_))));
        assert!(matches!(changed(|j| j["challenge"]["n"] = json!(300)), Err(JobError::Challenge(_))));
        // A challenge other than the committed one.
        assert!(matches!(changed(|j| j["challenge"]["n"] = json!(512)), Err(JobError::Signature)));
        assert!(matches!(changed(|j| j["challenge"]["iterations"] = json!(3)), Err(JobError::Evidence(_))));
        let other = Root([8; 32]).to_string();
        assert!(matches!(
            changed(|j| j["evidence"]["devices"][0]["roots"][1] = json!(other)),
            Err(JobError::Evidence(_))
        ));
        let unsigned = changed(|j| drop(j["evidence"].as_object_mut().unwrap().remove("signature")));
        assert!(matches!(unsigned, Err(JobError::Signature)));
        for drawn in [json!([[1]]), json!([[1], [2]]), json!([[], [1]]), json!([[1], [1, 1]]), json!([[1], [0], [0]])] {
            let result = changed(|j| j["extent"] = json!({ "sampled": drawn }));
            assert!(matches!(result, Err(JobError::Extent(_))), "{drawn}: {result:?}");
        }
    }

    fn differs(device: u8, iteration: u32, committed: u8, computed: u8) -> ReplayFinding {
        ReplayFinding::Differs(Mismatch {
            device_id: DeviceId([device; 16]),
            iteration,
            committed: Root([committed; 32]),
            computed: Root([computed; 32]),
            confirmation: Confirmation::Twice,
        })
    }

    /// The validator's reading of a report with this finding.
    fn judged(finding: ReplayFinding, computed_again: Option<SecondComputation>) -> Result<ReplayReport, ReportError> {
        let (job, replayed) = (job(), ReplayOutcome { finding, computed_again });
        let digest = digest(&job.written());
        let report = ReplayReport::new(digest, job.challenge.id(), "gpu-3", 1.5, replayed);
        ReplayReport::read(&report.written(), &job, digest)
    }

    #[test]
    fn a_report_says_what_the_worker_found() {
        let confirmed = Some(SecondComputation::Confirmed);
        for (finding, again) in [(ReplayFinding::Equal, None), (differs(2, 0, 3, 9), confirmed)] {
            assert_eq!(judged(finding.clone(), again).unwrap().into_replayed().finding, finding);
        }
        let unknown = ReplayFinding::Unknown { detail: "lost\na device".repeat(100) };
        let result =
            judged(unknown, Some(SecondComputation::Unreliable)).unwrap().into_replayed().finding.into_result();
        let reason = result.unwrap_err();
        assert_eq!(reason.code, assay_protocol::verdict::ReasonCode::ValidatorDevices);
        assert!(reason.detail.starts_with("replay worker \"gpu-3\": \"lost"), "{}", reason.detail);
        assert!(!reason.detail.contains('\n'), "a worker writes no lines of its own: {}", reason.detail);
        assert!(reason.detail.chars().count() < 700);
    }

    /// A broken worker, or one of another operator, fails no miner with a report that the roots contradict.
    #[test]
    fn a_mismatch_that_cannot_be_is_not_believed() {
        let confirmed = Some(SecondComputation::Confirmed);
        let says = |finding| match judged(finding, confirmed) {
            Err(ReportError::Mismatch(what)) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(says(differs(3, 0, 3, 9)), "no such device was challenged");
        assert_eq!(says(differs(2, 2, 3, 9)), "there was no such pass");
        assert_eq!(says(differs(1, 0, 1, 9)), "this pass was not to be computed");
        assert_eq!(says(differs(2, 0, 4, 9)), "the miner committed to another root");
        assert_eq!(says(differs(2, 0, 3, 3)), "the roots are equal");
        for (finding, again) in [
            (differs(2, 0, 3, 9), None),
            (differs(2, 0, 3, 9), Some(SecondComputation::Unreliable)),
            (ReplayFinding::Equal, confirmed),
            (ReplayFinding::Unknown { detail: String::new() }, confirmed),
        ] {
            assert!(matches!(judged(finding, again), Err(ReportError::SecondComputation)));
        }
    }

    #[test]
    fn a_report_about_something_else_is_not_believed() {
        let (job, replayed) = (job(), ReplayOutcome { finding: ReplayFinding::Equal, computed_again: None });
        let own = digest(&job.written());
        let report = ReplayReport::new(own, job.challenge.id(), "gpu-3", 1.5, replayed.clone());
        let read = |text: &str| ReplayReport::read(text, &job, own);
        assert!(read(&report.written()).is_ok());
        let other = ReplayReport::new(Digest([1; 32]), job.challenge.id(), "gpu-3", 1.5, replayed.clone());
        assert!(matches!(read(&other.written()), Err(ReportError::OtherJob)));
        let other = ReplayReport::new(own, ChallengeId([1; 16]), "gpu-3", 1.5, replayed);
        assert!(matches!(read(&other.written()), Err(ReportError::OtherJob)));
        assert!(matches!(read(&report.written().replace("\"format\":1", "\"format\":2")), Err(ReportError::Format(2))));
        assert!(matches!(read(&" ".repeat(MAX_REPORT_BYTES + 1)), Err(ReportError::TooLarge(_))));
        assert!(matches!(read("equal"), Err(ReportError::Form(_))));
    }
}
