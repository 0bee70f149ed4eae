//! The threads of a device while it works: one queue of numbered items, barriers between phases, one stop.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use assay_device::{DeviceError, Handle};

/// Polls of a waiting thread before it yields.
const SPINS: u32 = 4096;

/// Why a thread left its work early: someone cancelled, or another thread failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EarlyExit;

/// The shared state of one call's threads.
pub(super) struct ThreadTeam<'a> {
    handle: &'a Handle,
    threads: usize,
    next: AtomicUsize,
    arrived: AtomicUsize,
    barriers: AtomicUsize,
    stop: AtomicBool,
}

impl ThreadTeam<'_> {
    /// Runs `body(team, index)` on `threads` threads at once, the calling one as index 0, and waits for all.
    ///
    /// # Errors
    /// [`DeviceError::Cancelled`] when the handle was cancelled before the work was done,
    /// [`DeviceError::Sick`] when a thread could not start or panicked.
    pub(super) fn run<F>(threads: usize, handle: &Handle, body: F) -> Result<(), DeviceError>
    where
        F: Fn(&ThreadTeam<'_>, usize) -> Result<(), EarlyExit> + Sync,
    {
        let zero = || AtomicUsize::new(0);
        let team = ThreadTeam {
            handle,
            threads,
            next: zero(),
            arrived: zero(),
            barriers: zero(),
            stop: AtomicBool::new(false),
        };
        let guarded = |index| {
            let _guard = StopOnPanic(&team);
            body(&team, index)
        };
        let guarded = &guarded;
        thread::scope(|scope| {
            let mut others = Vec::with_capacity(threads - 1);
            for index in 1..threads {
                match thread::Builder::new()
                    .name(format!("assay-cpu-{index}"))
                    .spawn_scoped(scope, move || guarded(index))
                {
                    Ok(other) => others.push(other),
                    Err(error) => {
                        team.stop.store(true, Ordering::Release);
                        return Err(DeviceError::Sick(format!("a thread could not start: {error}")));
                    }
                }
            }
            let mut done = guarded(0);
            for other in others {
                match other.join() {
                    Ok(result) => done = done.and(result),
                    Err(_) => return Err(DeviceError::Sick("a worker thread panicked".into())),
                }
            }
            done.map_err(|EarlyExit| DeviceError::Cancelled)
        })
    }

    /// The next item of this phase, of `items`; `None` when all are taken.
    ///
    /// # Errors
    /// [`EarlyExit`] when the work is to end early.
    pub(super) fn take(&self, items: usize) -> Result<Option<usize>, EarlyExit> {
        self.check()?;
        let item = self.next.fetch_add(1, Ordering::Relaxed);
        Ok((item < items).then_some(item))
    }

    /// Fails with [`EarlyExit`] when the work is to end early. Cheap: for the loops inside an item.
    pub(super) fn check(&self) -> Result<(), EarlyExit> {
        if self.handle.is_cancelled() {
            self.stop.store(true, Ordering::Release);
        }
        if self.stop.load(Ordering::Acquire) { Err(EarlyExit) } else { Ok(()) }
    }

    /// Waits until every thread is here. All writes before are seen by all threads after; the queue starts anew.
    ///
    /// # Errors
    /// [`EarlyExit`] when the work is to end early.
    pub(super) fn barrier(&self) -> Result<(), EarlyExit> {
        let barrier = self.barriers.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.next.store(0, Ordering::Relaxed);
            self.barriers.store(barrier + 1, Ordering::Release);
            return self.check();
        }
        let mut spins = 0;
        while self.barriers.load(Ordering::Acquire) == barrier {
            self.check()?;
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { thread::yield_now() }
        }
        Ok(())
    }
}

/// Stops the others when its thread unwinds, so that none waits for it.
struct StopOnPanic<'a, 'b>(&'a ThreadTeam<'b>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once_in_every_phase() {
        for threads in 1..=4 {
            let done: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
            ThreadTeam::run(threads, &Handle::default(), |team, _| {
                for phase in 0..50 {
                    while let Some(item) = team.take(done.len())? {
                        assert_eq!(done[item].fetch_add(1, Ordering::Relaxed), phase);
                    }
                    team.barrier()?;
                }
                Ok(())
            })
            .unwrap();
            assert!(done.iter().all(|d| d.load(Ordering::Relaxed) == 50));
        }
    }

    #[test]
    fn a_cancelled_handle_frees_those_who_wait() {
        let handle = Handle::default();
        let result = ThreadTeam::run(3, &handle, |team, index| {
            if index == 0 {
                handle.cancel();
            }
            team.barrier()?;
            team.barrier()
        });
        assert_eq!(result, Err(DeviceError::Cancelled));
    }

    #[test]
    fn a_panic_in_a_thread_frees_those_who_wait() {
        let result = ThreadTeam::run(2, &Handle::default(), |team, index| {
            assert_ne!(index, 1, "planted");
            team.barrier()
        });
        assert!(matches!(result, Err(DeviceError::Sick(_))));
    }
}
