//! The kinds of fields: each reads a field of the wire within its bound and writes it within the same bound.

use std::time::Duration;

use assay_work::DeviceId;
use assay_work::text::is_printable;
pub use assay_work::text::printable;
use bytes::Bytes;

use super::error::{FieldProblem, WireError};

/// How one field is converted: `W` on the wire, `D` in the domain. `field` is its name in errors, `Message.field`.
pub trait FieldKind<W, D> {
    /// Checks and converts a received value.
    fn read(&self, field: &'static str, wire: W) -> Result<D, WireError>;

    /// Converts a value to send. Cannot fail: a value beyond a bound is brought into it, except for lists.
    fn write(&self, value: D) -> W;
}

/// A value with the same type on both sides and no bound.
pub struct PlainValue;

impl<T> FieldKind<T, T> for PlainValue {
    fn read(&self, _field: &'static str, value: T) -> Result<T, WireError> {
        Ok(value)
    }

    fn write(&self, value: T) -> T {
        value
    }
}

/// A message, converted by its own fields.
pub struct NestedMessage;

impl<W: From<D>, D: TryFrom<W, Error = WireError>> FieldKind<W, D> for NestedMessage {
    fn read(&self, _field: &'static str, wire: W) -> Result<D, WireError> {
        wire.try_into()
    }

    fn write(&self, value: D) -> W {
        value.into()
    }
}

/// A [`NestedMessage`] message in a box on the wire only, which keeps the generated type small.
pub struct BoxedOnWire;

impl<W: From<D>, D: TryFrom<W, Error = WireError>> FieldKind<Box<W>, D> for BoxedOnWire {
    fn read(&self, _field: &'static str, wire: Box<W>) -> Result<D, WireError> {
        (*wire).try_into()
    }

    fn write(&self, value: D) -> Box<W> {
        Box::new(value.into())
    }
}

/// A [`NestedMessage`] message in a box in the domain only.
pub struct BoxedInDomain;

impl<W: From<D>, D: TryFrom<W, Error = WireError>> FieldKind<W, Box<D>> for BoxedInDomain {
    fn read(&self, _field: &'static str, wire: W) -> Result<Box<D>, WireError> {
        wire.try_into().map(Box::new)
    }

    fn write(&self, value: Box<D>) -> W {
        (*value).into()
    }
}

/// A [`NestedMessage`] message that must be set: [`FieldProblem::Missing`].
pub struct RequiredMessage;

impl<W: From<D>, D: TryFrom<W, Error = WireError>> FieldKind<Option<W>, D> for RequiredMessage {
    fn read(&self, field: &'static str, wire: Option<W>) -> Result<D, WireError> {
        wire.ok_or(WireError::new(field, FieldProblem::Missing))?.try_into()
    }

    fn write(&self, value: D) -> Option<W> {
        Some(value.into())
    }
}

/// A field that may be unset.
pub struct Optional<K>(pub K);

impl<W, D, K: FieldKind<W, D>> FieldKind<Option<W>, Option<D>> for Optional<K> {
    fn read(&self, field: &'static str, wire: Option<W>) -> Result<Option<D>, WireError> {
        wire.map(|wire| self.0.read(field, wire)).transpose()
    }

    fn write(&self, value: Option<D>) -> Option<W> {
        value.map(|value| self.0.write(value))
    }
}

/// At most this number of messages: [`FieldProblem::TooMany`]. A sender keeps to the bound itself.
pub struct List(pub usize);

impl<W: From<D>, D: TryFrom<W, Error = WireError>> FieldKind<Vec<W>, Vec<D>> for List {
    fn read(&self, field: &'static str, wire: Vec<W>) -> Result<Vec<D>, WireError> {
        at_most(field, self.0, wire.len())?;
        wire.into_iter().map(D::try_from).collect()
    }

    fn write(&self, values: Vec<D>) -> Vec<W> {
        values.into_iter().map(W::from).collect()
    }
}

/// As [`List`]; a sender drops the messages after the bound.
pub struct CutList(pub usize);

impl<W: From<D>, D: TryFrom<W, Error = WireError>> FieldKind<Vec<W>, Vec<D>> for CutList {
    fn read(&self, field: &'static str, wire: Vec<W>) -> Result<Vec<D>, WireError> {
        List(self.0).read(field, wire)
    }

    fn write(&self, mut values: Vec<D>) -> Vec<W> {
        values.truncate(self.0);
        List(self.0).write(values)
    }
}

/// As [`List`], in strictly ascending order of device: [`FieldProblem::NotAscending`].
pub struct DeviceList<D>(pub usize, pub fn(&D) -> DeviceId);

impl<W: From<D>, D: TryFrom<W, Error = WireError>> FieldKind<Vec<W>, Vec<D>> for DeviceList<D> {
    fn read(&self, field: &'static str, wire: Vec<W>) -> Result<Vec<D>, WireError> {
        let devices = List(self.0).read(field, wire)?;
        ascending(field, devices.iter().map(self.1))?;
        Ok(devices)
    }

    fn write(&self, devices: Vec<D>) -> Vec<W> {
        List(self.0).write(devices)
    }
}

/// A value with the same type on both sides that must pass a check. A sender checks it itself.
pub struct CheckedValue<T>(pub fn(&'static str, &T) -> Result<(), WireError>);

impl<T> FieldKind<T, T> for CheckedValue<T> {
    fn read(&self, field: &'static str, value: T) -> Result<T, WireError> {
        (self.0)(field, &value)?;
        Ok(value)
    }

    fn write(&self, value: T) -> T {
        value
    }
}

/// Exactly `N` numbers: [`FieldProblem::Count`].
pub struct NumberArray<const N: usize>;

impl<const N: usize> FieldKind<Vec<u32>, [u32; N]> for NumberArray<N> {
    fn read(&self, field: &'static str, numbers: Vec<u32>) -> Result<[u32; N], WireError> {
        let problem = FieldProblem::Count { expected: N, found: numbers.len() };
        numbers.try_into().map_err(|_| WireError::new(field, problem))
    }

    fn write(&self, numbers: [u32; N]) -> Vec<u32> {
        numbers.to_vec()
    }
}

/// A byte string of the domain type's length: [`FieldProblem::Length`].
pub struct ByteString<const N: usize>;

/// As [`ByteString`], or empty.
pub struct OptionalByteString<const N: usize>;

impl<const N: usize, T: From<[u8; N]> + AsRef<[u8]>> FieldKind<Vec<u8>, Option<T>> for OptionalByteString<N> {
    fn read(&self, field: &'static str, bytes: Vec<u8>) -> Result<Option<T>, WireError> {
        if bytes.is_empty() { Ok(None) } else { ByteString.read(field, bytes).map(Some) }
    }

    fn write(&self, value: Option<T>) -> Vec<u8> {
        value.map(|value| ByteString.write(value)).unwrap_or_default()
    }
}

impl<const N: usize, T: From<[u8; N]> + AsRef<[u8]>> FieldKind<Vec<u8>, T> for ByteString<N> {
    fn read(&self, field: &'static str, bytes: Vec<u8>) -> Result<T, WireError> {
        let problem = FieldProblem::Length { expected: N, found: bytes.len() };
        <[u8; N]>::try_from(bytes).map(T::from).map_err(|_| WireError::new(field, problem))
    }

    fn write(&self, value: T) -> Vec<u8> {
        value.as_ref().to_vec()
    }
}

/// At most this number of byte strings of the domain type's length, concatenated: [`FieldProblem::CutOff`],
/// [`FieldProblem::TooMany`].
pub struct ConcatenatedBytes<const N: usize>(pub usize);

impl<const N: usize, W, T> FieldKind<W, Vec<T>> for ConcatenatedBytes<N>
where
    W: AsRef<[u8]> + From<Vec<u8>>,
    T: From<[u8; N]> + AsRef<[u8]>,
{
    fn read(&self, field: &'static str, bytes: W) -> Result<Vec<T>, WireError> {
        let bytes = bytes.as_ref();
        let (values, rest) = bytes.as_chunks::<N>();
        if !rest.is_empty() {
            return Err(WireError::new(field, FieldProblem::CutOff { unit: N, found: bytes.len() }));
        }
        at_most(field, self.0, values.len())?;
        Ok(values.iter().map(|value| T::from(*value)).collect())
    }

    fn write(&self, values: Vec<T>) -> W {
        let mut bytes = Vec::with_capacity(N * values.len());
        values.iter().for_each(|value| bytes.extend_from_slice(value.as_ref()));
        bytes.into()
    }
}

/// At most this number of bytes: [`FieldProblem::TooLong`]. They are copied, so that the rest of the message goes. A
/// sender keeps to the bound itself.
pub struct BytesUpTo(pub usize);

impl FieldKind<Bytes, Vec<u8>> for BytesUpTo {
    fn read(&self, field: &'static str, bytes: Bytes) -> Result<Vec<u8>, WireError> {
        not_longer(field, self.0, bytes.len())?;
        Ok(bytes.to_vec())
    }

    fn write(&self, bytes: Vec<u8>) -> Bytes {
        bytes.into()
    }
}

/// At most this number of byte strings of the domain type's length, each a field entry: [`FieldProblem::TooMany`],
/// [`FieldProblem::Length`]. A sender keeps to the bound itself.
pub struct ByteStrings<const N: usize>(pub usize);

impl<const N: usize, T: From<[u8; N]> + Into<[u8; N]>> FieldKind<Vec<Vec<u8>>, Vec<T>> for ByteStrings<N> {
    fn read(&self, field: &'static str, wire: Vec<Vec<u8>>) -> Result<Vec<T>, WireError> {
        at_most(field, self.0, wire.len())?;
        let entry = |bytes: Vec<u8>| {
            let problem = FieldProblem::Length { expected: N, found: bytes.len() };
            <[u8; N]>::try_from(bytes).map(T::from).map_err(|_| WireError::new(field, problem))
        };
        wire.into_iter().map(entry).collect()
    }

    fn write(&self, values: Vec<T>) -> Vec<Vec<u8>> {
        values.into_iter().map(|value| value.into().to_vec()).collect()
    }
}

/// Another kind of list with at least one entry: [`FieldProblem::Empty`]. A sender keeps to it itself.
pub struct NotEmpty<K>(pub K);

impl<W, T, K: FieldKind<W, Vec<T>>> FieldKind<W, Vec<T>> for NotEmpty<K> {
    fn read(&self, field: &'static str, wire: W) -> Result<Vec<T>, WireError> {
        let values = self.0.read(field, wire)?;
        if values.is_empty() { Err(WireError::new(field, FieldProblem::Empty)) } else { Ok(values) }
    }

    fn write(&self, values: Vec<T>) -> W {
        self.0.write(values)
    }
}

/// At most this number of bytes of printable text: [`text`]. A sender's text is made printable and cut.
pub struct BoundedText(pub usize);

impl FieldKind<String, String> for BoundedText {
    fn read(&self, field: &'static str, value: String) -> Result<String, WireError> {
        text(field, self.0, value)
    }

    fn write(&self, value: String) -> String {
        printable(&value, self.0)
    }
}

/// A number that is neither infinite nor undefined: [`FieldProblem::NotFinite`]. A sender's infinity becomes the
/// nearest finite number (the logarithm of a probability of 0 needs it), and an undefined number 0.
pub struct Finite;

impl FieldKind<f64, f64> for Finite {
    fn read(&self, field: &'static str, number: f64) -> Result<f64, WireError> {
        if number.is_finite() { Ok(number) } else { Err(WireError::new(field, FieldProblem::NotFinite)) }
    }

    fn write(&self, number: f64) -> f64 {
        if number.is_nan() { 0.0 } else { number.clamp(f64::MIN, f64::MAX) }
    }
}

/// A duration as whole milliseconds, from the first number to the second: [`FieldProblem::OutOfRange`].
#[derive(Clone, Copy)]
pub struct Milliseconds(pub u64, pub u64);

impl FieldKind<u64, Duration> for Milliseconds {
    fn read(&self, field: &'static str, ms: u64) -> Result<Duration, WireError> {
        in_range(field, self.0, self.1, ms)?;
        Ok(Duration::from_millis(ms))
    }

    fn write(&self, duration: Duration) -> u64 {
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).clamp(self.0, self.1)
    }
}

impl FieldKind<u32, Duration> for Milliseconds {
    fn read(&self, field: &'static str, ms: u32) -> Result<Duration, WireError> {
        self.read(field, u64::from(ms))
    }

    fn write(&self, duration: Duration) -> u32 {
        let ms: u64 = self.write(duration);
        u32::try_from(ms).unwrap_or(u32::MAX)
    }
}

/// A duration as whole milliseconds, up to the number: [`FieldProblem::OutOfRange`]. 0 stands for `None`; a sender's
/// shorter time becomes 1 ms.
pub struct OptionalMilliseconds(pub u64);

impl FieldKind<u32, Option<Duration>> for OptionalMilliseconds {
    fn read(&self, field: &'static str, ms: u32) -> Result<Option<Duration>, WireError> {
        let duration = Milliseconds(0, self.0).read(field, ms)?;
        Ok(Some(duration).filter(|duration| !duration.is_zero()))
    }

    fn write(&self, duration: Option<Duration>) -> u32 {
        duration.map_or(0, |duration| Milliseconds(1, self.0).write(duration))
    }
}

/// Two numbers of which the first is at most the second ([`FieldProblem::MoreThan`]), and that at most `max_whole`
/// ([`FieldProblem::OutOfRange`]).
pub struct PartOf {
    /// The first number's field.
    pub part: &'static str,
    /// The second number's field.
    pub whole: &'static str,
    /// The bound of the second number.
    pub max_whole: u64,
}

impl FieldKind<(u64, u64), (u64, u64)> for PartOf {
    fn read(&self, _fields: &'static str, (part, whole): (u64, u64)) -> Result<(u64, u64), WireError> {
        in_range(self.whole, 0, self.max_whole, whole)?;
        if part > whole {
            let (_message, whole) = self.whole.split_once('.').unwrap_or(("", self.whole));
            return Err(WireError::new(self.part, FieldProblem::MoreThan(whole)));
        }
        Ok((part, whole))
    }

    fn write(&self, (part, whole): (u64, u64)) -> (u64, u64) {
        let whole = whole.min(self.max_whole);
        (part.min(whole), whole)
    }
}

/// Another kind under this name in errors.
pub struct NamedField<K>(pub &'static str, pub K);

impl<W, D, K: FieldKind<W, D>> FieldKind<W, D> for NamedField<K> {
    fn read(&self, _field: &'static str, wire: W) -> Result<D, WireError> {
        self.1.read(self.0, wire)
    }

    fn write(&self, value: D) -> W {
        self.1.write(value)
    }
}

/// Checks that a text has at most `max` bytes and can be printed as it is: [`FieldProblem::TooLong`],
/// [`FieldProblem::Unprintable`].
pub fn text(field: &'static str, max: usize, text: String) -> Result<String, WireError> {
    not_longer(field, max, text.len())?;
    if is_printable(&text) { Ok(text) } else { Err(WireError::new(field, FieldProblem::Unprintable)) }
}

/// Checks how many bytes a value has: [`FieldProblem::TooLong`].
pub const fn not_longer(field: &'static str, max: usize, found: usize) -> Result<(), WireError> {
    if found > max { Err(WireError::new(field, FieldProblem::TooLong { max, found })) } else { Ok(()) }
}

/// Checks how many entries a list has: [`FieldProblem::TooMany`].
pub const fn at_most(field: &'static str, max: usize, found: usize) -> Result<(), WireError> {
    if found > max { Err(WireError::new(field, FieldProblem::TooMany { max, found })) } else { Ok(()) }
}

/// Checks that a number is in its range: [`FieldProblem::OutOfRange`].
pub const fn in_range(field: &'static str, min: u64, max: u64, found: u64) -> Result<(), WireError> {
    if min <= found && found <= max {
        Ok(())
    } else {
        Err(WireError::new(field, FieldProblem::OutOfRange { min, max, found }))
    }
}

/// Checks that values are in strictly ascending order: [`FieldProblem::NotAscending`] with the index of the first that
/// is not.
pub fn ascending<T: Ord>(field: &'static str, values: impl IntoIterator<Item = T>) -> Result<(), WireError> {
    let mut before: Option<T> = None;
    for (i, value) in values.into_iter().enumerate() {
        if before.is_some_and(|before| before >= value) {
            return Err(WireError::new(field, FieldProblem::NotAscending(i)));
        }
        before = Some(value);
    }
    Ok(())
}
