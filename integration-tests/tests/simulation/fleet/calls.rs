//! Calls of the database in a simulation: one at a time, and each answer is delivered once the runtime has nothing else
//! to do. So the order of events depends on the seed alone, and the paused clock stands while a thread of SQLite works.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use assay_records::calls::{CallFuture, Calls};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};

use super::world::lock;

/// How long an answer is waited for before the runtime looks for other wake-ups of threads.
const ANSWER_WAIT: Duration = Duration::from_micros(200);

thread_local! {
    /// Whether the code that runs is a part of a call.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The calls of all stores of a simulation. Clones share it.
#[derive(Clone)]
pub struct CallSchedule(Arc<ScheduleState>);

struct ScheduleState {
    turn: Semaphore,
    answers: Mutex<Answers>,
    arrived: Condvar,
}

#[derive(Default)]
struct Answers {
    /// Tasks of calls that wait for the database, by number.
    waiting: BTreeMap<u64, Waker>,
    /// Numbers of those whose answer has arrived, in order; of no other call, or the clock runs on while one waits.
    arrived: Vec<u64>,
    next: u64,
}

/// The calls of one store, until its validator is lost.
pub struct StoreCalls {
    schedule: CallSchedule,
    fate: Mutex<StoreFate>,
    lost: watch::Sender<bool>,
}

#[derive(Default)]
struct StoreFate {
    /// Points of calls that are still passed: their begin and their end. `None`: all.
    points_left: Option<u64>,
    /// Draws the time that passes before a call and after it.
    delays: Option<Box<dyn FnMut() -> Duration + Send>>,
    /// Draws the fate of each call while the database fails.
    outage: Option<Box<dyn FnMut() -> CallFate + Send>>,
}

/// The fate of a call of a database that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFate {
    Answered,
    /// The database cannot be reached.
    Refused,
    /// The connection breaks after the work was done.
    Unanswered,
}

impl Default for CallSchedule {
    fn default() -> Self {
        let (answers, arrived) = (Mutex::default(), Condvar::new());
        Self(Arc::new(ScheduleState { turn: Semaphore::new(1), answers, arrived }))
    }
}

impl CallSchedule {
    /// Delivers answers of the database, or waits for one. Called when the runtime has nothing to do, before its clock
    /// runs on.
    fn deliver(&self) {
        let mut answers = lock(&self.0.answers);
        if answers.waiting.is_empty() {
            return;
        }
        if answers.arrived.is_empty() {
            let waited = self.0.arrived.wait_timeout(answers, ANSWER_WAIT);
            answers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let arrived = std::mem::take(&mut answers.arrived);
        // Without an answer a call is polled once more, so that the clock stands.
        let woken = if arrived.is_empty() { answers.waiting.keys().copied().collect() } else { arrived };
        let wakers: Vec<_> = woken.iter().filter_map(|number| answers.waiting.get(number).cloned()).collect();
        drop(answers);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A runtime of one thread with a paused clock, which stands while a call waits.
    pub fn runtime(&self) -> Runtime {
        let delivering = self.clone();
        let mut builder = Builder::new_current_thread();
        builder.enable_time().start_paused(true).on_thread_park(move || delivering.deliver());
        builder.build().expect("a runtime")
    }

    /// The calls of a new store.
    pub fn store(&self) -> Arc<StoreCalls> {
        let (fate, lost) = (Mutex::default(), watch::Sender::new(false));
        Arc::new(StoreCalls { schedule: self.clone(), fate, lost })
    }
}

impl fmt::Debug for StoreCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreCalls {{ lost: {} }}", self.is_lost())
    }
}

impl StoreCalls {
    /// Loses the store's validator: calls under way are given up where they are, and none returns any more.
    pub fn lose(&self) {
        self.lost.send_replace(true);
        let waiting: Vec<_> = lock(&self.schedule.0.answers).waiting.values().cloned().collect();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Loses it after so many further points of its calls: the begin and the end of each. One between would not lose the
    /// same each time: what a call has done by an answer depends on the thread of SQLite.
    pub fn lose_after(&self, points: u64) {
        lock(&self.fate).points_left = Some(points);
    }

    /// Lets time pass before each call and after it.
    pub fn delay(&self, delays: Option<Box<dyn FnMut() -> Duration + Send>>) {
        lock(&self.fate).delays = delays;
    }

    /// Lets calls fail.
    pub fn fail(&self, outage: Option<Box<dyn FnMut() -> CallFate + Send>>) {
        lock(&self.fate).outage = outage;
    }

    /// Whether the validator is lost, and the moment of it.
    pub fn lost(&self) -> watch::Receiver<bool> {
        self.lost.subscribe()
    }

    fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    fn pass_point(&self) {
        let mut fate = lock(&self.fate);
        let left = fate.points_left.map(|left| left.saturating_sub(1));
        fate.points_left = left;
        drop(fate);
        if left == Some(0) {
            self.lost.send_replace(true);
        }
    }

    async fn pass_time(&self) {
        let time = lock(&self.fate).delays.as_mut().map(|delay| delay());
        if let Some(time) = time {
            tokio::time::sleep(time).await;
        }
    }

    fn call<'a>(self: &Arc<Self>, work: CallFuture<'a>) -> Call<'a> {
        let mut answers = lock(&self.schedule.0.answers);
        answers.next += 1;
        Call { work: Some(work), number: answers.next, store: self.clone(), was_pending: false, is_done: false }
    }
}

impl Calls for StoreCalls {
    fn run<'a>(self: Arc<Self>, work: CallFuture<'a>) -> CallFuture<'a, bool> {
        Box::pin(async move {
            if IS_INSIDE.get() {
                // A part of another call.
                work.await;
                return true;
            }
            self.pass_time().await;
            // The turns are never closed.
            let turn = self.schedule.0.turn.acquire().await.ok();
            let fate = lock(&self.fate).outage.as_mut().map_or(CallFate::Answered, |draw| draw());
            self.pass_point();
            if fate != CallFate::Refused {
                self.call(work).await;
            }
            self.pass_point();
            drop(turn);
            self.pass_time().await;
            if self.is_lost() {
                std::future::pending::<()>().await;
            }
            fate == CallFate::Answered
        })
    }

    fn run_for_others<'a>(self: Arc<Self>, work: CallFuture<'a>) -> CallFuture<'a> {
        Box::pin(async move { self.call(work).await })
    }
}

/// A call under way, until its validator is lost.
struct Call<'a> {
    work: Option<CallFuture<'a>>,
    number: u64,
    store: Arc<StoreCalls>,
    was_pending: bool,
    /// Whether it is done, and only its end is still to be delivered.
    is_done: bool,
}

impl Future for Call<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.store.is_lost() {
            self.work = None;
        }
        let (number, store) = (self.number, self.store.clone());
        if self.is_done {
            return Poll::Ready(());
        }
        let was_pending = std::mem::replace(&mut self.was_pending, true);
        let Some(work) = &mut self.work else { return Poll::Ready(()) };
        lock(&store.schedule.0.answers).waiting.insert(number, context.waker().clone());
        let (schedule, task) = (store.schedule.clone(), context.waker().clone());
        let waker = Arc::new(AnswerWaker { schedule, number, task, home: thread::current().id() }).into();
        let was_inside = IS_INSIDE.replace(true);
        let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
        IS_INSIDE.set(was_inside);
        if polled.is_ready() && !was_pending {
            // The database answered before it was waited for, which depends on its thread: its answer has its turn too.
            self.is_done = true;
            lock(&self.store.schedule.0.answers).arrived.push(number);
            return Poll::Pending;
        }
        polled
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut answers = lock(&self.store.schedule.0.answers);
        answers.waiting.remove(&self.number);
        answers.arrived.retain(|number| *number != self.number);
    }
}

/// Wakes a call at once from the thread of the simulation, and in its turn from a thread of the database.
struct AnswerWaker {
    schedule: CallSchedule,
    number: u64,
    task: Waker,
    home: ThreadId,
}

impl Wake for AnswerWaker {
    fn wake(self: Arc<Self>) {
        if thread::current().id() == self.home {
            return self.task.wake_by_ref();
        }
        let mut answers = lock(&self.schedule.0.answers);
        // A call that read its answer before this wake-up may have ended.
        if answers.waiting.contains_key(&self.number) && !answers.arrived.contains(&self.number) {
            answers.arrived.push(self.number);
        }
        drop(answers);
        self.schedule.0.arrived.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::sync::oneshot;
    use tokio::time::{Instant, timeout};

    use super::*;

    /// Waits for an answer that comes later, from a thread; whether the clock stood meanwhile.
    async fn clock_stands(store: Arc<StoreCalls>) -> bool {
        let (began, (answer, answered)) = (Instant::now(), oneshot::channel());
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            answer.send(())
        });
        let call = store.run(Box::pin(async { answered.await.expect("an answer") }));
        timeout(Duration::from_secs(3600), call).await.is_ok() && Instant::now() == began
    }

    /// A call that is polled twice, and the waker of its first poll.
    async fn ended_call(store: Arc<StoreCalls>) -> Waker {
        let mut first = None;
        let polled_twice = poll_fn(|context| match first {
            Some(_) => Poll::Ready(()),
            None => {
                first = Some(context.waker().clone());
                context.waker().wake_by_ref();
                Poll::Pending
            }
        });
        store.run(Box::pin(polled_twice)).await;
        first.expect("it was polled")
    }

    fn wake_from_thread(waker: Waker) {
        thread::spawn(move || waker.wake()).join().expect("it only wakes");
    }

    /// A thread of SQLite gives an answer and then wakes the call, which may have read it and ended. The runtime parked,
    /// and without a timer for ever.
    #[test]
    fn the_clock_stands_after_a_wake_up_of_an_ended_call() {
        let schedule = CallSchedule::default();
        schedule.runtime().block_on(async {
            let store = schedule.store();
            wake_from_thread(ended_call(store.clone()).await);
            assert!(clock_stands(store).await);
        });
    }

    #[test]
    fn the_clock_stands_after_a_call_is_dropped_with_its_answer() {
        let schedule = CallSchedule::default();
        schedule.runtime().block_on(async {
            let store = schedule.store();
            let answered = poll_fn(|context| {
                wake_from_thread(context.waker().clone());
                Poll::Pending
            });
            timeout(Duration::ZERO, store.clone().run(Box::pin(answered))).await.expect_err("it is dropped");
            assert!(clock_stands(store).await);
        });
    }
}
