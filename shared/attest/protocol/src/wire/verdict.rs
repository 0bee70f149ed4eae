//! Verdicts.
//!
//! A miner may be older than its validator, and only displays a verdict, so a reason with an unknown code is kept: as
//! the least specific known code of its class, with the unknown code in front of the detail. Outcomes, classes and
//! modes are closed sets: an unknown one is refused.

use super::codes::{Code, OptionalCode};
use super::error::{FieldProblem, WireError};
use super::field::{
    self, BoundedText, ByteString, CutList, DeviceList, FieldKind, Finite, List, NestedMessage, Optional,
    RequiredMessage,
};
use super::limits::{
    MAX_BOUNDS, MAX_CLASS_BYTES, MAX_DETAIL_BYTES, MAX_DEVICES, MAX_NAME_BYTES, MAX_PRECISIONS, MAX_REASON_CODE_BYTES,
    MAX_REASONS, MAX_RECEIPT_BYTES,
};
use super::v1;
use crate::verdict::{
    Bound, Class, DeviceWork, Hiding, KindRate, LinkWork, NamedDevice, Reason, ReasonCode, SweepWork,
    UnchallengedDevice, Verdict, Work,
};
use assay_work::Precision;

messages! {
    v1::Verdict = Verdict {
        challenge_id: ByteString,
        miner_key: ByteString,
        validator_key: ByteString,
        outcome: Code,
        reasons: CutList(MAX_REASONS),
        mode: OptionalCode,
        precision: WorkCode,
        n,
        iterations,
        iterations_checked,
        devices: DeviceList(MAX_DEVICES, |device: &DeviceWork| device.device_id),
        whole: RequiredMessage,
        work_bounds: List(MAX_BOUNDS),
        iteration_bounds: List(MAX_BOUNDS),
        probe_bounds: List(MAX_BOUNDS),
        round_trip_ms: ZeroIfUnmeasured,
        unix_seconds,
        not_challenged: DeviceList(MAX_DEVICES, |device: &UnchallengedDevice| device.device_id),
        abandoned_recently,
        recent_challenges,
        handover_ms: Optional(Finite),
        roots_ms: Optional(Finite),
        digests_ms: Optional(Finite),
        missing_devices: DeviceList(MAX_DEVICES, |device: &NamedDevice| device.device_id),
        new_devices: DeviceList(MAX_DEVICES, |device: &NamedDevice| device.device_id),
        receipt: Optional(BoundedText(MAX_RECEIPT_BYTES)),
        link: Optional(NestedMessage),
    }
    v1::Reason = Reason { code & class & detail as code & detail: CodeOfClass, device_id: Optional(ByteString) }
    v1::DeviceWork = DeviceWork {
        device_id: ByteString,
        name: BoundedText(MAX_NAME_BYTES),
        work: RequiredMessage,
        claimed_telemetry: Optional(NestedMessage),
        hiding: Optional(NestedMessage),
        rates: KnownRates,
        sweep: Optional(NestedMessage),
    }
    v1::SweepWork = SweepWork {
        bytes,
        seconds: Finite,
        gb_per_s: Finite,
        share: Finite,
        elsewhere_bytes_per_s: Finite,
        open_sums: Finite,
        samples,
        rounds,
    }
    v1::KindRate = KindRate { precision: WorkCode, tops: Finite, detour: Finite, unix_seconds }
    v1::Hiding = Hiding {
        rate_per_s: Finite,
        rate_is_shown_only,
        computed: Finite,
        over_buses: Finite,
        share: Finite,
        bus_bytes_per_s: Finite,
        copy_bytes_per_s: Finite,
        elsewhere: Finite,
        open_walks: Finite,
        rule,
        operand_bytes_per_s: Finite,
        chip_bytes: Finite,
        operands: Finite,
        is_by_operands,
    }
    v1::NotChallenged = UnchallengedDevice { device_id: ByteString, name: BoundedText(MAX_NAME_BYTES), slots }
    v1::NamedDevice = NamedDevice { device_id: ByteString, name: BoundedText(MAX_NAME_BYTES) }
    v1::Work = Work {
        matrices,
        bytes_held,
        multiply_accumulates_high & multiply_accumulates_low as multiply_accumulates: BoundHalves,
        seconds: Finite,
        tops: Finite,
        probe_bytes,
        probe_seconds: Finite,
        probe_gb_per_s: Finite,
        samples,
        segments,
        claimed_seconds: Optional(Finite),
    }
    v1::Link = LinkWork {
        seconds: Finite,
        step_seconds: Finite,
        crossed_bytes,
        gb_per_s: Finite,
        half_gb_per_s: Finite,
        least_gb_per_s: Finite,
        segments,
        bounds: List(MAX_BOUNDS),
    }
    v1::Bound = Bound { fraction: Finite, log2_probability: Finite }
}

/// The number of a kind of work; 0 on the wire is INT8, as validators of before there were others send it.
struct WorkCode;

impl FieldKind<u32, Precision> for WorkCode {
    fn read(&self, field: &'static str, code: u32) -> Result<Precision, WireError> {
        let unknown = || WireError::new(field, FieldProblem::UnknownNumber(code));
        if code == 0 { Ok(Precision::Int8) } else { Precision::from_code(code).ok_or_else(unknown) }
    }

    fn write(&self, precision: Precision) -> u32 {
        precision.code()
    }
}

/// Rates by kind of work, without those of kinds that this version does not know.
struct KnownRates;

impl FieldKind<Vec<v1::KindRate>, Vec<KindRate>> for KnownRates {
    fn read(&self, field: &'static str, rates: Vec<v1::KindRate>) -> Result<Vec<KindRate>, WireError> {
        let is_known = |rate: &v1::KindRate| Precision::from_code(rate.precision).is_some();
        field::at_most(field, MAX_PRECISIONS, rates.len())?;
        field::ascending(field, rates.iter().map(|rate| rate.precision))?;
        List(MAX_PRECISIONS).read(field, rates.into_iter().filter(is_known).collect())
    }

    fn write(&self, rates: Vec<KindRate>) -> Vec<v1::KindRate> {
        List(MAX_PRECISIONS).write(rates)
    }
}

/// A round trip; 0 on the wire is one that was not measured.
struct ZeroIfUnmeasured;

impl FieldKind<f64, Option<f64>> for ZeroIfUnmeasured {
    fn read(&self, field: &'static str, ms: f64) -> Result<Option<f64>, WireError> {
        Ok(Some(Finite.read(field, ms)?).filter(|ms| *ms != 0.0))
    }

    fn write(&self, ms: Option<f64>) -> f64 {
        ms.map_or(0.0, |ms| Finite.write(ms))
    }
}

/// A 128-bit number as its high and its low 64 bits.
struct BoundHalves;

impl FieldKind<(u64, u64), u128> for BoundHalves {
    fn read(&self, _fields: &'static str, (high, low): (u64, u64)) -> Result<u128, WireError> {
        Ok(u128::from(high) << 64 | u128::from(low))
    }

    fn write(&self, number: u128) -> (u64, u64) {
        ((number >> 64) as u64, number as u64)
    }
}

/// A reason's code and class by name, and its detail.
struct CodeOfClass;

impl FieldKind<(String, String, String), (ReasonCode, String)> for CodeOfClass {
    fn read(
        &self,
        _fields: &'static str,
        (code, class, detail): (String, String, String),
    ) -> Result<(ReasonCode, String), WireError> {
        let code = field::text("Reason.code", MAX_REASON_CODE_BYTES, code)?;
        let class = read_class(field::text("Reason.class", MAX_CLASS_BYTES, class)?)?;
        let detail = field::text("Reason.detail", MAX_DETAIL_BYTES, detail)?;
        match ReasonCode::named(&code) {
            Some(known) if known.class() == class => Ok((known, detail)),
            Some(_) => Err(WireError::new("Reason.class", FieldProblem::Contradicts("code"))),
            None => Ok((least_specific(class), field::printable(&format!("{code}: {detail}"), MAX_DETAIL_BYTES))),
        }
    }

    fn write(&self, (code, detail): (ReasonCode, String)) -> (String, String, String) {
        (code.name().into(), code.class().name().into(), field::printable(&detail, MAX_DETAIL_BYTES))
    }
}

/// The class with a name.
fn read_class(name: String) -> Result<Class, WireError> {
    Class::named(&name).ok_or(WireError::new("Reason.class", FieldProblem::UnknownName(name)))
}

/// The code that a reason of a class is shown with when its own is unknown.
const fn least_specific(class: Class) -> ReasonCode {
    match class {
        Class::Forged => ReasonCode::Protocol,
        Class::Late => ReasonCode::CommitmentLate,
        Class::Evasive => ReasonCode::AbandonedRepeatedly,
        Class::Short => ReasonCode::ExpectationMissed,
        Class::Sick => ReasonCode::DeviceSick,
        Class::Busy => ReasonCode::MinerStopped,
        Class::Network => ReasonCode::Disconnected,
        Class::Ours => ReasonCode::ValidatorInternal,
    }
}
