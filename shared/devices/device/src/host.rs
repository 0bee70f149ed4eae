//! All devices of this machine, each driven by a thread of its own.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::device::{Device, DeviceInfo};
use super::error::DeviceError;
use assay_work::DeviceId;

/// How long running jobs may take to end when a host is dropped.
const END_LIMIT: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 5000 });

type Job = Box<dyn FnOnce(&mut dyn Device) + Send>;

/// The devices of this machine. Jobs for one device run one after another, those for different ones at once.
pub struct Host {
    threads: Vec<DeviceThread>,
    changes: Changes,
}

/// Counts the times that a device was lost or came back. Clones count the same.
#[derive(Debug, Clone, Default)]
pub struct Changes(Arc<AtomicU64>);

impl Changes {
    /// A device was lost, or came back.
    pub fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of losses and returns so far.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A device's thread, which owns the device.
struct DeviceThread {
    id: DeviceId,
    /// `None` only while the host is dropped.
    jobs: Option<Mutex<mpsc::Sender<Job>>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// A job's result, once it is there.
pub struct PendingResult<T>(mpsc::Receiver<T>);

impl<T> PendingResult<T> {
    /// Waits for the result.
    ///
    /// # Errors
    /// [`DeviceError::Sick`] when the job panicked or the device's thread is gone.
    pub fn wait(self) -> Result<T, DeviceError> {
        self.0.recv().map_err(|_| DeviceError::Sick("its thread failed; the log says why".into()))
    }
}

/// Waits for every job.
///
/// # Errors
/// The failure that made the others stop, before those of the others.
pub fn wait_for_all<T>(jobs: Vec<PendingResult<Result<T, DeviceError>>>) -> Result<Vec<T>, DeviceError> {
    let results: Vec<_> = jobs.into_iter().map(|job| job.wait().and_then(|result| result)).collect();
    let cause = results.iter().filter_map(|r| r.as_ref().err()).find(|e| **e != DeviceError::Cancelled).cloned();
    cause.map_or_else(|| results.into_iter().collect(), Err)
}

/// A device as a session describes it, with the slots that fit for each matrix size asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceReport {
    pub info: DeviceInfo,
    /// How many slots fit, in the order of the sizes asked about.
    pub slots: Vec<u32>,
    /// The fault that keeps it from work now.
    pub fault: Option<DeviceError>,
}

impl Host {
    /// Starts a thread for each device.
    pub fn new(devices: Vec<Box<dyn Device>>) -> Self {
        Self::with_changes(devices, Changes::default())
    }

    /// Starts a thread for each device; the devices count their losses and returns in `changes`.
    pub fn with_changes(mut devices: Vec<Box<dyn Device>>, changes: Changes) -> Self {
        devices.sort_by_key(|d| d.info().id);
        Self { threads: devices.into_iter().map(DeviceThread::start).collect(), changes }
    }

    /// How often a device was lost or came back: when it is another number, a report gives other devices.
    pub fn changes(&self) -> u64 {
        self.changes.count()
    }

    pub fn ids(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.threads.iter().map(|t| t.id)
    }

    pub fn len(&self) -> usize {
        self.threads.len()
    }

    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Queues a job on a device's thread.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when the host has no such device.
    pub fn submit<T, F>(&self, id: DeviceId, job: F) -> Result<PendingResult<T>, DeviceError>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Device) -> T + Send + 'static,
    {
        let thread = self
            .threads
            .iter()
            .find(|t| t.id == id)
            .ok_or_else(|| DeviceError::Unsupported(format!("this host has no device {id}")))?;
        Ok(thread.submit(job))
    }

    /// Asks every device for its description and the slots of each size that fit. Waits for running jobs.
    ///
    /// # Errors
    /// [`DeviceError::Sick`] when a device's thread is gone.
    pub fn report(&self, sizes: &'static [u32]) -> Result<Vec<DeviceReport>, DeviceError> {
        self.ask(sizes).into_iter().map(PendingResult::wait).collect()
    }

    /// Asks as [`Self::report`] does, without waiting: ahead of all jobs queued after it.
    pub fn ask(&self, sizes: &'static [u32]) -> Vec<PendingResult<DeviceReport>> {
        let ask = |thread: &DeviceThread| {
            thread.submit(move |device: &mut dyn Device| DeviceReport {
                fault: device.fault(),
                info: device.info(),
                slots: sizes.iter().map(|n| device.slots_that_fit(*n)).collect(),
            })
        };
        self.threads.iter().map(ask).collect()
    }

    /// Gives all device memory back, once running jobs have ended.
    pub fn release(&self) {
        for done in self.start_release() {
            // A device whose thread is gone holds nothing any more.
            let _ = done.wait();
        }
    }

    /// Releases as [`Self::release`] does, without waiting: ahead of all jobs queued after it.
    pub fn start_release(&self) -> Vec<PendingResult<()>> {
        self.threads.iter().map(|t| t.submit(|device: &mut dyn Device| device.release())).collect()
    }

    /// Runs tasks on any devices: each device takes the first task left that fits it, until no task fits. Results come
    /// in the order of `tasks`.
    ///
    /// # Errors
    /// The first failed task's; [`DeviceError::Busy`] when a task fits no device.
    pub fn run_anywhere<K, T, F>(&self, tasks: Vec<FitTask<K>>, run: F) -> Result<Vec<T>, DeviceError>
    where
        K: Send + 'static,
        T: Send + 'static,
        F: Fn(&mut dyn Device, K) -> Result<T, DeviceError> + Clone + Send + 'static,
    {
        let count = tasks.len();
        let queue = Arc::new(Mutex::new(tasks.into_iter().enumerate().collect::<VecDeque<_>>()));
        let run_tasks = |thread: &DeviceThread| {
            let (queue, run) = (queue.clone(), run.clone());
            thread.submit(move |device: &mut dyn Device| drain_queue(device, &queue, &run))
        };
        let pending: Vec<_> = self.threads.iter().map(run_tasks).collect();
        let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
        for done in pending {
            for (index, result) in done.wait()?? {
                results[index] = Some(result);
            }
        }
        let left = queue.lock().pop_front();
        if let Some((_, task)) = left {
            let free_bytes = self.report(&[])?.iter().map(|r| r.info.free_bytes).max().unwrap_or(0);
            return Err(DeviceError::Busy { needed_bytes: task.bytes(), free_bytes });
        }
        // Every task was taken from the queue, and a taken task gives a result or the error above.
        Ok(results.into_iter().flatten().collect())
    }
}

/// A task for the next device that has room.
#[derive(Debug, Clone)]
pub struct FitTask<K> {
    pub n: u32,
    pub slots: u32,
    /// The caller's input of the task.
    pub what: K,
}

impl<K> FitTask<K> {
    const fn bytes(&self) -> u64 {
        self.slots as u64 * self.n as u64 * self.n as u64
    }
}

type TaskQueue<K> = Mutex<VecDeque<(usize, FitTask<K>)>>;

fn drain_queue<K, T>(
    device: &mut dyn Device,
    queue: &TaskQueue<K>,
    run: &impl Fn(&mut dyn Device, K) -> Result<T, DeviceError>,
) -> Result<Vec<(usize, T)>, DeviceError> {
    let mut done = Vec::new();
    loop {
        let next = {
            let mut queue = queue.lock();
            let fits = queue.iter().position(|(_, task)| task.slots <= device.slots_that_fit(task.n));
            fits.and_then(|i| queue.remove(i))
        };
        let Some((index, task)) = next else { return Ok(done) };
        let result = run(device, task.what);
        if result.is_err() {
            // One failed task fails the call: the other devices drop the rest.
            queue.lock().clear();
        }
        done.push((index, result?));
    }
}

impl DeviceThread {
    fn start(mut device: Box<dyn Device>) -> Self {
        let id = device.info().id;
        let (jobs, inbox) = mpsc::channel::<Job>();
        let run = move || {
            for job in inbox {
                // A panic is a fault of ours; the job's caller sees its channel close, and the slots are dropped.
                if catch_unwind(AssertUnwindSafe(|| job(device.as_mut()))).is_err() {
                    tracing::error!(device = %id, "a job on this device panicked");
                    device.release();
                }
            }
        };
        let thread = thread::Builder::new().name(format!("device-{}", &id.to_string()[..8])).spawn(run);
        if let Err(error) = &thread {
            tracing::error!(device = %id, %error, "no thread for this device");
        }
        Self { id, jobs: Some(Mutex::new(jobs)), thread: thread.ok() }
    }

    fn submit<T, F>(&self, job: F) -> PendingResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Device) -> T + Send + 'static,
    {
        let (result, pending) = mpsc::sync_channel(1);
        let job: Job = Box::new(move |device| {
            // A caller that stopped waiting takes no result.
            let _ = result.send(job(device));
        });
        if let Some(jobs) = &self.jobs {
            // When the thread is gone the job is dropped here, and `PendingResult::wait` says so.
            let _ = jobs.lock().send(job);
        }
        PendingResult(pending)
    }
}

impl Drop for Host {
    /// Lets the running jobs end, then the threads. A thread whose driver does not return is left to the end of the
    /// process.
    fn drop(&mut self) {
        self.threads.iter_mut().for_each(|thread| thread.jobs = None);
        let until = Instant::now() + END_LIMIT;
        for DeviceThread { id, thread, .. } in &mut self.threads {
            let Some(thread) = thread.take() else { continue };
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                let _ = thread.join();
            } else {
                tracing::warn!(device = %id, "its driver does not return: the thread is left behind");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::ReferenceDevice;

    #[test]
    fn a_driver_that_does_not_return_keeps_no_host() {
        let id = DeviceId([1; 16]);
        let host = Host::new(vec![Box::new(ReferenceDevice::new(id, "a device", 1 << 20))]);
        let (end, running) = mpsc::channel();
        let (left, dropped) = mpsc::channel();
        let job = host.submit(id, move |_| running.recv()).unwrap();
        thread::spawn(move || {
            drop(host);
            left.send(()).unwrap();
        });
        let dropped = dropped.recv_timeout(Duration::from_secs(60));
        end.send(()).unwrap();
        assert_eq!((dropped, job.wait()), (Ok(()), Ok(Ok(()))));
    }
}
