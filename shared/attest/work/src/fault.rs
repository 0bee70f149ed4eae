//! Why an answer to an audit or a probe's openings are refused (WORK.md, Audit): the first fault in a fixed order.

use std::fmt;

use super::bytes::DeviceId;

crate::names! {
    /// A fault of an answer, as WORK.md's table names and orders them: a lower one is named before a higher one.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FaultKind {
        /// A device, iteration, root or previous root that is not the challenge's and the commitment's.
        Binding = "binding",
        /// Not exactly `count` digests, or they do not hash to the root.
        Digests = "digests",
        /// Other slots than those asked for, in another order or number, or a sample other than the one drawn.
        Rows = "rows",
        /// An opened range of another position or length.
        Range = "range",
        /// Another number of siblings.
        Siblings = "siblings",
        /// A range and its siblings do not lead to the digest.
        Path = "path",
        /// A leaf's row is not the keystream.
        Leaf = "leaf",
        /// An element differs from its formula's result.
        Element = "element",
        /// A walk does not end in the state opened.
        State = "state",
        /// A row does not give the sum opened.
        Sum = "sum",
    }
}

impl FaultKind {
    const fn sentence(self) -> &'static str {
        match self {
            Self::Binding => "a device, iteration or root is not the challenge's and the commitment's",
            Self::Digests => "the digests of the slots are not those of the committed root",
            Self::Rows => "the openings are not those of the sample drawn",
            Self::Range => "the opened range has another position or length",
            Self::Siblings => "the opened range has another number of siblings",
            Self::Path => "the opened range and its siblings do not lead to the digest",
            Self::Leaf => "the row of a leaf is not the keystream",
            Self::Element => "an element is not what its formula gives",
            Self::State => "the walk does not end in the state opened",
            Self::Sum => "the row does not give the sum opened",
        }
    }
}

/// Where in an answer a fault was found; all indices count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultPlace {
    /// The answer as a whole.
    Answer,
    /// One sample of an audit or a sweep.
    Sample {
        /// Index of the sample, in the order drawn.
        sample: usize,
    },
    /// One opening of a sample.
    Opening {
        /// Index of the sample, in the order drawn.
        sample: usize,
        /// Index of the opening in its sample.
        opening: usize,
    },
    /// One segment of a probe, or the state that it ends in.
    Segment {
        /// Index of the segment, in the order drawn.
        segment: usize,
    },
    /// One step of a segment.
    Step {
        /// Index of the segment, in the order drawn.
        segment: usize,
        /// Index of the step in its segment.
        step: usize,
    },
}

impl fmt::Display for FaultPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer => Ok(()),
            Self::Sample { sample } => write!(f, ", sample {sample}"),
            Self::Opening { sample, opening } => write!(f, ", sample {sample}, opening {opening}"),
            Self::Segment { segment } => write!(f, ", segment {segment}"),
            Self::Step { segment, step } => write!(f, ", segment {segment}, step {step}"),
        }
    }
}

/// Why an answer is refused: the first fault in WORK.md's order, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("device {device_id}{place}: {}", kind.sentence())]
pub struct OpeningFault {
    /// The first fault.
    pub kind: FaultKind,
    /// The device asked.
    pub device_id: DeviceId,
    /// The place of the fault in the answer.
    pub place: FaultPlace,
}

impl OpeningFault {
    /// The stable name of the fault, as in WORK.md.
    pub const fn code(&self) -> &'static str {
        self.kind.name()
    }
}
