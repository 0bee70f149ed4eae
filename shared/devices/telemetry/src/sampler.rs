//! The thread that reads sensors, and the handle to it.
//!
//! A broken driver may hang, and the source with it. So only this thread calls the source, and the mutex around its
//! results is never held during a call. The thread is not joined: one that hangs ends with the process.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::collect::TelemetryCollector;
use super::reading::Reading;
use super::watch::SensorWatch;
use super::wear::Wear;
use assay_protocol::claims::{Hardware, HostClaims, Telemetry};
use assay_work::DeviceId;

/// Interval between readings: short enough for a challenge of seconds, long enough to cost nothing.
pub const PERIOD: Duration = Duration::from_millis(250);
/// Interval between two readings of the counters of wear: a dozen calls.
const WEAR_PERIOD: Duration = Duration::from_secs(1);
/// Interval between readings of idle devices that are always watched: a scrape comes every 15 s or so.
const IDLE_PERIOD: Duration = Duration::from_secs(5);
/// The longest call to a source that is not reported to the operator.
const MAX_SILENCE: Duration = Duration::from_secs(2);

/// Where readings come from: called by one thread, may fail, lie, panic or hang.
pub trait SensorSource {
    /// The claims about the host and its devices; called once.
    fn host_claims(&mut self) -> HostClaims;

    /// Work begins on these devices: discards events of before.
    fn begin(&mut self, ids: &[DeviceId]);

    /// Reads a device's sensors; `None` for a device that the source does not know.
    fn read(&mut self, id: DeviceId) -> Option<Reading>;

    /// Reads a device's counters of wear, seldom. `None` for a device that the source does not know.
    fn wear(&mut self, _id: DeviceId) -> Option<Wear> {
        None
    }
}

/// Why there are no claims about the host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostClaimsError {
    /// The source could not be opened, for this reason.
    #[error("{0}")]
    NoSource(String),
    /// The source has not answered yet.
    #[error("the management library gives no answer within {0:?}: check the driver")]
    NoAnswer(Duration),
}

/// The handle to the thread that reads a source; dropping it stops the thread.
pub struct Sampler {
    shared: Arc<SamplerShared>,
}

#[derive(Default)]
struct SamplerShared {
    state: Mutex<SamplerState>,
    /// `host_claims`, `watched` or `stopping` changed.
    changed: Condvar,
}

#[derive(Default)]
struct SamplerState {
    host_claims: Option<Result<HostClaims, HostClaimsError>>,
    watched: Option<WorkingDevices>,
    /// Devices that are read while idle too.
    always: Vec<DeviceId>,
    latest: BTreeMap<DeviceId, Reading>,
    /// When idle devices are read next.
    glance_due: Option<Instant>,
    /// The number of the last [`WorkingDevices`].
    watches: u64,
    /// When the running call to the source began.
    calling_since: Option<Instant>,
    stopping: bool,
}

enum SamplerTask {
    /// Read these devices while they work.
    Work(u64, Vec<DeviceId>),
    /// Read these idle devices once.
    Glance(Vec<DeviceId>),
}

/// The devices that work.
struct WorkingDevices {
    /// A late reading of an earlier challenge has another number and is not counted.
    number: u64,
    devices: BTreeMap<DeviceId, TelemetryCollector>,
    /// The newest reading of each device.
    newest: BTreeMap<DeviceId, Reading>,
    /// The latest counters of wear; `None` until a caller asks for them.
    wear: Option<BTreeMap<DeviceId, Wear>>,
}

impl Sampler {
    /// Starts the thread, which opens the source and asks it for the host's claims. Does not wait for either.
    ///
    /// `open` fails with the reason why there is no source.
    pub fn start<S: SensorSource>(open: impl FnOnce() -> Result<S, String> + Send + 'static) -> Self {
        let shared = Arc::new(SamplerShared::default());
        let of_thread = shared.clone();
        let body = move || {
            if catch_unwind(AssertUnwindSafe(|| of_thread.run(open))).is_err() {
                of_thread.give_up("the management library or its binding panicked".into());
            }
        };
        if let Err(error) = thread::Builder::new().name("telemetry".into()).spawn(body) {
            shared.give_up(format!("cannot start its thread: {error}"));
        }
        Self { shared }
    }

    /// The claims, for which it waits at most `limit`.
    ///
    /// # Errors
    /// [`HostClaimsError`].
    pub fn host_claims_within(&self, limit: Duration) -> Result<HostClaims, HostClaimsError> {
        let mut state = self.shared.state.lock();
        self.shared.changed.wait_while_for(&mut state, |state| state.host_claims.is_none(), limit);
        state.host_claims.clone().unwrap_or(Err(HostClaimsError::NoAnswer(limit)))
    }
}

impl SensorWatch for Sampler {
    fn hardware(&self, id: DeviceId) -> Option<Hardware> {
        self.shared.state.lock().host_claims.as_ref()?.as_ref().ok()?.of(id).cloned()
    }

    fn begin(&self, ids: &[DeviceId]) {
        let mut state = self.shared.state.lock();
        state.watches += 1;
        let devices = ids.iter().map(|id| (*id, TelemetryCollector::default())).collect();
        state.watched = Some(WorkingDevices { number: state.watches, devices, newest: BTreeMap::new(), wear: None });
        self.shared.changed.notify_all();
    }

    fn newest(&self, id: DeviceId) -> Option<Reading> {
        self.shared.state.lock().watched.as_ref()?.newest.get(&id).cloned()
    }

    fn wear(&self, id: DeviceId) -> Option<Wear> {
        let mut state = self.shared.state.lock();
        state.watched.as_mut()?.wear.get_or_insert_default().get(&id).cloned()
    }

    fn watch_always(&self, ids: &[DeviceId]) {
        let mut state = self.shared.state.lock();
        state.always = ids.to_vec();
        state.glance_due = (!ids.is_empty()).then(Instant::now);
        self.shared.changed.notify_all();
    }

    fn latest(&self, id: DeviceId) -> Option<Reading> {
        self.shared.state.lock().latest.get(&id).cloned()
    }

    fn so_far(&self, id: DeviceId) -> Option<Telemetry> {
        let state = self.shared.state.lock();
        let summary = state.watched.as_ref()?.devices.get(&id)?.summary();
        (summary.samples > 0).then(|| summary.clone())
    }

    fn end(&self) -> Vec<(DeviceId, Telemetry)> {
        let Some(watched) = self.shared.state.lock().watched.take() else { return Vec::new() };
        self.shared.changed.notify_all();
        let read = watched.devices.into_iter().filter(|(_, collector)| collector.summary().samples > 0);
        let summary = |(id, collector): (DeviceId, TelemetryCollector)| {
            if collector.dropped() > 0 {
                tracing::warn!(device = %id, "{} readings were impossible and left out", collector.dropped());
            }
            (id, collector.summary().clone())
        };
        read.map(summary).collect()
    }

    fn trouble(&self) -> Option<String> {
        let silent = self.shared.state.lock().calling_since?.elapsed();
        (silent > MAX_SILENCE).then(|| format!("the management library has not answered for {silent:.1?}"))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.state.lock().stopping = true;
        self.shared.changed.notify_all();
    }
}

impl SamplerShared {
    /// Ends telemetry, for this reason.
    fn give_up(&self, reason: String) {
        tracing::debug!("no telemetry: {reason}");
        let mut state = self.state.lock();
        state.host_claims = Some(Err(HostClaimsError::NoSource(reason)));
        state.calling_since = None;
        state.watched = None;
        self.changed.notify_all();
    }

    /// Calls the source, and records since when.
    fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        self.state.lock().calling_since = Some(Instant::now());
        let result = call();
        self.state.lock().calling_since = None;
        result
    }

    /// The body of the thread.
    fn run<S: SensorSource>(&self, open: impl FnOnce() -> Result<S, String>) {
        let mut source = match self.call(open) {
            Ok(source) => source,
            Err(reason) => return self.give_up(reason),
        };
        // Once: a source that answers differently each time would change the inventory each time, and make the
        // challenges under way stale.
        let host_claims = self.call(|| source.host_claims());
        self.state.lock().host_claims = Some(Ok(host_claims));
        self.changed.notify_all();
        while let Some(next) = self.next_reading() {
            match next {
                SamplerTask::Work(number, ids) => {
                    self.call(|| source.begin(&ids));
                    self.sample(&mut source, number, &ids);
                }
                SamplerTask::Glance(ids) => self.glance(&mut source, &ids),
            }
        }
    }

    /// Waits until devices work, or idle ones are due; `None` when the sampler stops.
    fn next_reading(&self) -> Option<SamplerTask> {
        let mut state = self.state.lock();
        loop {
            if state.stopping {
                return None;
            }
            if let Some(watched) = &state.watched {
                return Some(SamplerTask::Work(watched.number, watched.devices.keys().copied().collect()));
            }
            match state.glance_due {
                Some(due) if due <= Instant::now() => {
                    state.glance_due = Some(Instant::now() + IDLE_PERIOD);
                    return Some(SamplerTask::Glance(state.always.clone()));
                }
                Some(due) => drop(self.changed.wait_until(&mut state, due)),
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Reads idle devices once, unless work begins meanwhile.
    fn glance(&self, source: &mut impl SensorSource, ids: &[DeviceId]) {
        for id in ids {
            if self.state.lock().watched.is_some() {
                return;
            }
            let reading = self.call(|| source.read(*id));
            let mut state = self.state.lock();
            match reading {
                Some(reading) => drop(state.latest.insert(*id, reading.plausible().0)),
                // The earlier reading is out of date.
                None => drop(state.latest.remove(id)),
            }
        }
    }

    /// Reads the devices once per [`PERIOD`] until they are no longer watched.
    fn sample(&self, source: &mut impl SensorSource, number: u64, ids: &[DeviceId]) {
        let mut due = Instant::now();
        let mut wear_due = due;
        loop {
            for id in ids {
                let Some(reading) = self.call(|| source.read(*id)) else { continue };
                let mut state = self.state.lock();
                let Some(watched) = state.watched.as_mut().filter(|watched| watched.number == number) else { return };
                let Some(collector) = watched.devices.get_mut(id) else { return };
                let plausible = reading.clone().plausible().0;
                watched.newest.insert(*id, plausible.clone());
                collector.add(reading);
                if state.always.contains(id) {
                    state.latest.insert(*id, plausible);
                }
            }
            if due >= wear_due && self.wants_wear(number) {
                for id in ids {
                    let Some(wear) = self.call(|| source.wear(*id)) else { continue };
                    let mut state = self.state.lock();
                    let watched = state.watched.as_mut().filter(|watched| watched.number == number);
                    let Some(all) = watched.and_then(|watched| watched.wear.as_mut()) else { return };
                    all.insert(*id, wear);
                }
                wear_due = due + WEAR_PERIOD;
            }
            // Readings that a slow source missed are not made up for.
            due = (due + PERIOD).max(Instant::now());
            if !self.still_watched(number, due) {
                return;
            }
        }
    }

    fn wants_wear(&self, number: u64) -> bool {
        let state = self.state.lock();
        state.watched.as_ref().is_some_and(|watched| watched.number == number && watched.wear.is_some())
    }

    /// Waits until `due`; whether the devices are still watched.
    fn still_watched(&self, number: u64, due: Instant) -> bool {
        let same = |state: &mut SamplerState| {
            !state.stopping && state.watched.as_ref().is_some_and(|watched| watched.number == number)
        };
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, same, due.saturating_duration_since(Instant::now()));
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

    /// A call to a test's source, which the test answers.
    #[derive(Debug, PartialEq, Eq)]
    enum Asked {
        HostClaims,
        Begin(Vec<DeviceId>),
        Read(DeviceId),
    }

    type Answer = Option<Reading>;

    /// A source whose calls wait for the test.
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

    impl SensorSource for Puppet {
        fn host_claims(&mut self) -> HostClaims {
            self.wait(Asked::HostClaims);
            let uuid = |id: u8| {
                format!("GPU-{0}-{1}-{1}-{1}-{2}", hex::encode([id; 4]), hex::encode([id; 2]), hex::encode([id; 6]))
            };
            let hardware = |id| Hardware { uuid: Some(uuid(id)), ..Hardware::default() };
            HostClaims { hardware: vec![hardware(1), hardware(2)], cuda_version: Some(13_000) }
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
        strings.expect(Asked::HostClaims);
        strings.answer(None);
        sampler.host_claims_within(LONG).unwrap();
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
        strings.expect(Asked::HostClaims);
        assert_eq!(sampler.hardware(A), None);
        let limit = Duration::from_millis(1);
        assert_eq!(sampler.host_claims_within(limit), Err(HostClaimsError::NoAnswer(limit)));
        strings.answer(None);
        assert_eq!(sampler.host_claims_within(LONG).unwrap().hardware.len(), 2);
        assert!(sampler.hardware(A).is_some() && sampler.hardware(B).is_some());
        assert_eq!(sampler.hardware(STRANGER), None);
    }

    #[test]
    fn no_source_is_no_telemetry() {
        let sampler = Sampler::start(|| Err::<Puppet, _>("there is none".into()));
        assert_eq!(sampler.host_claims_within(LONG), Err(HostClaimsError::NoSource("there is none".into())));
        sampler.begin(&[A]);
        assert_eq!((sampler.so_far(A), sampler.end(), sampler.trouble()), (None, vec![], None));
    }

    #[test]
    fn a_source_that_panics_is_none() {
        let sampler = Sampler::start(|| -> Result<Puppet, String> { panic!("a planted panic") });
        assert!(matches!(sampler.host_claims_within(LONG), Err(HostClaimsError::NoSource(_))));
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
            // The source knows the first device only.
            strings.answer(None);
        }
        strings.expect(Asked::Read(A));
        let so_far = sampler.so_far(A).unwrap();
        assert_eq!((so_far.samples, so_far.temperature_c.unwrap().mean), (2, 55));
        assert_eq!(sampler.so_far(B), None);
        assert_eq!(sampler.end(), [(A, so_far)]);
        // A reading that comes after the end is not counted, and no other is taken.
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

    #[test]
    fn devices_that_are_always_watched_are_read_while_idle_too() {
        let (sampler, strings) = started();
        strings.expect(Asked::HostClaims);
        strings.answer(None);
        sampler.watch_always(&[A, B]);
        strings.expect(Asked::Read(A));
        strings.answer(degrees(30));
        strings.expect(Asked::Read(B));
        assert_eq!(sampler.latest(A).and_then(|reading| reading.temperature_c), Some(30));
        // Work that begins meanwhile comes first, and its readings count here too.
        sampler.begin(&[A]);
        strings.answer(None);
        strings.expect(Asked::Begin(vec![A]));
        strings.answer(None);
        strings.expect(Asked::Read(A));
        strings.answer(degrees(80));
        strings.expect(Asked::Read(A));
        assert_eq!(sampler.latest(A).and_then(|reading| reading.temperature_c), Some(80));
        assert_eq!((sampler.latest(B), sampler.so_far(A).unwrap().samples), (None, 1), "idle readings are no claims");
    }

    /// A call that never returns blocks no caller, no later challenge and no shutdown.
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
        sampler.shared.state.lock().calling_since = Some(Instant::now().checked_sub(2 * MAX_SILENCE).unwrap());
        assert!(sampler.trouble().unwrap().contains("has not answered for 4"));
        strings.answer(None);
        strings.expect(Asked::Read(B));
        assert_eq!(sampler.trouble(), None);
    }

    /// A panic in a challenge costs the readings so far, and nothing else.
    #[test]
    fn a_panic_in_a_reading_ends_the_telemetry() {
        let (sampler, strings) = watching();
        strings.expect(Asked::Read(A));
        // The puppet panics without its strings.
        drop(strings);
        let until = Instant::now() + LONG;
        while sampler.host_claims_within(LONG).is_ok() {
            assert!(Instant::now() < until, "the sampler gives up");
            thread::yield_now();
        }
        assert_eq!((sampler.so_far(A), sampler.end()), (None, vec![]));
    }
}
