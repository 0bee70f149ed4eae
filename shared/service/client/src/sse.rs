//! Server-sent events, parsed from a stream of bytes (HTML Living Standard, 9.2).

use std::collections::VecDeque;

/// The longest event accepted: a verdict over the most devices of a challenge is far below it.
pub const MAX_EVENT_BYTES: usize = 16 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Kind of the event; empty without one.
    pub name: String,
    pub data: String,
    /// The last id up to this event.
    pub id: String,
}

/// An event is longer than [`MAX_EVENT_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than {MAX_EVENT_BYTES} bytes")]
pub struct TooLong;

/// Parses events from bytes in chunks of any size.
#[derive(Debug, Default)]
pub struct SseParser {
    line: Vec<u8>,
    /// Whether the last byte was a carriage return; a line feed after it belongs to it.
    after_return: bool,
    event: SseEvent,
    has_data: bool,
    ready: VecDeque<SseEvent>,
}

impl SseParser {
    /// Takes bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => self.end_line(),
                byte => self.line.push(byte),
            }
            if self.line.len() + self.event.data.len() > MAX_EVENT_BYTES {
                return Err(TooLong);
            }
        }
        Ok(())
    }

    /// Returns the next complete event.
    pub fn next(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "id" if !value.contains('\0') => value.clone_into(&mut self.event.id),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            // Comments only keep the connection alive.
            _ => {}
        }
    }

    fn end_event(&mut self) {
        let id = self.event.id.clone();
        let event = std::mem::replace(&mut self.event, SseEvent { id, ..SseEvent::default() });
        if std::mem::take(&mut self.has_data) {
            self.ready.push_back(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str, id: &str) -> SseEvent {
        SseEvent { name: name.into(), data: data.into(), id: id.into() }
    }

    #[test]
    fn events_are_the_same_wherever_bytes_are_cut() {
        let text = ": hello\n\nevent: verdict\nid: 7\ndata: {\"a\":\ndata:1}\n\ndata:  b\r\n\r\nevent: lost\n\nid\rdata\r\r\u{feff}x: 1\n";
        let expected = [event("verdict", "{\"a\":\n1}", "7"), event("", " b", "7"), event("", "", "")];
        for part in 1..text.len() {
            let mut parser = SseParser::default();
            text.as_bytes().chunks(part).for_each(|bytes| parser.take(bytes).unwrap());
            let found: Vec<_> = std::iter::from_fn(|| parser.next()).collect();
            assert_eq!(found, expected, "{part}");
        }
    }

    #[test]
    fn an_event_has_a_bound() {
        let mut parser = SseParser::default();
        assert_eq!(parser.take(&vec![b'x'; MAX_EVENT_BYTES]), Ok(()));
        assert_eq!(parser.take(b"x"), Err(TooLong));
        let mut parser = SseParser::default();
        let line = [b"data:".as_slice(), &[b'x'; 4096], b"\n"].concat();
        let taken = (0..).find(|_| parser.take(&line).is_err());
        assert!(taken.is_some_and(|lines| lines < MAX_EVENT_BYTES / 4096 + 1), "{taken:?}");
    }
}
