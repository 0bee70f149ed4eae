//! Calls of the database in a simulation: one at a time, and each answer is delivered once the runtime has nothing else
//! to do. So the order of events depends on the seed alone, and the paused clock stands while a thread of SQLite works.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, watch};

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
    /// Calls that wait for the database, by number.
    waiting: BTreeMap<u64, (Arc<StoreCalls>, Waker)>,
    /// Numbers of those whose answer has arrived, in order.
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
    /// Answers that are still delivered; `None`: all.
    answers_left: Option<u64>,
    /// Draws the time that passes before a call and after it.
    delays: Option<Box<dyn FnMut() -> Duration + Send>>,
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
    pub fn deliver(&self) {
        let mut answers = self.0.answers.lock();
        if answers.waiting.is_empty() {
            return;
        }
        if answers.arrived.is_empty() {
            self.0.arrived.wait_for(&mut answers, ANSWER_WAIT);
        }
        let arrived = std::mem::take(&mut answers.arrived);
        let is_answered = !arrived.is_empty();
        // Without an answer a call is polled once more, so that the clock stands.
        let woken = if is_answered { arrived } else { answers.waiting.keys().copied().collect() };
        let woken: Vec<_> = woken.iter().filter_map(|number| answers.waiting.get(number).cloned()).collect();
        drop(answers);
        for (store, waker) in woken {
            if is_answered {
                store.answered();
            }
            waker.wake();
        }
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
        let waiting =
            self.schedule.0.answers.lock().waiting.values().map(|(_, waker)| waker.clone()).collect::<Vec<_>>();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Loses it after so many further answers of the database.
    pub fn lose_after(&self, answers: u64) {
        self.fate.lock().answers_left = Some(answers);
    }

    /// Lets time pass before each call and after it.
    pub fn delay(&self, delays: Option<Box<dyn FnMut() -> Duration + Send>>) {
        self.fate.lock().delays = delays;
    }

    /// Whether the validator is lost, and the moment of it.
    pub fn lost(&self) -> watch::Receiver<bool> {
        self.lost.subscribe()
    }

    fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    fn answered(&self) {
        let mut fate = self.fate.lock();
        let left = fate.answers_left.map(|left| left.saturating_sub(1));
        fate.answers_left = left;
        drop(fate);
        if left == Some(0) {
            self.lost.send_replace(true);
        }
    }

    async fn pass_time(&self) {
        let time = self.fate.lock().delays.as_mut().map(|delay| delay());
        if let Some(time) = time {
            tokio::time::sleep(time).await;
        }
    }

    /// Makes a call in its turn; a call within another one is a part of it.
    pub(crate) async fn run<T>(self: &Arc<Self>, work: impl Future<Output = T>) -> T {
        if IS_INSIDE.get() {
            return work.await;
        }
        self.pass_time().await;
        // The turns are never closed.
        let turn = self.schedule.0.turn.acquire().await.ok();
        let answer = self.call(work).await;
        drop(turn);
        self.pass_time().await;
        match answer {
            Some(answer) if !self.is_lost() => answer,
            _ => std::future::pending().await,
        }
    }

    /// Does the work of a task on which a call waits.
    pub(crate) async fn run_for_others(self: &Arc<Self>, work: impl Future<Output = ()>) {
        let _ = self.call(work).await;
    }

    fn call<F: Future>(self: &Arc<Self>, work: F) -> Call<F> {
        let mut answers = self.schedule.0.answers.lock();
        answers.next += 1;
        Call { work: Some(Box::pin(work)), number: answers.next, store: self.clone() }
    }
}

/// A call under way. `None`: its validator was lost.
struct Call<F> {
    work: Option<Pin<Box<F>>>,
    number: u64,
    store: Arc<StoreCalls>,
}

impl<F: Future> Future for Call<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.store.is_lost() {
            self.work = None;
        }
        let (number, store) = (self.number, self.store.clone());
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        store.schedule.0.answers.lock().waiting.insert(number, (store.clone(), context.waker().clone()));
        let (schedule, task) = (store.schedule.clone(), context.waker().clone());
        let waker = Arc::new(AnswerWaker { schedule, number, task, home: thread::current().id() }).into();
        let was_inside = IS_INSIDE.replace(true);
        let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
        IS_INSIDE.set(was_inside);
        polled.map(Some)
    }
}

impl<F> Drop for Call<F> {
    fn drop(&mut self) {
        self.store.schedule.0.answers.lock().waiting.remove(&self.number);
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
        let mut answers = self.schedule.0.answers.lock();
        if !answers.arrived.contains(&self.number) {
            answers.arrived.push(self.number);
        }
        drop(answers);
        self.schedule.0.arrived.notify_one();
    }
}
