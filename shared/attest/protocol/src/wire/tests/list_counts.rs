//! Lists are counted before a message is decoded.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

use super::super::limits::MAX_MESSAGE_BYTES;
use super::super::lists::{MAX_BYTES, MAX_ENTRIES, check};
use super::super::v1::{FILE_DESCRIPTOR_SET, SessionRequest, SessionResponse};
use super::super::{FieldProblem, WireError};

/// The messages by which a session's list is reached, each as the number of its field, and the list itself.
#[derive(Debug, Clone)]
struct Path {
    numbers: Vec<u32>,
    list: FieldDescriptorProto,
    name: String,
}

/// Every list of a message and of the messages in it. A message that contains itself would never end.
fn lists(root: &str) -> Vec<Path> {
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap().file;
    let messages: Vec<_> = files.into_iter().flat_map(|file| file.message_type).collect();
    let mut found = Vec::new();
    below(&messages, root, &[], &mut found);
    found
}

fn below(messages: &[DescriptorProto], name: &str, above: &[u32], found: &mut Vec<Path>) {
    let message = messages.iter().find(|message| message.name() == name).expect(name);
    for field in &message.field {
        let numbers: Vec<_> = above.iter().copied().chain([field.number().cast_unsigned()]).collect();
        if field.label() == Label::Repeated {
            let name = format!("{name}.{}", field.name());
            found.push(Path { numbers: numbers.clone(), list: field.clone(), name });
        }
        if field.r#type() == Type::Message {
            below(messages, field.type_name().rsplit('.').next().unwrap(), &numbers, found);
        }
    }
}

/// A field of bytes: also a message, or numbers packed.
fn bytes_field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, &mut out);
    prost::encoding::encode_varint(bytes.len() as u64, &mut out);
    out.extend_from_slice(bytes);
    out
}

fn number_field(number: u32) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::encode_key(number, prost::encoding::WireType::Varint, &mut out);
    out.push(1);
    out
}

/// How the entries of a list are written.
#[derive(Debug, Clone, Copy)]
enum Style {
    /// All in one parent, each an entry of its own.
    Single,
    /// All in one parent, packed.
    Packed,
    /// Each in a parent of its own, up to the root; decoding merges them, or makes lists of their parents longer.
    Scattered,
}

impl Path {
    fn is_of_numbers(&self) -> bool {
        !matches!(self.list.r#type(), Type::Message | Type::Bytes | Type::String)
    }

    fn entries(&self, entries: usize, style: Style) -> Vec<u8> {
        let (number, above) = self.numbers.split_last().unwrap();
        let wrap = |inner: Vec<u8>| above.iter().rev().fold(inner, |inner, number| bytes_field(*number, &inner));
        let single = || if self.is_of_numbers() { number_field(*number) } else { bytes_field(*number, &[]) };
        match style {
            Style::Single => wrap(single().repeat(entries)),
            Style::Packed => wrap(bytes_field(*number, &vec![1; entries])),
            Style::Scattered => wrap(single()).repeat(entries),
        }
    }
}

fn max(path: &Path) -> usize {
    MAX_ENTRIES.iter().find(|(name, _)| *name == path.name).unwrap_or_else(|| panic!("{} has no bound", path.name)).1
}

fn bounds_hold<M: Message + Default + 'static>(root: &str) {
    for path in lists(root) {
        let max = max(&path);
        for style in [Style::Single, Style::Packed, Style::Scattered] {
            if matches!(style, Style::Packed) && !path.is_of_numbers() {
                continue;
            }
            // Where the parent is itself in a list, that list may be shorter.
            let is_first = |error: &WireError| {
                matches!(style, Style::Scattered)
                    && error.field != path.name
                    && lists(root).iter().any(|p| p.name == error.field)
            };
            let fits = path.entries(max, style);
            match check::<M>(&fits) {
                Ok(()) => drop(M::decode(fits.as_slice()).unwrap_or_else(|error| panic!("{}: {error}", path.name))),
                Err(error) => assert!(is_first(&error), "{} {style:?}: {error}", path.name),
            }
            let error = check::<M>(&path.entries(max + 1, style)).expect_err(&path.name);
            assert!(
                error == WireError::new(error.field, FieldProblem::Exceeds { max }) && error.field == path.name
                    || is_first(&error),
                "{} {style:?}: {error}",
                path.name
            );
        }
    }
}

#[test]
fn every_list_of_a_session_has_a_bound_that_is_counted_before_decoding() {
    bounds_hold::<SessionRequest>("SessionRequest");
    bounds_hold::<SessionResponse>("SessionResponse");
}

/// A bound of a list that no session has was forgotten when the list went.
#[test]
fn every_bound_is_one_of_a_list() {
    let paths: Vec<_> = lists("SessionRequest").into_iter().chain(lists("SessionResponse")).collect();
    let known: BTreeSet<_> = paths.iter().map(|path| path.name.as_str()).collect();
    let bounded: BTreeSet<_> = MAX_ENTRIES.iter().map(|(name, _)| *name).collect();
    assert_eq!(known, bounded);
    assert_eq!(bounded.len(), MAX_ENTRIES.len(), "each once");
}

fn malformed(bytes: &[u8], what: &str) {
    let error = check::<SessionRequest>(bytes).expect_err(what);
    assert!(error.field == "SessionRequest" && matches!(error.problem, FieldProblem::Encoding(_)), "{what}: {error}");
    assert!(SessionRequest::decode(bytes).is_err(), "{what} is decoded");
}

#[test]
fn bytes_that_are_not_a_message() {
    malformed(&[0x80], "a key that is cut off");
    malformed(&[0x80; 11], "a key without an end");
    malformed(&[0x02, 0x00], "field 0");
    malformed(&[0x0f], "a type that does not exist");
    malformed(&[0x0a, 0x05, 0x00], "a length beyond the end");
    malformed(&[&[0x0a][..], &[0xff; 9], &[0x01]].concat(), "a length beyond all memory");
    malformed(&[0x9d, 0x3e, 0x00], "a fixed number that is cut off");
    malformed(&[0x0a, 0x02, 0x0a, 0x05], "a message inside that says more than it has");
    malformed(&[0x0a, 0x03, 0x0a, 0x01, 0x80], "a packed number that is cut off");
}

/// Decoding would pass over it, but no version of the protocol has one.
#[test]
fn a_group() {
    let group = [0x9b, 0x3e, 0x9c, 0x3e];
    let error = check::<SessionRequest>(&group).unwrap_err();
    assert!(matches!(error.problem, FieldProblem::Encoding(_)), "{error}");
}

#[test]
fn fields_of_a_newer_version_are_passed_over() {
    let unknown =
        [bytes_field(1000, &[0xff; 100]), number_field(1001), vec![0xe9, 0x3e, 1, 2, 3, 4, 5, 6, 7, 8]].concat();
    assert_eq!(check::<SessionRequest>(&unknown), Ok(()));
    let inside = bytes_field(1, &unknown);
    assert_eq!(check::<SessionRequest>(&inside), Ok(()));
    SessionRequest::decode(inside.as_slice()).unwrap();
}

/// An unknown field, repeated to the given size.
fn padding(bytes: usize) -> Vec<u8> {
    let odd: &[u8] = if bytes.is_multiple_of(2) { &[] } else { &[15 << 3, 0x80, 0] };
    [odd, &[15 << 3, 0].repeat((bytes - odd.len()) / 2)].concat()
}

/// A message could be padded with unknown fields, which cost a copy each time and are not kept.
#[test]
fn a_miners_message_is_bounded_by_its_kind() {
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap().file;
    let request = files.iter().flat_map(|file| &file.message_type).find(|message| message.name() == "SessionRequest");
    let kinds = &request.unwrap().field;
    for kind in kinds {
        let bound = MAX_BYTES.iter().find(|(bounded, _)| *bounded == kind.name());
        let field = bytes_field(kind.number().cast_unsigned(), &[]);
        let padded = |bytes: usize| {
            let padding = padding(bytes - field.len());
            [[&field[..], &padding].concat(), [&padding[..], &field].concat()]
        };
        for message in padded(bound.map_or(MAX_MESSAGE_BYTES, |(_, max)| *max)) {
            assert_eq!(check::<SessionRequest>(&message), Ok(()), "{}", kind.name());
        }
        let Some((name, max)) = bound else { continue };
        for message in padded(max + 1) {
            let problem = FieldProblem::TooLong { max: *max, found: max + 1 };
            assert_eq!(check::<SessionRequest>(&message), Err(WireError::new(name, problem)));
        }
    }
    let names: BTreeSet<_> = kinds.iter().map(FieldDescriptorProto::name).collect();
    assert!(MAX_BYTES.iter().all(|(kind, _)| names.contains(kind)));
}
