//! Counts the entries of every list of an encoded message before it is decoded, and bounds the bytes of a miner's message
//! by its kind.
//!
//! An empty entry takes two bytes on the wire and up to 200 in memory, and decoding allocates it before the bound of the
//! list is checked: a message of 4 MiB would become 300 MiB. The count is over the whole message, so that neither a
//! repeated parent nor a field that is sent twice, which decoding merges, raises a bound.

use std::any::TypeId;
use std::sync::LazyLock;

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

use super::error::{FieldProblem, WireError};
use super::limits::{
    MAX_BOUNDS, MAX_DEVICES, MAX_HANDSHAKE_BYTES, MAX_LINES, MAX_OPEN_DRAWS, MAX_OPEN_ITEMS, MAX_PRECISIONS,
    MAX_REASONS, MAX_SAMPLE_OPENINGS, MAX_SHORT_MESSAGE_BYTES, MAX_SUCCESSORS, MAX_THROTTLE_REASONS, MAX_VERSIONS,
    MAX_XIDS, SLOT_ENTRIES,
};
use super::v1::{FILE_DESCRIPTOR_SET, SessionRequest, SessionResponse};

/// The most entries of each list in one message of a session, all occurrences together.
pub(super) const MAX_ENTRIES: [(&str, usize); 24] = [
    ("Hello.versions", MAX_VERSIONS),
    ("Hello.successors", MAX_SUCCESSORS),
    ("Welcome.successors", MAX_SUCCESSORS),
    ("Inventory.devices", MAX_DEVICES),
    ("Device.slots", MAX_DEVICES * SLOT_ENTRIES),
    ("Device.precisions", MAX_DEVICES * MAX_PRECISIONS),
    ("Telemetry.throttle_reasons", MAX_DEVICES * MAX_THROTTLE_REASONS),
    ("Telemetry.xids", MAX_DEVICES * MAX_XIDS),
    ("Verdict.reasons", MAX_REASONS),
    ("Verdict.devices", MAX_DEVICES),
    ("DeviceWork.rates", MAX_DEVICES * MAX_PRECISIONS),
    ("Verdict.not_challenged", MAX_DEVICES),
    ("Verdict.missing_devices", MAX_DEVICES),
    ("Verdict.new_devices", MAX_DEVICES),
    ("Verdict.work_bounds", MAX_BOUNDS),
    ("Verdict.probe_bounds", MAX_BOUNDS),
    ("Verdict.iteration_bounds", MAX_BOUNDS),
    ("Link.bounds", MAX_BOUNDS),
    ("Open.items", MAX_OPEN_ITEMS),
    ("OpenSegments.segments", MAX_OPEN_DRAWS),
    ("OpenSamples.samples", MAX_OPEN_DRAWS),
    ("OpenSums.samples", MAX_OPEN_DRAWS),
    ("SampleOpenings.openings", MAX_SAMPLE_OPENINGS),
    ("SegmentOpenings.lines", MAX_LINES),
];
/// The most bytes of a miner's message that has a field of this kind; of the other kinds, as many as of any message.
/// Bounds of its fields alone would let a message be padded with unknown fields.
pub(super) const MAX_BYTES: [(&str, usize); 10] = [
    ("hello", MAX_HANDSHAKE_BYTES),
    ("proof", MAX_SHORT_MESSAGE_BYTES),
    ("inventory", MAX_HANDSHAKE_BYTES),
    ("pong", MAX_SHORT_MESSAGE_BYTES),
    ("declined", MAX_SHORT_MESSAGE_BYTES),
    ("progress", MAX_SHORT_MESSAGE_BYTES),
    ("commitment", MAX_SHORT_MESSAGE_BYTES),
    ("probe_answer", MAX_SHORT_MESSAGE_BYTES),
    ("abort", MAX_SHORT_MESSAGE_BYTES),
    ("goodbye", MAX_SHORT_MESSAGE_BYTES),
];
/// Messages inside one another: the factors of a sample of an open are six deep. The bound is for a protocol with a
/// message that contains itself.
const MAX_DEPTH: usize = 8;

/// The package, as it stands before the names of types.
const PACKAGE: &str = ".assay.v1.";

/// The messages of the protocol, as far as counting needs to know them.
static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::read);

/// Checks that no list of an encoded message is longer than its bound, and that a miner's message has no more bytes than
/// its kind. Other messages than those of a session pass.
///
/// # Errors
/// [`FieldProblem::Exceeds`] with the list's name; [`FieldProblem::TooLong`] with the message's kind;
/// [`FieldProblem::Encoding`] for bytes that are not a message.
pub fn check<M: Message + 'static>(encoded: &[u8]) -> Result<(), WireError> {
    let (root, name) = if TypeId::of::<M>() == TypeId::of::<SessionRequest>() {
        (SCHEMA.request, "SessionRequest")
    } else if TypeId::of::<M>() == TypeId::of::<SessionResponse>() {
        (SCHEMA.response, "SessionResponse")
    } else {
        return Ok(());
    };
    let mut count = Count { entries: [0; MAX_ENTRIES.len()], root: name };
    if root == SCHEMA.request {
        count.kinds(encoded)?;
    }
    count.message(root, encoded, 0)
}

/// Messages by index.
struct Schema {
    /// The fields that matter of each message, by number.
    messages: Vec<Vec<(u32, Shape)>>,
    request: usize,
    response: usize,
    /// The bounds of [`MAX_BYTES`] by the number of the kind's field.
    kinds: Vec<(u32, &'static str, usize)>,
}

/// A field with entries to count.
#[derive(Clone, Copy)]
enum Shape {
    /// A message, which may have lists.
    Message(usize),
    /// A list of messages: its place in [`MAX_ENTRIES`], and the messages.
    Messages(Option<usize>, usize),
    /// A list of numbers: its place in [`MAX_ENTRIES`], and the bytes of a number where they are fixed.
    Numbers(Option<usize>, Option<usize>),
    /// A list of texts or byte strings.
    Texts(Option<usize>),
}

impl Schema {
    fn read() -> Self {
        // The build wrote it. Should it be unreadable, the schema is empty, and every message is refused.
        let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap_or_default().file;
        let messages: Vec<_> = files.iter().flat_map(|file| &file.message_type).collect();
        let index = |name: &str| messages.iter().position(|message| message.name() == name).unwrap_or(usize::MAX);
        let fields = |message: &&DescriptorProto| {
            let shape =
                |field| shape(message.name(), field, index).map(|shape| (field.number().cast_unsigned(), shape));
            message.field.iter().filter_map(shape).collect()
        };
        let request = index("SessionRequest");
        let number = |kind: &str| {
            let field = messages.get(request)?.field.iter().find(|field| field.name() == kind)?;
            Some(field.number().cast_unsigned())
        };
        let kinds = MAX_BYTES.iter().filter_map(|(kind, max)| Some((number(kind)?, *kind, *max))).collect();
        Self { messages: messages.iter().map(fields).collect(), request, response: index("SessionResponse"), kinds }
    }
}

/// The countable shape of a field.
fn shape(message: &str, field: &FieldDescriptorProto, index: impl Fn(&str) -> usize) -> Option<Shape> {
    let inner = || index(field.type_name().strip_prefix(PACKAGE).unwrap_or_default());
    if field.label() != Label::Repeated {
        return (field.r#type() == Type::Message).then(|| Shape::Message(inner()));
    }
    let name = format!("{message}.{}", field.name());
    let list = MAX_ENTRIES.iter().position(|(list, _)| *list == name);
    Some(match field.r#type() {
        Type::Message | Type::Group => Shape::Messages(list, inner()),
        Type::String | Type::Bytes => Shape::Texts(list),
        Type::Double | Type::Fixed64 | Type::Sfixed64 => Shape::Numbers(list, Some(8)),
        Type::Float | Type::Fixed32 | Type::Sfixed32 => Shape::Numbers(list, Some(4)),
        _ => Shape::Numbers(list, None),
    })
}

/// The entries counted so far in one message.
struct Count {
    entries: [usize; MAX_ENTRIES.len()],
    /// The name of the message, in errors about its bytes.
    root: &'static str,
}

impl Count {
    /// Bounds the bytes of a miner's message by each kind that it names: the last one would be taken.
    fn kinds(&self, encoded: &[u8]) -> Result<(), WireError> {
        let (mut rest, found) = (encoded, encoded.len());
        while !rest.is_empty() {
            let (number, _) = self.field(&mut rest)?;
            match SCHEMA.kinds.iter().find(|(kind, ..)| *kind == number) {
                Some((_, kind, max)) if found > *max => {
                    return Err(WireError::new(kind, FieldProblem::TooLong { max: *max, found }));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn message(&mut self, message: usize, mut bytes: &[u8], depth: usize) -> Result<(), WireError> {
        let fields = SCHEMA.messages.get(message).filter(|_| depth < MAX_DEPTH);
        let fields = fields.ok_or_else(|| self.malformed("has messages too deep in one another"))?;
        while !bytes.is_empty() {
            let (number, value) = self.field(&mut bytes)?;
            // A field with another type than it should have is for the decoder to refuse.
            match (fields.iter().find(|(known, _)| *known == number).map(|(_, shape)| *shape), value) {
                (Some(Shape::Message(inner)), CountedValue::Bytes(bytes)) => self.message(inner, bytes, depth + 1)?,
                (Some(Shape::Messages(list, inner)), CountedValue::Bytes(bytes)) => {
                    self.add(list, 1)?;
                    self.message(inner, bytes, depth + 1)?;
                }
                (Some(Shape::Numbers(list, bytes_each)), CountedValue::Bytes(packed)) => {
                    self.add(list, self.numbers(packed, bytes_each)?)?;
                }
                (Some(Shape::Texts(list) | Shape::Numbers(list, _)), _) => self.add(list, 1)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The next field's number and value.
    fn field<'a>(&self, bytes: &mut &'a [u8]) -> Result<(u32, CountedValue<'a>), WireError> {
        let key = self.varint(bytes)?;
        let number = u32::try_from(key >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or_else(|| self.malformed("has a field with an impossible number"))?;
        let value = match key & 7 {
            0 => self.varint(bytes).map(|_| CountedValue::Number)?,
            1 => self.take(bytes, 8).map(|_| CountedValue::Number)?,
            2 => {
                let length = self.varint(bytes)?;
                CountedValue::Bytes(self.take(bytes, length)?)
            }
            5 => self.take(bytes, 4).map(|_| CountedValue::Number)?,
            3 | 4 => return Err(self.malformed("has a group, which this protocol does not use")),
            _ => return Err(self.malformed("has a field of an impossible type")),
        };
        Ok((number, value))
    }

    /// Number of entries of a packed list.
    fn numbers(&self, packed: &[u8], bytes_each: Option<usize>) -> Result<usize, WireError> {
        let is_whole = match bytes_each {
            Some(bytes) => packed.len().is_multiple_of(bytes),
            None => packed.last().is_none_or(|last| *last < 0x80),
        };
        if !is_whole {
            return Err(self.malformed("ends inside a number"));
        }
        // A byte without the highest bit ends a number.
        Ok(bytes_each.map_or_else(|| packed.iter().filter(|byte| **byte < 0x80).count(), |bytes| packed.len() / bytes))
    }

    fn varint(&self, bytes: &mut &[u8]) -> Result<u64, WireError> {
        let mut value = 0;
        for (place, byte) in bytes.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                *bytes = &bytes[place + 1..];
                return Ok(value);
            }
        }
        Err(self.malformed("ends inside a number"))
    }

    fn take<'a>(&self, bytes: &mut &'a [u8], length: u64) -> Result<&'a [u8], WireError> {
        let parts = usize::try_from(length).ok().and_then(|length| bytes.split_at_checked(length));
        let (taken, rest) = parts.ok_or_else(|| self.malformed("is shorter than it says"))?;
        *bytes = rest;
        Ok(taken)
    }

    /// Counts entries of a list; a list without a bound is not counted.
    fn add(&mut self, list: Option<usize>, entries: usize) -> Result<(), WireError> {
        let Some(list) = list else { return Err(self.malformed("has a list without a bound")) };
        let ((name, max), count) = (MAX_ENTRIES[list], &mut self.entries[list]);
        *count += entries;
        if *count > max { Err(WireError::new(name, FieldProblem::Exceeds { max })) } else { Ok(()) }
    }

    const fn malformed(&self, what: &'static str) -> WireError {
        WireError::new(self.root, FieldProblem::Encoding(what))
    }
}

/// The value of a field, as far as counting needs it.
enum CountedValue<'a> {
    Number,
    Bytes(&'a [u8]),
}
