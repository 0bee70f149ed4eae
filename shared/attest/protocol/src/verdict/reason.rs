//! Outcomes, reasons and their classes: the words that both sides and the user share.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use assay_work::DeviceId;

assay_work::names! {
    /// Outcome of a challenge.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Outcome {
        /// Everything checked held.
        Pass = "pass",
        /// The miner forged something, was late, or showed less than it must.
        Fail = "fail",
        /// No judgement was possible: neither a pass nor the miner's failure.
        Inconclusive = "inconclusive",
    }
}

impl Outcome {
    /// The worst of several: a fail before what could not be judged, and that before a pass. None at all shows nothing.
    pub fn worst(outcomes: impl IntoIterator<Item = Self>) -> Self {
        let outcomes: Vec<_> = outcomes.into_iter().collect();
        let is_there = |wanted| outcomes.contains(&wanted);
        match outcomes.is_empty() {
            _ if is_there(Self::Fail) => Self::Fail,
            true => Self::Inconclusive,
            false if is_there(Self::Inconclusive) => Self::Inconclusive,
            false => Self::Pass,
        }
    }
}

assay_work::names! {
    /// Attribution of a reason. Only [`Class::Forged`], [`Class::Late`], [`Class::Evasive`] and [`Class::Short`] can
    /// fail a miner.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Class {
        /// The miner sent something that no honest miner sends.
        Forged = "forged",
        /// The miner let a deadline pass.
        Late = "late",
        /// The miner broke off challenges too often once it knew the positions to be checked.
        Evasive = "evasive",
        /// The work held, but was less than the operator of the validator expects of this key.
        Short = "short",
        /// A device of the miner failed.
        Sick = "sick",
        /// The miner was busy, or had too little memory.
        Busy = "busy",
        /// The connection broke.
        Network = "network",
        /// The program failed, on either side.
        Ours = "ours",
    }
}

impl Class {
    /// Whether a reason of this class fails the miner.
    #[must_use]
    pub const fn fails(self) -> bool {
        matches!(self, Self::Forged | Self::Late | Self::Evasive | Self::Short)
    }
}

macro_rules! reason_codes {
    ($($variant:ident $name:literal $class:ident $about:literal $advice:literal;)*) => {
        assay_work::names! {
            /// Why a challenge did not pass: stable names, each with its class.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
            #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
            #[cfg_attr(feature = "schema", schema(description = "Why a challenge did not pass."))]
            #[serde(rename_all = "snake_case")]
            pub enum ReasonCode {
                $(#[doc = $about] $variant = $name,)*
            }
        }

        impl ReasonCode {
            /// Whose doing it is.
            pub const fn class(self) -> Class {
                match self { $(Self::$variant => Class::$class,)* }
            }

            /// The meaning, in one sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }

            /// Advice to the reader of the verdict.
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$variant => $advice,)* }
            }
        }
    };
}

reason_codes! {
    CommitmentChallenge "commitment_challenge" Forged "The commitment names another challenge." "Treat the host as dishonest: it answered with an old or a foreign commitment.";
    CommitmentSplit "commitment_split" Forged "The commitment is over another split than the specification's." "Treat the host as dishonest, or its software as not Assay's.";
    CommitmentRoots "commitment_roots" Forged "A device has another number of roots than there are iterations." "Treat the host as dishonest, or its software as not Assay's.";
    CommitmentChecksum "commitment_checksum" Forged "A checksum is not that of the roots." "Treat the host as dishonest: what it said first and what it sent differ.";
    CommitmentSignature "commitment_signature" Forged "The signature of the commitment is not the miner's." "Treat the host as dishonest: the work was signed by another key.";
    CommitmentTwice "commitment_twice" Forged "A second commitment came." "Treat the host as dishonest: a commitment is final.";
    ProbeChallenge "probe_challenge" Forged "The probe answer names another challenge." "Treat the host as dishonest: it answered another probe.";
    ProbeDigests "probe_digests" Forged "The probe answer has other devices or another number of digests than asked." "Treat the host as dishonest, or its software as not Assay's.";
    ProbeChecksum "probe_checksum" Forged "A checksum is not that of the digests." "Treat the host as dishonest: what it said first and what it sent differ.";
    ProbeSignature "probe_signature" Forged "The signature of the probe answer is not the miner's." "Treat the host as dishonest: the answer was signed by another key.";
    ProbeTwice "probe_twice" Forged "A second probe answer came." "Treat the host as dishonest: an answer is final.";
    RootMismatch "root_mismatch" Forged "Re-execution gives another root." "Treat the work of this device as not done.";
    AuditDigests "audit_digests" Forged "The digests opened do not hash to the root committed to." "Treat the work of this device as not done.";
    AuditRows "audit_rows" Forged "Other rows were opened than those asked for." "Treat the work of this device as not done.";
    AuditRange "audit_range" Forged "An opened range has another position or length." "Treat the work of this device as not done.";
    AuditSiblings "audit_siblings" Forged "An opened range has another number of siblings." "Treat the work of this device as not done.";
    AuditPath "audit_path" Forged "An opened range does not lead to its digest." "Treat the work of this device as not done.";
    AuditLeaf "audit_leaf" Forged "A leaf's row is not the keystream." "Treat the work of this device as not done.";
    AuditElement "audit_element" Forged "An element is not what its formula gives." "Treat the work of this device as not done.";
    ResidencyDigests "residency_digests" Forged "The digests opened for the probe do not hash to the root committed to." "Treat the memory of this device as not shown.";
    ResidencyRows "residency_rows" Forged "Other segments were opened than those asked for." "Treat the memory of this device as not shown.";
    ResidencyRange "residency_range" Forged "An opened state or line has another position or length." "Treat the memory of this device as not shown.";
    ResidencySiblings "residency_siblings" Forged "An opened state or line has another number of siblings." "Treat the memory of this device as not shown.";
    ResidencyPath "residency_path" Forged "An opened state or line does not lead to its digest." "Treat the memory of this device as not shown.";
    ResidencyState "residency_state" Forged "A walk does not end in the state opened." "Treat the memory of this device as not shown.";
    ResidencySum "residency_sum" Forged "A row does not give the sum opened." "Treat the memory of this device as not shown.";
    Protocol "protocol" Forged "A message came that an honest miner does not send then." "Check that the host runs an unmodified assay-miner of the same version.";
    CommitmentLate "commitment_late" Late "No commitment came before the deadline." "Ask again with a longer deadline if the host is known to be slow; else treat the claimed hardware as not there.";
    ProbeLate "probe_late" Late "No probe answer came before the deadline." "Treat the memory as not resident, or not of the claimed bandwidth.";
    RootsLate "roots_late" Late "The roots behind the commitment did not come before their deadline." "Check the link if it is known to be slow; else treat the work as not done.";
    DigestsLate "digests_late" Late "The digests behind the probe answer did not come before their deadline." "Check the link if it is known to be slow; else treat the memory as not shown.";
    ResidencyShare "residency_share" Late "The probe took so long that more of the memory may have been elsewhere than the policy allows." "Treat the memory as not shown to the share that the policy asks for; ask with larger matrices if the device is known to be fast.";
    OpeningsLate "openings_late" Late "The openings did not come before their deadline." "Ask again with a longer deadline if the link is known to be slow; else treat the work as not done.";
    AbandonedRepeatedly "abandoned_repeatedly" Evasive "The miner broke off too many of its last challenges after positions were named." "Treat the host as dishonest, or its link as unfit to be judged over.";
    DeviceGone "device_gone" Short "A device that the key showed before took no part." "Look for the device on the host; if it was removed on purpose, run `assay-validator forget` for the key.";
    ExpectationMissed "expectation_missed" Short "The host showed less than the operator expects of this key." "Compare the host with the expectations in the policy file.";
    LinkSlow "link_slow" Short "The devices reach the memory of one another more slowly than the policy asks for, or did not show it." "Compare the host with others of its kind: its devices may be in several hosts, or their links down.";
    TooSlow "too_slow" Short "The work took longer than a device of the model that is claimed takes." "Compare the device with others of its model: it may be throttled, shared, or not that model.";
    MemoryBelowClaim "memory_below_claim" Short "Less memory was shown than a device of the model that is claimed has." "Look for what else holds the memory of the device; else treat the claimed model as not there.";
    BandwidthBelowClaim "bandwidth_below_claim" Short "The probe read slower than a device of the model that is claimed reads." "Compare the device with others of its model: its memory may be shared, or elsewhere.";
    TooFast "too_fast" Forged "The work or the probe was faster than a device of the model that is claimed can be." "Treat the claim as false: other or more hardware did the work.";
    ModelMismatch "model_mismatch" Forged "The speed is not that of the model that is claimed, but that of another one." "Treat the claimed model as not there.";
    DeviceAtTwoMiners "device_at_two_miners" Forged "Another miner showed the same device at the same time." "Challenge both miners in one round; forbid one of them the device.";
    KeyAtTwoAddresses "key_at_two_addresses" Forged "The key spoke for two hosts at the same time." "Give each host a key of its own, and revoke this one if it was copied without leave.";
    DeviceSick "device_sick" Sick "A device of the miner failed." "Look at the device: the miner's log says what its driver reported.";
    MinerBusy "miner_busy" Busy "The miner is busy." "Ask again later.";
    MinerDraining "miner_draining" Busy "The miner is shutting down." "Ask again when it is back.";
    MinerDeclined "miner_declined" Busy "A limit of the miner's operator was reached." "Ask again later, or ask for less; the detail names the limit.";
    NotEnoughMemory "not_enough_memory" Busy "The miner has too little free memory for the challenge." "Ask again later, for a smaller share of the memory, or with smaller matrices.";
    NothingToChallenge "nothing_to_challenge" Busy "No device of the miner has as many slots as the policy asks for." "Free memory on the host, or lower the policy's min_slots.";
    StaleInventory "stale_inventory" Busy "The miner's devices or their limits had just changed." "Ask again.";
    MinerUnsupported "miner_unsupported" Busy "The miner's devices cannot do what the challenge asks." "Ask for another n or a smaller probe.";
    MinerStopped "miner_stopped" Busy "The miner stopped without a fault of its devices." "Look at the miner's log, and ask again.";
    DeviceMissing "device_missing" Busy "A device that the key showed before took no part." "Ask the host's operator; if the device was removed on purpose, run `assay-validator forget` for the key.";
    Disconnected "disconnected" Network "The connection broke." "Ask again when the miner is back.";
    NotReading "not_reading" Network "The miner did not read what the validator sent." "Check the link and the miner, and ask again.";
    Abandoned "abandoned" Network "The miner broke the challenge off when it knew its times, or which positions to open." "Ask again; a host that does so repeatedly fails.";
    PeerSilent "peer_silent" Network "The miner no longer answers pings." "Check the link, and ask again.";
    MinerInternal "miner_internal" Ours "The miner's program met an error of its own, or a process of it was killed." "Look at the miner's log, and ask again.";
    ValidatorDevices "validator_devices" Ours "The validator's own devices failed or do not suffice." "Look at the validator's log; ask for an audit, which needs no device.";
    ValidatorOverloaded "validator_overloaded" Ours "The validator had too much to do to judge." "Give the validator fewer miners or more cores, and ask again.";
    ValidatorDraining "validator_draining" Ours "The validator is shutting down." "Ask again when it is back.";
    ValidatorLost "validator_lost" Ours "The validator ended in mid-challenge, without a verdict." "Look at why the validator ended; a challenge by the schedule comes again.";
    DeviceDisputed "device_disputed" Ours "Another miner showed the same device, and it is not known whose it is." "Challenge both miners in one round, which the validator does once an hour: one device cannot answer for two.";
    Cancelled "cancelled" Ours "An operator cancelled the challenge." "Ask again when the host is to be judged.";
    ValidatorInternal "validator_internal" Ours "The validator met an error of its own." "Look at the validator's log.";
}

impl ReasonCode {
    /// Whether the work itself held: only other knowledge about the key speaks against a pass.
    #[must_use]
    pub const fn leaves_work_standing(self) -> bool {
        matches!(
            self,
            Self::DeviceMissing
                | Self::DeviceGone
                | Self::ExpectationMissed
                | Self::LinkSlow
                | Self::TooSlow
                | Self::MemoryBelowClaim
                | Self::BandwidthBelowClaim
                | Self::TooFast
                | Self::ModelMismatch
                | Self::DeviceAtTwoMiners
                | Self::DeviceDisputed
                | Self::KeyAtTwoAddresses
        )
    }
}

/// One reason behind an outcome. Its document adds the class and the advice that follow from the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "ReasonDocument", from = "ReasonDocument")]
pub struct Reason {
    /// What happened.
    pub code: ReasonCode,
    /// The circumstances, with figures.
    pub detail: String,
    /// The device, where one is meant.
    pub device_id: Option<DeviceId>,
}

impl Reason {
    /// A reason about the whole host.
    pub fn new(code: ReasonCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), device_id: None }
    }

    /// A reason about one device.
    pub fn on_device(code: ReasonCode, device_id: DeviceId, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), device_id: Some(device_id) }
    }
}

/// A reason in its printed form.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Reason))]
struct ReasonDocument {
    /// The code.
    code: ReasonCode,
    /// Its attribution.
    class: Class,
    /// The device that it names, if any.
    device_id: Option<DeviceId>,
    /// Details, with figures.
    detail: String,
    /// Advice to the reader of the verdict.
    #[serde(skip_deserializing)]
    advice: Cow<'static, str>,
}

impl From<Reason> for ReasonDocument {
    fn from(Reason { code, detail, device_id }: Reason) -> Self {
        Self { code, class: code.class(), device_id, detail, advice: code.advice().into() }
    }
}

impl From<ReasonDocument> for Reason {
    fn from(ReasonDocument { code, class: _, device_id, detail, advice: _ }: ReasonDocument) -> Self {
        Self { code, detail, device_id }
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Reason {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        ReasonDocument::schema()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Reason {
    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>)>) {
        ReasonDocument::schemas(schemas);
    }
}

/// The outcome of reasons: a pass without reasons; a fail with any that fails; else inconclusive.
pub fn outcome_of(reasons: &[Reason]) -> Outcome {
    if reasons.is_empty() {
        Outcome::Pass
    } else if reasons.iter().any(|r| r.code.class().fails()) {
        Outcome::Fail
    } else {
        Outcome::Inconclusive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_outcome_counts() {
        use Outcome::{Fail, Inconclusive, Pass};
        assert_eq!(Outcome::worst([Pass, Pass]), Pass);
        assert_eq!(Outcome::worst([Pass, Inconclusive]), Inconclusive);
        assert_eq!(Outcome::worst([Inconclusive, Fail, Pass]), Fail);
        assert_eq!(Outcome::worst([]), Inconclusive, "nothing was shown");
    }

    #[test]
    fn only_forged_late_evasive_and_short_fail() {
        for code in ReasonCode::ALL {
            let outcome = outcome_of(&[Reason::new(code, "")]);
            let fails = matches!(code.class(), Class::Forged | Class::Late | Class::Evasive | Class::Short);
            assert_eq!(outcome, if fails { Outcome::Fail } else { Outcome::Inconclusive }, "{code}");
        }
        assert_eq!(outcome_of(&[]), Outcome::Pass);
    }

    #[test]
    fn codes_are_distinct_and_machine_readable() {
        let mut names: Vec<_> = ReasonCode::ALL.iter().map(|c| c.name()).collect();
        assert!(names.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ReasonCode::ALL.len());
    }

    #[test]
    fn a_failure_outweighs_what_could_not_be_judged() {
        let reasons = [Reason::new(ReasonCode::Disconnected, ""), Reason::new(ReasonCode::AuditElement, "")];
        assert_eq!(outcome_of(&reasons), Outcome::Fail);
    }
}
