//! The thread that reads sensors, and what others see of it.
//!
//! A source may hang: a broken driver does. So only this thread calls it, and what it found lies behind a mutex that is
//! never held during such a call. The thread is not joined either; one that hangs ends with the process.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::collect::Collector;
use super::reading::Reading;
use super::watch::Watch;
use assay_protocol::claims::Telemetry;
use assay_protocol::claims::{Facts, Hardware};
use assay_work::DeviceId;

/// How often sensors are read: often enough for a challenge of seconds, and far too seldom to cost anything.
pub const PERIOD: Duration = Duration::from_millis(250);
/// How long a source may take for an answer before an operator is told.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where readings come from: driven by one thread, may fail, lie, panic or hang.
pub trait Source {
    /// Everything that can be said of devices at rest; asked for once.
    fn facts(&mut self) -> Facts;

    /// These devices are read from now on: what was reported of them before is not theirs any more.
    fn begin(&mut self, ids: &[DeviceId]);

    /// One look at a device; `None` when it is none of this source's.
    fn read(&mut self, id: DeviceId) -> Option<Reading>;
}

/// Why there are no facts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFacts {
    /// There is no source, for this reason.
    #[error("{0}")]
    NoSource(String),
    /// The source has not answered yet.
    #[error("the management library gives no answer within {0:?}: look at the driver")]
    NoAnswer(Duration),
}

/// A thread that reads a source.
pub struct Sampler {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// The facts came, or what is watched changed, or the end.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    facts: Option<Result<Facts, NoFacts>>,
    watched: Option<Watched>,
    /// Told apart by a number, so that a late reading of the one before is not counted.
    watches: u64,
    /// When the call to the source that runs began.
    calling_since: Option<Instant>,
    stopping: bool,
}

/// Devices at work.
struct Watched {
    number: u64,
    devices: BTreeMap<DeviceId, Collector>,
}

impl Sampler {
    /// Starts the thread, which opens the source and asks for its facts. Waits for nothing.
    ///
    /// `open` gives why there is no source.
    pub fn start<S: Source>(open: impl FnOnce() -> Result<S, String> + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let body = move || {
            if catch_unwind(AssertUnwindSafe(|| of_thread.run(open))).is_err() {
                of_thread.give_up("its library failed in a way that it must not".into());
            }
        };
        if let Err(error) = thread::Builder::new().name("telemetry".into()).spawn(body) {
            shared.give_up(format!("no thread for it: {error}"));
        }
        Self { shared }
    }

    /// The facts, as soon as they are there, at most `limit` from now.
    ///
    /// # Errors
    /// [`NoFacts`].
    pub fn facts_within(&self, limit: Duration) -> Result<Facts, NoFacts> {
        let unknown = |state: &mut State| state.facts.is_none();
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), limit, unknown);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.facts.clone().unwrap_or(Err(NoFacts::NoAnswer(limit)))
    }
}

impl Watch for Sampler {
    fn hardware(&self, id: DeviceId) -> Option<Hardware> {
        self.shared.lock().facts.as_ref()?.as_ref().ok()?.of(id).cloned()
    }

    fn begin(&self, ids: &[DeviceId]) {
        let mut state = self.shared.lock();
        state.watches += 1;
        let devices = ids.iter().map(|id| (*id, Collector::default())).collect();
        state.watched = Some(Watched { number: state.watches, devices });
        self.shared.changed.notify_all();
    }

    fn so_far(&self, id: DeviceId) -> Option<Telemetry> {
        let state = self.shared.lock();
        let summary = state.watched.as_ref()?.devices.get(&id)?.summary();
        (summary.samples > 0).then(|| summary.clone())
    }

    fn end(&self) -> Vec<(DeviceId, Telemetry)> {
        let Some(watched) = self.shared.lock().watched.take() else { return Vec::new() };
        self.shared.changed.notify_all();
        let read = watched.devices.into_iter().filter(|(_, collector)| collector.summary().samples > 0);
        let summary = |(id, collector): (DeviceId, Collector)| {
            if collector.dropped() > 0 {
                tracing::warn!(device = %id, "{} readings were impossible and left out", collector.dropped());
            }
            (id, collector.summary().clone())
        };
        read.map(summary).collect()
    }

    fn trouble(&self) -> Option<String> {
        let silent = self.shared.lock().calling_since?.elapsed();
        (silent > PATIENCE).then(|| format!("the management library has not answered for {silent:.1?}"))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // What is behind it is whole after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is nothing to read, for this reason.
    fn give_up(&self, reason: String) {
        tracing::debug!("no telemetry: {reason}");
        let mut state = self.lock();
        state.facts = Some(Err(NoFacts::NoSource(reason)));
        state.calling_since = None;
        state.watched = None;
        self.changed.notify_all();
    }

    /// Notes that a call is under way while it is.
    fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        self.lock().calling_since = Some(Instant::now());
        let result = call();
        self.lock().calling_since = None;
        result
    }

    /// The life of the thread.
    fn run<S: Source>(&self, open: impl FnOnce() -> Result<S, String>) {
        let mut source = match self.call(open) {
            Ok(source) => source,
            Err(reason) => return self.give_up(reason),
        };
        // Once: were they looked at again, a source that says something else each time would change the inventory
        // each time, and with it challenges that are on their way.
        let facts = self.call(|| source.facts());
        self.lock().facts = Some(Ok(facts));
        self.changed.notify_all();
        while let Some((number, ids)) = self.next_watch() {
            self.call(|| source.begin(&ids));
            self.sample(&mut source, number, &ids);
        }
    }

    /// Sleeps until devices work; `None` at the end.
    fn next_watch(&self) -> Option<(u64, Vec<DeviceId>)> {
        let idle = |state: &mut State| state.watched.is_none() && !state.stopping;
        let state = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        let watched = state.watched.as_ref().filter(|_| !state.stopping)?;
        Some((watched.number, watched.devices.keys().copied().collect()))
    }

    /// Reads the devices again and again, until they are not watched any more.
    fn sample(&self, source: &mut impl Source, number: u64, ids: &[DeviceId]) {
        let mut due = Instant::now();
        loop {
            for id in ids {
                let Some(reading) = self.call(|| source.read(*id)) else { continue };
                let mut state = self.lock();
                let watched = state.watched.as_mut().filter(|watched| watched.number == number);
                let Some(collector) = watched.and_then(|watched| watched.devices.get_mut(id)) else { return };
                collector.add(reading);
            }
            // A source that is slower than the period is not asked twice in a row for what it missed.
            due = (due + PERIOD).max(Instant::now());
            if !self.still_watched(number, due) {
                return;
            }
        }
    }

    /// Waits for the next look; whether there is one.
    fn still_watched(&self, number: u64, due: Instant) -> bool {
        let same = |state: &mut State| {
            !state.stopping && state.watched.as_ref().is_some_and(|watched| watched.number == number)
        };
        let pause = due.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.lock(), pause, same);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        same(&mut state)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);
    const A: DeviceId = DeviceId([1; 16]);
    const B: DeviceId = DeviceId([2; 16]);
    const STRANGER: DeviceId = DeviceId([9; 16]);

    /// What a test's source is asked, and does not answer before the test says how.
    #[derive(Debug, PartialEq, Eq)]
    enum Asked {
        Facts,
        Begin(Vec<DeviceId>),
        Read(DeviceId),
    }

    type Answer = Option<Reading>;

    /// A source that does nothing by itself.
    struct Puppet {
        asked: mpsc::Sender<Asked>,
        answers: mpsc::Receiver<Answer>,
    }

    impl Puppet {
        fn wait(&self, asked: Asked) -> Answer {
            self.asked.send(asked).unwrap();
            self.answers.recv().expect("the test ended this source")
        }
    }

    impl Source for Puppet {
        fn facts(&mut self) -> Facts {
            self.wait(Asked::Facts);
            let uuid = |id: u8| {
                format!("GPU-{0}-{1}-{1}-{1}-{2}", hex::encode([id; 4]), hex::encode([id; 2]), hex::encode([id; 6]))
            };
            let hardware = |id| Hardware { uuid: Some(uuid(id)), ..Hardware::default() };
            Facts { hardware: vec![hardware(1), hardware(2)], cuda_version: Some(13_000) }
        }

        fn begin(&mut self, ids: &[DeviceId]) {
            self.wait(Asked::Begin(ids.to_vec()));
        }

        fn read(&mut self, id: DeviceId) -> Option<Reading> {
            self.wait(Asked::Read(id))
        }
    }

    struct Strings {
        asked: mpsc::Receiver<Asked>,
        answers: mpsc::Sender<Answer>,
    }

    impl Strings {
        fn expect(&self, asked: Asked) {
            assert_eq!(self.asked.recv_timeout(LONG).expect("the source is asked"), asked);
        }

        fn answer(&self, answer: Answer) {
            self.answers.send(answer).unwrap();
        }
    }

    fn started() -> (Sampler, Strings) {
        let ((asked, asked_of_test), (answers_of_test, answers)) = (mpsc::channel(), mpsc::channel());
        let sampler = Sampler::start(move || Ok(Puppet { asked, answers }));
        (sampler, Strings { asked: asked_of_test, answers: answers_of_test })
    }

    fn watching() -> (Sampler, Strings) {
        let (sampler, strings) = started();
        strings.expect(Asked::Facts);
        strings.answer(None);
        sampler.facts_within(LONG).unwrap();
        sampler.begin(&[A, B]);
        strings.expect(Asked::Begin(vec![A, B]));
        strings.answer(None);
        (sampler, strings)
    }

    fn degrees(temperature_c: u32) -> Answer {
        Some(Reading { temperature_c: Some(temperature_c), ..Reading::default() })
    }

    #[test]
    fn facts_come_when_the_source_gives_them() {
        let (sampler, strings) = started();
        strings.expect(Asked::Facts);
        assert_eq!(sampler.hardware(A), None);
        let limit = Duration::from_millis(1);
        assert_eq!(sampler.facts_within(limit), Err(NoFacts::NoAnswer(limit)));
        strings.answer(None);
        assert_eq!(sampler.facts_within(LONG).unwrap().hardware.len(), 2);
        assert!(sampler.hardware(A).is_some() && sampler.hardware(B).is_some());
        assert_eq!(sampler.hardware(STRANGER), None);
    }

    #[test]
    fn no_source_is_no_telemetry() {
        let sampler = Sampler::start(|| Err::<Puppet, _>("there is none".into()));
        assert_eq!(sampler.facts_within(LONG), Err(NoFacts::NoSource("there is none".into())));
        sampler.begin(&[A]);
        assert_eq!((sampler.so_far(A), sampler.end(), sampler.trouble()), (None, vec![], None));
    }

    #[test]
    fn a_source_that_panics_is_none() {
        let sampler = Sampler::start(|| -> Result<Puppet, String> { panic!("a planted panic") });
        assert!(matches!(sampler.facts_within(LONG), Err(NoFacts::NoSource(_))));
        sampler.begin(&[A]);
        assert_eq!(sampler.end(), []);
    }

    #[test]
    fn devices_are_read_one_after_the_other_until_the_end() {
        let (sampler, strings) = watching();
        assert_eq!(sampler.so_far(A), None);
        for temperature in [50, 60] {
            strings.expect(Asked::Read(A));
            strings.answer(degrees(temperature));
            strings.expect(Asked::Read(B));
            // Only the first is one of this source's.
            strings.answer(None);
        }
        strings.expect(Asked::Read(A));
        let so_far = sampler.so_far(A).unwrap();
        assert_eq!((so_far.samples, so_far.temperature_c.unwrap().mean), (2, 55));
        assert_eq!(sampler.so_far(B), None);
        assert_eq!(sampler.end(), [(A, so_far)]);
        // A reading that comes after the end is nobody's, and no other is asked for.
        strings.answer(degrees(99));
        assert_eq!((sampler.so_far(A), sampler.end()), (None, vec![]));
        sampler.begin(&[B]);
        strings.expect(Asked::Begin(vec![B]));
    }

    #[test]
    fn a_reading_of_the_challenge_before_does_not_enter() {
        let (sampler, strings) = watching();
        strings.expect(Asked::Read(A));
        sampler.begin(&[A]);
        strings.answer(degrees(99));
        strings.expect(Asked::Begin(vec![A]));
        strings.answer(None);
        strings.expect(Asked::Read(A));
        assert_eq!(sampler.so_far(A), None);
        strings.answer(degrees(40));
        strings.expect(Asked::Read(A));
        assert_eq!(sampler.so_far(A).unwrap().temperature_c.unwrap().max, 40);
    }

    /// A call that never returns holds nobody up: not who asks, not the next challenge, not the end.
    #[test]
    fn a_source_that_hangs_costs_its_readings_only() {
        let (sampler, strings) = watching();
        strings.expect(Asked::Read(A));
        assert_eq!(sampler.so_far(A), None);
        assert_eq!(sampler.end(), []);
        sampler.begin(&[A, B]);
        assert_eq!((sampler.so_far(B), sampler.end()), (None, vec![]));
        assert!(sampler.hardware(A).is_some(), "what was known stays known");
        drop(sampler);
    }

    #[test]
    fn silence_is_told_after_a_while() {
        let (sampler, strings) = watching();
        strings.expect(Asked::Read(A));
        assert_eq!(sampler.trouble(), None);
        sampler.shared.lock().calling_since = Some(Instant::now().checked_sub(2 * PATIENCE).unwrap());
        assert!(sampler.trouble().unwrap().contains("has not answered for 4"));
        strings.answer(None);
        strings.expect(Asked::Read(B));
        assert_eq!(sampler.trouble(), None);
    }

    /// A panic in the middle of a challenge: what was read so far is gone with it, and nothing else.
    #[test]
    fn a_panic_in_a_reading_ends_the_telemetry() {
        let (sampler, strings) = watching();
        strings.expect(Asked::Read(A));
        // The puppet panics without its strings.
        drop(strings);
        let until = Instant::now() + LONG;
        while sampler.facts_within(LONG).is_ok() {
            assert!(Instant::now() < until, "the sampler gives up");
            thread::yield_now();
        }
        assert_eq!((sampler.so_far(A), sampler.end()), (None, vec![]));
    }
}
