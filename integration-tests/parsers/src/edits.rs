//! Edits of an honest miner's messages, as an input names them.

/// Bytes of an edit: the message, the operation, two of a place, and a value.
const EDIT_BYTES: usize = 5;
/// The most messages after all edits.
const MAX_MESSAGES: usize = 128;

/// Changes bytes, lengths and order of the messages.
pub fn apply(messages: &mut Vec<Vec<u8>>, edits: &[u8]) {
    for &[at, operation, low, high, value] in edits.as_chunks::<EDIT_BYTES>().0 {
        let (at, other) = (usize::from(at) % messages.len(), usize::from(value) % messages.len());
        let place = usize::from(u16::from_le_bytes([low, high])) % messages[at].len().max(1);
        match operation % 6 {
            0 => messages[at].iter_mut().skip(place).take(1).for_each(|byte| *byte ^= value),
            1 => messages[at].truncate(place),
            2 => messages.swap(at, other),
            3 => messages.insert(at, messages[other].clone()),
            4 if messages.len() > 1 => drop(messages.remove(at)),
            _ => messages[at].insert(place, value),
        }
        messages.truncate(MAX_MESSAGES);
    }
}
