//! Log lines on their way to a [`Sink`], and the thread that writes them. Who logs never waits for that thread.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::line::{self, LogStyle};
use super::sink::Sink;

/// Lines that wait to be written: some seconds of a daemon's busiest log.
const MAX_LINES: usize = 8192;
/// Bound of the bytes of waiting lines.
const MAX_BYTES: usize = 4 << 20;
/// Threads that wait for an output to take a line, such as for a file server that is away: each new output has a thread
/// of its own.
const MAX_THREADS: usize = 4;
/// How long a thread that writes nothing may take to end.
const LEAVE_LIMIT: Duration = Duration::from_millis(100);
/// How often a log that could not be written is tried again while nothing is logged.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// Why lines are lost when the queue is full.
const TOO_SLOW: &str = "they came faster than the log was written or read";

/// The queue of lines, with the count of lost ones.
pub struct LineQueue {
    look: LogStyle,
    /// Whether the output shows colours.
    colour: Arc<AtomicBool>,
    state: Mutex<QueueState>,
    /// Notified of each new line, of each that was written, and of a new output.
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    entries: VecDeque<QueueEntry>,
    bytes: usize,
    /// Lines that the output refused, not reported yet.
    refused: Option<OutputFailure>,
    /// All lines that were lost.
    lost: u64,
    /// The number of the output that is written to.
    output: u64,
    /// Whether its thread is writing.
    is_writing: bool,
    threads: usize,
}

enum QueueEntry {
    Line(Vec<u8>),
    /// Lines that found no place here.
    Lost(u64),
}

/// Lines that an output refused, with its last error.
struct OutputFailure {
    lines: u64,
    why: String,
}

impl LineQueue {
    /// An empty queue. Nothing is written before there is an output.
    pub fn new(look: LogStyle) -> Arc<Self> {
        Arc::new(Self { look, colour: Arc::default(), state: Mutex::default(), changed: Condvar::new() })
    }

    /// Whether the output shows colours, now and later.
    pub fn colour(&self) -> Arc<AtomicBool> {
        self.colour.clone()
    }

    /// Adds a line with its end, or counts it as lost.
    pub fn push(&self, line: &[u8]) {
        let line = line::bounded(line);
        let mut state = self.state.lock();
        if state.entries.len() < MAX_LINES && state.bytes + line.len() <= MAX_BYTES {
            state.bytes += line.len();
            state.entries.push_back(QueueEntry::Line(line.into_owned()));
        } else if let Some(QueueEntry::Lost(lines)) = state.entries.back_mut() {
            *lines += 1;
            state.lost += 1;
        } else {
            state.entries.push_back(QueueEntry::Lost(1));
            state.lost += 1;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Count of lines lost so far, reported or not.
    pub fn lost(&self) -> u64 {
        self.state.lock().lost
    }

    /// Writes to this output from now on. Lines that the earlier output has not taken go to this one.
    ///
    /// # Errors
    /// No thread could be started, or too many wait for outputs before.
    pub fn write_to(self: &Arc<Self>, sink: Sink) -> io::Result<()> {
        let mut state = self.state.lock();
        let until = Instant::now() + LEAVE_LIMIT;
        while state.threads >= MAX_THREADS && !self.changed.wait_until(&mut state, until).timed_out() {}
        if state.threads >= MAX_THREADS {
            return Err(io::Error::other("earlier outputs still wait to be written"));
        }
        let (queue, output, colour) = (self.clone(), state.output + 1, sink.has_colour());
        thread::Builder::new().name("log".into()).spawn(move || queue.run(sink, output))?;
        self.colour.store(colour, Ordering::Relaxed);
        state.output = output;
        state.is_writing = false;
        state.threads += 1;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits until everything is written, but no longer than `limit`.
    pub fn flush(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut state = self.state.lock();
        while !state.entries.is_empty() || state.is_writing {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }

    /// Writes to one output until there is another.
    fn run(&self, mut sink: Sink, output: u64) {
        while let Some((refused, entry)) = self.next(output) {
            // A notice of lost lines does not count as a logged line.
            let lines = u64::from(matches!(entry, Some(QueueEntry::Line(_))));
            let refused = self.write(&mut sink, refused, entry).err();
            self.written(output, refused, lines);
        }
    }

    /// The next entry to write; without an entry it is time to try again. `None` when the output was replaced.
    fn next(&self, output: u64) -> Option<(Option<OutputFailure>, Option<QueueEntry>)> {
        let mut state = self.state.lock();
        loop {
            if state.output != output {
                state.threads -= 1;
                self.changed.notify_all();
                return None;
            }
            let entry = state.entries.pop_front();
            let is_late = entry.is_none()
                && match state.refused {
                    Some(_) => self.changed.wait_for(&mut state, RETRY_EVERY).timed_out(),
                    None => {
                        self.changed.wait(&mut state);
                        false
                    }
                };
            if let Some(QueueEntry::Line(line)) = &entry {
                state.bytes -= line.len();
            }
            if entry.is_some() || (is_late && state.output == output) {
                state.is_writing = true;
                return Some((state.refused.take(), entry));
            }
        }
    }

    /// Writes the notice of lost lines, then the entry.
    fn write(
        &self,
        sink: &mut Sink,
        before: Option<OutputFailure>,
        entry: Option<QueueEntry>,
    ) -> Result<(), OutputFailure> {
        let (line, lines) = match entry {
            None => (Vec::new(), 0),
            Some(QueueEntry::Line(line)) => (line, 1),
            Some(QueueEntry::Lost(lines)) => (line::lost(self.look, lines, TOO_SLOW), lines),
        };
        let refused = |lines| move |error: io::Error| OutputFailure { lines, why: error.to_string() };
        if let Some(before) = before {
            let notice = line::lost(self.look, before.lines, &before.why);
            sink.write_line(&notice).map_err(refused(before.lines + lines))?;
        }
        sink.write_line(&line).map_err(refused(lines))
    }

    fn written(&self, output: u64, refused: Option<OutputFailure>, lines: u64) {
        let mut state = self.state.lock();
        if let Some(refused) = refused {
            state.lost += lines;
            let before = state.refused.take().map_or(0, |before| before.lines);
            state.refused = Some(OutputFailure { lines: before + refused.lines, ..refused });
        }
        if state.output == output {
            state.is_writing = false;
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// The logger's writer of whole lines.
pub struct Writer(pub Arc<LineQueue>);

impl io::Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    const LONG: Duration = Duration::from_secs(60);

    /// An output that shows each line, and takes it when it is given the answer.
    struct Output(Receiver<io::Result<()>>, SyncSender<String>);

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)??;
            let _ = self.1.send(String::from_utf8_lossy(bytes).trim_end().to_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn output() -> (Sink, SyncSender<io::Result<()>>, Receiver<String>) {
        let ((answers, answer), (line, lines)) = (sync_channel(100_000), sync_channel(100_000));
        (Sink::of(Output(answer, line)), answers, lines)
    }

    fn full_disk() -> io::Error {
        io::ErrorKind::StorageFull.into()
    }

    #[test]
    fn refused_lines_are_counted_and_told_before_the_next() {
        let queue = LineQueue::new(LogStyle::Worker);
        let (sink, answers, lines) = output();
        queue.write_to(sink).unwrap();
        // The first two lines are refused, and with the third the notice of them.
        (0..3).for_each(|_| answers.send(Err(full_disk())).unwrap());
        ["one", "two", "three"].into_iter().for_each(|line| queue.push(format!("{line}\n").as_bytes()));
        queue.flush(LONG);
        (0..2).for_each(|_| answers.send(Ok(())).unwrap());
        queue.push(b"four\n");
        let told = lines.recv_timeout(LONG).unwrap();
        assert_eq!(told, format!("ERROR 3 log lines were lost: {}", full_disk()));
        assert_eq!(lines.recv_timeout(LONG).unwrap(), "four");
    }

    #[test]
    fn what_was_lost_is_told_even_when_nothing_more_is_logged() {
        let queue = LineQueue::new(LogStyle::Worker);
        let (sink, answers, lines) = output();
        queue.write_to(sink).unwrap();
        answers.send(Err(full_disk())).unwrap();
        queue.push(b"one\n");
        answers.send(Ok(())).unwrap();
        assert!(lines.recv_timeout(LONG).unwrap().starts_with("ERROR 1 log line was lost: "));
    }

    #[test]
    fn a_full_queue_drops_lines_and_says_where() {
        let queue = LineQueue::new(LogStyle::Worker);
        let (sink, answers, lines) = output();
        for number in 0..MAX_LINES + 5 {
            queue.push(format!("{number}\n").as_bytes());
        }
        queue.write_to(sink).unwrap();
        (0..=MAX_LINES).for_each(|_| answers.send(Ok(())).unwrap());
        let seen: Vec<_> = (0..=MAX_LINES).map(|_| lines.recv_timeout(LONG).unwrap()).collect();
        assert_eq!(seen[MAX_LINES - 1], (MAX_LINES - 1).to_string());
        assert_eq!(seen[MAX_LINES], format!("ERROR 5 log lines were lost: {TOO_SLOW}"));
        // There is room again.
        answers.send(Ok(())).unwrap();
        queue.push(b"after\n");
        assert_eq!(lines.recv_timeout(LONG).unwrap(), "after");
    }

    #[test]
    fn the_bytes_in_the_queue_are_bounded() {
        let queue = LineQueue::new(LogStyle::Worker);
        let line = vec![b'x'; 10_000];
        (0..1000).for_each(|_| queue.push(&line));
        let lost = queue.lost();
        let state = queue.state.lock();
        assert!(state.bytes <= MAX_BYTES && state.entries.len() < 1000);
        assert_eq!(lost, 1000 - (state.entries.len() as u64 - 1));
        assert!(matches!(state.entries.back(), Some(QueueEntry::Lost(lines)) if *lines > 500));
    }

    #[test]
    fn an_output_that_never_answers_is_left_for_another_one() {
        let queue = LineQueue::new(LogStyle::Worker);
        let (stuck, _no_answer, _) = output();
        queue.write_to(stuck).unwrap();
        queue.push(b"one\n");
        while !queue.state.lock().is_writing {
            thread::yield_now();
        }
        // Nothing waits for the output longer than the limit.
        queue.flush(Duration::from_millis(1));
        queue.push(b"two\n");
        let (sink, answers, lines) = output();
        queue.write_to(sink).unwrap();
        answers.send(Ok(())).unwrap();
        assert_eq!(lines.recv_timeout(LONG).unwrap(), "two");
        queue.flush(LONG);
    }

    #[test]
    fn there_are_few_threads_however_many_outputs_are_stuck() {
        let queue = LineQueue::new(LogStyle::Worker);
        let mut stuck = Vec::new();
        let mut refused = 0;
        for _ in 0..2 * MAX_THREADS {
            let (sink, answers, lines) = output();
            stuck.push((answers, lines));
            refused += usize::from(queue.write_to(sink).is_err());
            queue.push(b"line\n");
            while !queue.state.lock().is_writing {
                thread::yield_now();
            }
        }
        assert_eq!(refused, MAX_THREADS);
    }
}
