//! A miner's openings in an audit, in the interchange form (WORK.md, Openings and JSON).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bytes::{ChainingValue, DeviceId, Digest, Root, hex_vec};
use super::challenge::UncheckedChallenge;
use super::fault::FaultKind;
use super::json;
use super::tree;

/// One draw of the validator in a pass of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "SampleForm", into = "SampleForm")]
pub enum PassSample {
    /// One multiply-accumulate `(u, r, c, k)` of a product.
    Product {
        /// `u`, from 2.
        slot: u32,
        /// `r`.
        row: u32,
        /// `c`.
        column: u32,
        /// `k`.
        inner: u32,
    },
    /// One row of a leaf.
    Leaf {
        /// 0 or 1.
        slot: u32,
        /// Row of the leaf, below n.
        row: u32,
    },
}

impl PassSample {
    /// The slot and the row that are sampled.
    pub const fn slot_and_row(&self) -> (u32, u32) {
        match *self {
            Self::Product { slot, row, .. } | Self::Leaf { slot, row } => (slot, row),
        }
    }

    /// Whether a pass of `count` slots of n-by-n has this sample.
    #[must_use]
    pub fn fits(&self, n: u32, count: u32) -> bool {
        match *self {
            Self::Product { slot, row, column, inner } => {
                (2..count).contains(&slot) && [row, column, inner].iter().all(|&x| x < n)
            }
            Self::Leaf { slot, row } => slot < 2 && row < n,
        }
    }
}

/// The parents that an answer names for the slot of a product sample. The validator derives its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parents {
    /// The slot whose rows come first.
    pub earlier: u32,
    /// `u - 1`.
    pub previous: u32,
}

/// An opened range of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenedRange {
    /// The slot that the range lies in.
    pub slot: u32,
    /// Offset of the range in the slot, in bytes.
    pub first_byte: u64,
    /// The bytes of the range.
    #[serde(with = "hex_vec")]
    pub bytes: Vec<u8>,
    /// The chaining values from the range up to the slot's digest, lowest first.
    pub siblings: Vec<ChainingValue>,
}

/// The openings of one sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SampleOpeningsForm", into = "SampleOpeningsForm")]
pub struct SampleOpenings {
    /// The sample answered.
    pub sample: PassSample,
    /// The parents named with a product sample; the interchange form has them, other forms may leave them out.
    pub parents: Option<Parents>,
    /// The ranges, in the order of WORK.md's list.
    pub openings: Vec<OpenedRange>,
}

/// The openings of one pass of one device. Its serde form is the interchange form.
///
/// Nothing in it is trusted: a check takes the expected values from the challenge and the commitment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassOpenings {
    /// The challenge answered.
    pub challenge: UncheckedChallenge,
    /// The device audited.
    pub device_id: DeviceId,
    /// The iteration drawn.
    pub iteration: u32,
    /// The root of the iteration before.
    pub previous_root: Root,
    /// The root of the iteration.
    pub root: Root,
    /// `digest[0 … count-1]` of the pass.
    pub slot_digests: Vec<Digest>,
    /// One for each sample, in the order drawn.
    pub samples: Vec<SampleOpenings>,
    /// The roots that every device committed to, for a check without the evidence.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
    pub committed_roots: Option<BTreeMap<DeviceId, Vec<Root>>>,
}

/// The place that an opened range must have, and the value that it must lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpectedRange<'a> {
    pub first_byte: u64,
    pub range_bytes: u64,
    pub total_bytes: u64,
    pub digest: &'a Digest,
}

impl ExpectedRange<'_> {
    pub fn check_range(&self, first_byte: u64, bytes: &[u8]) -> Result<(), FaultKind> {
        let same = first_byte == self.first_byte && bytes.len() as u64 == self.range_bytes;
        if same { Ok(()) } else { Err(FaultKind::Range) }
    }

    pub fn check_siblings(&self, siblings: &[ChainingValue]) -> Result<(), FaultKind> {
        let expected = tree::expected_siblings(self.range_bytes, self.total_bytes);
        if siblings.len() == expected { Ok(()) } else { Err(FaultKind::Siblings) }
    }

    /// The range and the number of siblings must have been checked.
    pub fn check_path(&self, bytes: &[u8], siblings: &[ChainingValue]) -> Result<(), FaultKind> {
        let found = tree::digest_of_range(bytes, self.first_byte, siblings, self.total_bytes);
        if found == *self.digest { Ok(()) } else { Err(FaultKind::Path) }
    }
}

/// A sample as JSON has it: a leaf's has neither column nor inner.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SampleForm {
    slot: u32,
    row: u32,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
    column: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
    inner: Option<u32>,
}

/// The openings of a sample as JSON has them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SampleOpeningsForm {
    slot: u32,
    row: u32,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
    column: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
    inner: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
    earlier: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
    previous: Option<u32>,
    openings: Vec<OpenedRange>,
}

/// A field that a sample of this slot must have, or must not have.
#[derive(Debug, thiserror::Error)]
enum SampleFormError {
    #[error("missing field `{0}`: the sample of a product has one")]
    Missing(&'static str),
    #[error("unknown field `{0}`: the sample of a leaf has none")]
    Unknown(&'static str),
}

impl From<PassSample> for SampleForm {
    fn from(sample: PassSample) -> Self {
        match sample {
            PassSample::Product { slot, row, column, inner } => {
                Self { slot, row, column: Some(column), inner: Some(inner) }
            }
            PassSample::Leaf { slot, row } => Self { slot, row, column: None, inner: None },
        }
    }
}

impl TryFrom<SampleForm> for PassSample {
    type Error = SampleFormError;

    fn try_from(form: SampleForm) -> Result<Self, SampleFormError> {
        let SampleForm { slot, row, column, inner } = form;
        if slot < 2 {
            none("column", column)?;
            none("inner", inner)?;
            return Ok(Self::Leaf { slot, row });
        }
        Ok(Self::Product { slot, row, column: some("column", column)?, inner: some("inner", inner)? })
    }
}

impl From<SampleOpenings> for SampleOpeningsForm {
    fn from(given: SampleOpenings) -> Self {
        let SampleOpenings { sample, parents, openings } = given;
        let SampleForm { slot, row, column, inner } = sample.into();
        let (earlier, previous) = (parents.map(|p| p.earlier), parents.map(|p| p.previous));
        Self { slot, row, column, inner, earlier, previous, openings }
    }
}

impl TryFrom<SampleOpeningsForm> for SampleOpenings {
    type Error = SampleFormError;

    fn try_from(form: SampleOpeningsForm) -> Result<Self, SampleFormError> {
        let SampleOpeningsForm { slot, row, column, inner, earlier, previous, openings } = form;
        let sample = SampleForm { slot, row, column, inner }.try_into()?;
        let parents = match sample {
            PassSample::Leaf { .. } => {
                none("earlier", earlier)?;
                none("previous", previous)?;
                None
            }
            PassSample::Product { .. } => {
                Some(Parents { earlier: some("earlier", earlier)?, previous: some("previous", previous)? })
            }
        };
        Ok(Self { sample, parents, openings })
    }
}

fn some(name: &'static str, value: Option<u32>) -> Result<u32, SampleFormError> {
    value.ok_or(SampleFormError::Missing(name))
}

fn none(name: &'static str, value: Option<u32>) -> Result<(), SampleFormError> {
    value.map_or(Ok(()), |_| Err(SampleFormError::Unknown(name)))
}
