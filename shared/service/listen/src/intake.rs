//! Counts a connection's data before HTTP/2 processes it: frames, and without a session also bytes and requests. HTTP/2
//! answers every frame of some kinds and buffers unread data; a peer that sends only such frames would occupy a core.

use std::time::{Duration, Instant};

use crate::bounds::{
    BYTES, CONTROL_FRAME_COST, FRAMES, HTTP_FRAMES, LARGE_FRAME_BYTES, MAX_STRANGER_BYTES, MAX_STRANGER_REQUESTS,
};
use crate::rates::{Bucket, RateLimit};

/// Preface of an HTTP/2 client.
const PREFACE: &[u8; PREFACE_BYTES] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PREFACE_BYTES: usize = 24;
/// Bytes of a frame's header: length, type, flags, stream.
const FRAME_HEADER_BYTES: usize = 9;
/// Frame types.
const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// Reason to close a connection for excess data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExcessData {
    /// More frames than its rate.
    #[error("it sends too many small HTTP/2 frames")]
    Frames,
    /// More requests than a handshake and health checks need.
    #[error("it made more than {MAX_STRANGER_REQUESTS} requests without a session")]
    Requests,
}

/// Pause in reading a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// It is read now.
    None,
    /// Ahead of its rate.
    For(Duration),
    /// It sent more bytes than a handshake needs: it can still read its answers.
    UntilSession,
}

/// Counts of a connection's data.
#[derive(Debug)]
pub struct Intake {
    frames: Frames,
    /// Rate of frames.
    room: Bucket,
    /// Rate of bytes.
    bytes: Bucket,
    /// While no session exists: the start of that time, with the bytes and requests since.
    stranger: Option<(tokio::time::Instant, usize, u32)>,
}

impl Intake {
    /// Counts for a new connection.
    pub fn new(now: Instant) -> Self {
        Self::with_rate(FRAMES, now)
    }

    fn with_rate(frames: RateLimit, now: Instant) -> Self {
        let (room, bytes) = (Bucket::full(frames, now), Bucket::full(BYTES, now));
        Self { frames: Frames { skip: PREFACE_BYTES, ..Frames::default() }, room, bytes, stranger: None }
    }

    /// Counts received bytes, without TLS. `stranger` is the start of the time without a session; `None` during one.
    ///
    /// # Errors
    /// [`ExcessData`]: the connection must be closed.
    pub fn count(
        &mut self,
        data: &[u8],
        stranger: Option<tokio::time::Instant>,
        now: Instant,
    ) -> Result<(), ExcessData> {
        let FrameCounts { frames, requests } = self.frames.count(data);
        if frames > 0 && self.room.draw(f64::from(frames), now) > Duration::ZERO {
            return Err(ExcessData::Frames);
        }
        self.bytes.draw(data.len() as f64, now);
        let Some(since) = stranger else {
            self.stranger = None;
            return Ok(());
        };
        let (_, bytes, made) = self.stranger.filter(|(before, ..)| *before == since).unwrap_or((since, 0, 0));
        let (bytes, made) = (bytes + data.len(), made + requests);
        self.stranger = Some((since, bytes, made));
        if made > MAX_STRANGER_REQUESTS { Err(ExcessData::Requests) } else { Ok(()) }
    }

    /// The wait before more is read; `stranger` as in [`Intake::count`].
    pub fn pause(&mut self, stranger: Option<tokio::time::Instant>, now: Instant) -> Pause {
        let is_over = |(before, bytes, _)| Some(before) == stranger && bytes > MAX_STRANGER_BYTES;
        if self.stranger.is_some_and(is_over) {
            return Pause::UntilSession;
        }
        match self.bytes.draw(0.0, now) {
            Duration::ZERO => Pause::None,
            pause => Pause::For(pause),
        }
    }
}

/// Counts of a connection to the HTTP API, whose first bytes show the protocol.
#[derive(Debug)]
pub struct HttpIntake {
    intake: Intake,
    /// Matched bytes of the HTTP/2 preface; `None`: it speaks HTTP/1.1.
    preface: Option<usize>,
}

impl HttpIntake {
    /// Counts for a new connection.
    pub fn new(now: Instant) -> Self {
        Self { intake: Intake::with_rate(HTTP_FRAMES, now), preface: Some(0) }
    }

    /// Counts received bytes, without TLS.
    ///
    /// # Errors
    /// [`ExcessData`]: the connection must be closed.
    pub fn count(&mut self, data: &[u8], now: Instant) -> Result<(), ExcessData> {
        let Some(before) = self.preface else { return Ok(()) };
        let expected = &PREFACE[before..];
        let length = expected.len().min(data.len());
        if data[..length] != expected[..length] {
            // HTTP/1.1: each of its requests is counted elsewhere.
            self.preface = None;
            return Ok(());
        }
        self.preface = Some(before + length);
        self.intake.count(data, None, now)
    }
}

/// Contents of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct FrameCounts {
    /// Cost of their frames.
    frames: u32,
    /// Number of requests begun.
    requests: u32,
}

/// Reads the headers of frames, from chunks of any size.
#[derive(Debug, Default)]
struct Frames {
    /// Bytes to skip: of the preface, or of a frame.
    skip: usize,
    header: [u8; FRAME_HEADER_BYTES],
    header_bytes: usize,
}

impl Frames {
    fn count(&mut self, mut data: &[u8]) -> FrameCounts {
        let mut counted = FrameCounts::default();
        while !data.is_empty() {
            let skipped = self.skip.min(data.len());
            self.skip -= skipped;
            data = &data[skipped..];
            let taken = data.len().min(FRAME_HEADER_BYTES - self.header_bytes);
            self.header[self.header_bytes..][..taken].copy_from_slice(&data[..taken]);
            self.header_bytes += taken;
            data = &data[taken..];
            if self.header_bytes == FRAME_HEADER_BYTES {
                let [a, b, c, kind, ..] = self.header;
                self.header_bytes = 0;
                self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
                counted.requests += u32::from(kind == HEADERS);
                counted.frames += match kind {
                    DATA if self.skip >= LARGE_FRAME_BYTES => 0,
                    DATA => 1,
                    _ => CONTROL_FRAME_COST,
                };
            }
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, bytes: usize) -> Vec<u8> {
        let length = (bytes as u32).to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 1], &vec![0xff; bytes]].concat()
    }

    fn intake(now: Instant) -> Intake {
        let mut intake = Intake::new(now);
        intake.count(&[b'x'; PREFACE_BYTES], None, now).unwrap();
        intake
    }

    #[test]
    fn frames_are_found_wherever_they_are_cut() {
        let stream =
            [vec![b'P'; PREFACE_BYTES], frame(4, 18), frame(1, 300), frame(0, 1023), frame(0, 1024), frame(6, 8)];
        let stream = stream.concat();
        let expected = FrameCounts { frames: 3 * CONTROL_FRAME_COST + 1, requests: 1 };
        for piece in [1, 2, 3, 8, 9, 10, 100, stream.len()] {
            let mut frames = Frames { skip: PREFACE_BYTES, ..Frames::default() };
            let counted = stream.chunks(piece).map(|piece| frames.count(piece));
            let sum = counted.fold(FrameCounts::default(), |a, b| FrameCounts {
                frames: a.frames + b.frames,
                requests: a.requests + b.requests,
            });
            assert_eq!(sum, expected, "by {piece}");
        }
    }

    #[test]
    fn a_flood_of_control_frames_is_too_much_and_a_slow_stream_of_them_is_not() {
        let start = Instant::now();
        for kind in [2, 3, 4, 6, 8, 9, 0x20] {
            let (mut flood, mut slow) = (intake(start), intake(start));
            let ping = frame(kind, 8);
            let most = 32_768 / CONTROL_FRAME_COST;
            assert!((0..most).all(|_| flood.count(&ping, None, start).is_ok()));
            assert_eq!(flood.count(&ping, None, start), Err(ExcessData::Frames), "kind {kind}");
            let at = |second: u32| start + Duration::from_secs(second.into());
            assert!((0..1000).all(|second| slow.count(&ping.repeat(256), None, at(second)).is_ok()));
        }
    }

    #[test]
    fn the_api_counts_frames_of_http_2_and_none_of_http_1() {
        let now = Instant::now();
        let flood = frame(6, 8).repeat(10_000);
        for piece in [1, 5, 30] {
            let (mut second, mut first) = (HttpIntake::new(now), HttpIntake::new(now));
            assert!(PREFACE.chunks(piece).all(|bytes| second.count(bytes, now).is_ok()));
            assert_eq!(second.count(&flood, now), Err(ExcessData::Frames), "by {piece}");
            assert!(b"PROPFIND / HTTP/1.1\r\n".chunks(piece).all(|bytes| first.count(bytes, now).is_ok()));
            assert_eq!(first.count(&flood, now), Ok(()));
        }
        let mut download = HttpIntake::new(now);
        download.count(PREFACE, now).unwrap();
        let (update, second) = (frame(8, 4), Duration::from_secs(1));
        assert!((0..1000_u32).all(|passed| download.count(&update.repeat(1024), now + second * passed).is_ok()));
    }

    #[test]
    fn small_frames_of_data_are_bounded_and_large_ones_are_not_counted() {
        let start = Instant::now();
        let (mut small, mut large) = (intake(start), intake(start));
        let tiny = frame(0, 1);
        assert!((0..32_768).all(|_| small.count(&tiny, None, start).is_ok()));
        assert_eq!(small.count(&tiny, None, start), Err(ExcessData::Frames));
        let row = frame(0, 16_384);
        assert!((0..10_000).all(|_| large.count(&row, None, start).is_ok()));
    }

    #[test]
    fn what_a_connection_without_a_session_sends_is_bounded() {
        let (now, since) = (Instant::now(), tokio::time::Instant::now());
        let later = since + Duration::from_secs(1);
        let (mut bytes, mut requests) = (intake(now), intake(now));
        let data = frame(0, LARGE_FRAME_BYTES);
        let fits = MAX_STRANGER_BYTES / data.len();
        assert!((0..fits).all(|_| bytes.count(&data, Some(since), now).is_ok()));
        assert_eq!(bytes.pause(Some(since), now), Pause::None);
        assert!(bytes.count(&data, Some(since), now).is_ok());
        assert_eq!(bytes.pause(Some(since), now), Pause::UntilSession);
        assert_eq!(bytes.pause(None, now), Pause::None);
        assert_eq!(bytes.pause(Some(later), now), Pause::None, "after a session it is counted anew");
        let headers = frame(HEADERS, 50);
        assert!((0..MAX_STRANGER_REQUESTS).all(|_| requests.count(&headers, Some(since), now).is_ok()));
        assert_eq!(requests.count(&headers, Some(since), now), Err(ExcessData::Requests));
        assert!(requests.count(&headers, None, now).is_ok(), "a session has no bound of its requests");
    }

    #[test]
    fn a_connection_that_sends_faster_than_its_rate_waits() {
        let now = Instant::now();
        let mut intake = intake(now);
        let quarter = frame(0, (4 << 20) - FRAME_HEADER_BYTES);
        (0..3).for_each(|_| intake.count(&quarter, None, now).unwrap());
        assert_eq!(intake.pause(None, now), Pause::None);
        (0..9).for_each(|_| intake.count(&quarter, None, now).unwrap());
        let Pause::For(pause) = intake.pause(None, now) else { panic!("it waits") };
        assert!((1.0..1.01).contains(&pause.as_secs_f64()), "{pause:?}");
        assert_eq!(intake.pause(None, now + Duration::from_secs(2)), Pause::None);
    }
}
