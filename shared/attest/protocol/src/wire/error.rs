//! Why a received message is refused.

/// A message that violates a rule of the wire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct WireError {
    /// The field by its name in `proto/`, `Message.field`.
    pub field: &'static str,
    /// The violation.
    pub problem: FieldProblem,
}

impl WireError {
    /// An error of a field.
    pub const fn new(field: &'static str, problem: FieldProblem) -> Self {
        Self { field, problem }
    }
}

/// A violation of a field's rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    /// It is unset, or a variant of a newer version.
    #[error("is missing, or of a kind that this version does not know")]
    Missing,
    /// A byte string has another length than its fixed one.
    #[error("has {found} bytes; {expected} are expected")]
    Length {
        /// The fixed length.
        expected: usize,
        /// The length found.
        found: usize,
    },
    /// A list has another length than its fixed one.
    #[error("has {found} entries; {expected} are expected")]
    Count {
        /// The fixed length.
        expected: usize,
        /// The length found.
        found: usize,
    },
    /// Concatenated values of fixed length, the last of which is incomplete.
    #[error("has {found} bytes, which is no multiple of {unit}")]
    CutOff {
        /// Bytes of a value.
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
    /// Too many entries, which were counted up to the bound only.
    #[error("has more than {max} entries in one message")]
    Exceeds {
        /// The bound.
        max: usize,
    },
    /// No entry where one is required.
    #[error("is empty")]
    Empty,
    /// Bytes that are not a message.
    #[error("{0}")]
    Encoding(&'static str),
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
    /// A code that this version does not define.
    #[error("has the code {0}, which this version does not know")]
    UnknownCode(i32),
    /// A number that this version does not define.
    #[error("is {0}, which this version does not know")]
    UnknownNumber(u32),
    /// A name that this version does not define.
    #[error("is {0:?}, which this version does not know")]
    UnknownName(String),
    /// A character that is not printable: one that controls a terminal or cannot be seen.
    #[error("has a character that is not printable")]
    Unprintable,
    /// Infinity or NaN.
    #[error("is not a finite number")]
    NotFinite,
    /// An entry that is not greater than the one before it, by index.
    #[error("are not in strictly ascending order at entry {0}")]
    NotAscending(usize),
    /// A number greater than that of another field.
    #[error("is more than {0}")]
    MoreThan(&'static str),
    /// A value inconsistent with another field.
    #[error("contradicts {0}")]
    Contradicts(&'static str),
    /// A violated rule of WORK.md.
    #[error("{0}")]
    Rule(String),
}
