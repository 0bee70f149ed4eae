//! Why a message is refused.

/// A message that breaks a rule of the wire: which field, and how.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct WireError {
    /// The field as `proto/` names it, `Message.field`.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: Problem,
}

impl WireError {
    /// A problem of a field.
    #[must_use]
    pub const fn new(field: &'static str, problem: Problem) -> Self {
        Self { field, problem }
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is not there, or of a kind that only a newer version knows.
    #[error("is missing, or of a kind that this version does not know")]
    Missing,
    /// A byte string of fixed length has another one.
    #[error("has {found} bytes; {expected} are expected")]
    Length {
        /// How many it has to have.
        expected: usize,
        /// How many it has.
        found: usize,
    },
    /// A list of fixed length has another one.
    #[error("has {found} entries; {expected} are expected")]
    Count {
        /// How many it has to have.
        expected: usize,
        /// How many it has.
        found: usize,
    },
    /// Values of fixed length in one byte string, the last of which is cut off.
    #[error("has {found} bytes, which is no multiple of {unit}")]
    CutOff {
        /// Bytes of one value.
        unit: usize,
        /// Bytes found.
        found: usize,
    },
    /// Too many entries.
    #[error("has {found} entries; at most {max} are allowed")]
    TooMany {
        /// The bound.
        max: usize,
        /// How many it has.
        found: usize,
    },
    /// Too many bytes.
    #[error("has {found} bytes; at most {max} are allowed")]
    TooLong {
        /// The bound.
        max: usize,
        /// How many it has.
        found: usize,
    },
    /// A number outside its range.
    #[error("is {found}; {min} to {max} is allowed")]
    OutOfRange {
        /// The lowest allowed.
        min: u64,
        /// The highest allowed.
        max: u64,
        /// The number.
        found: u64,
    },
    /// A code that stands for nothing here.
    #[error("has the code {0}, which this version does not know")]
    UnknownCode(i32),
    /// A name that stands for nothing here.
    #[error("is {0:?}, which this version does not know")]
    UnknownName(String),
    /// A character that would act on the terminal that it is printed to.
    #[error("has a control character")]
    ControlCharacter,
    /// A number that is infinite or none at all.
    #[error("is not a finite number")]
    NotFinite,
    /// An entry that does not come after the one before it.
    #[error("are not in strictly ascending order at entry {0}")]
    NotAscending(usize),
    /// More than another field allows.
    #[error("is more than {0}")]
    MoreThan(&'static str),
    /// It contradicts another field.
    #[error("contradicts {0}")]
    Contradicts(&'static str),
    /// A rule of the work.
    #[error("{0}")]
    Rule(String),
}
