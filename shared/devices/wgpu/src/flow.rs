//! Recorded dispatches and pending submissions: bounded, in order, with a timeout.
//!
//! Dispatches collect in a batch until its estimated time is long enough; then it is submitted, once the pending
//! submissions leave room. wgpu's queue runs them in their order, each after the ones that it depends on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::wgpu::{Buffer, BufferUsages, CommandEncoderDescriptor, ComputePassDescriptor, SubmissionIndex};

use super::bind::{Binding, Bindings};
use super::gpu::{CreationFailure, Gpu, MAX_COUNTED_WAIT};
use super::kernels::Pipeline;
use super::memory::SlotPiece;
use super::plan::ALIGNMENT;
use super::shaders;
use assay_device::pace::{DeviceRates, MAX_LAUNCH_TIME, WorkKind, Workload, may_enqueue};
use assay_device::{DeviceError, Handle};

/// The most dispatches of a submission: their parameters lie in one buffer.
const MAX_DISPATCHES: usize = 512;
/// The most pending submissions: short ones reach this limit, long ones the limit in time.
const MAX_IN_FLIGHT: usize = 16;

/// The buffer that dispatches' parameters are written to before each submission.
pub(super) fn parameters(gpu: &Gpu) -> Result<Buffer, CreationFailure> {
    let usage = BufferUsages::UNIFORM | BufferUsages::COPY_DST;
    gpu.buffer("parameters", MAX_DISPATCHES as u64 * ALIGNMENT, usage)
}

pub(super) struct Dispatch<'a, 'd> {
    pub(super) pipeline: &'a Pipeline,
    /// Its parameters, at most 64 words.
    pub(super) words: &'d [u32],
    /// Its storage bindings, in order.
    pub(super) bindings: &'d [Binding<'d>],
    pub(super) workgroups: u32,
    /// Its work, for the estimate.
    pub(super) work: Workload,
}

struct RecordedDispatch<'a> {
    pipeline: &'a Pipeline,
    group: ::wgpu::BindGroup,
    offsets: Vec<u32>,
    workgroups: u32,
}

/// The dispatches of the next submission.
#[derive(Default)]
struct PendingBatch<'a> {
    dispatches: Vec<RecordedDispatch<'a>>,
    parameters: Vec<u8>,
    work: Vec<Workload>,
    estimate: Duration,
    steps: u64,
    /// Whether it holds work of a kind that was not measured yet, and so nothing else.
    unmeasured: bool,
}

struct Submission {
    number: u64,
    index: SubmissionIndex,
    at: Instant,
    work: Vec<Workload>,
    estimate: Duration,
    steps: u64,
}

/// The work of one call.
pub(super) struct Flow<'a> {
    gpu: &'a Gpu,
    bindings: &'a mut Bindings,
    parameters: &'a Buffer,
    pub(super) rates: &'a mut DeviceRates,
    handle: &'a Handle,
    stall_limit: Duration,
    batch: PendingBatch<'a>,
    in_flight: VecDeque<Submission>,
    queued: Duration,
    submitted: u64,
    done: Arc<AtomicU64>,
    last_done: Instant,
    completion_counter: Option<(&'a Pipeline, SlotPiece<'a>)>,
    /// The completion counter's value at the end.
    completion: u32,
    /// Time without a finished submission.
    idle: Duration,
}

/// The parts of a device that a flow uses.
pub(super) struct FlowParts<'a> {
    pub(super) gpu: &'a Gpu,
    /// Bind groups made before.
    pub(super) bindings: &'a mut Bindings,
    /// See [`parameters`].
    pub(super) parameters: &'a Buffer,
    pub(super) rates: &'a mut DeviceRates,
    /// Progress out, cancellation in.
    pub(super) handle: &'a Handle,
    /// How long may pass without a finished submission.
    pub(super) stall_limit: Duration,
    /// The pipeline that counts carried-out submissions, and its counter; `None` where the count is not compared.
    pub(super) completion_counter: Option<(&'a Pipeline, SlotPiece<'a>)>,
}

impl<'a> Flow<'a> {
    pub(super) fn new(parts: FlowParts<'a>) -> Self {
        let FlowParts { gpu, bindings, parameters, rates, handle, stall_limit, completion_counter } = parts;
        Self {
            completion_counter,
            completion: 0,
            idle: Duration::ZERO,
            gpu,
            bindings,
            parameters,
            rates,
            handle,
            stall_limit,
            batch: PendingBatch::default(),
            in_flight: VecDeque::with_capacity(MAX_IN_FLIGHT),
            queued: Duration::ZERO,
            submitted: 0,
            done: Arc::default(),
            last_done: Instant::now(),
        }
    }

    /// Records a dispatch; submits the batch where that is long enough.
    pub(super) fn dispatch(&mut self, dispatch: &Dispatch<'a, '_>) -> Result<(), DeviceError> {
        let estimate = self.rates.estimate(dispatch.work);
        let is_long = self.batch.estimate.saturating_add(estimate.unwrap_or_default()) > MAX_LAUNCH_TIME;
        // One is left for the completion counter.
        let is_full = self.batch.dispatches.len() == MAX_DISPATCHES - 1;
        if is_long || is_full || estimate.is_none() || self.batch.unmeasured {
            self.submit()?;
        }
        self.record(dispatch, estimate)?;
        if estimate.is_none() {
            // Alone, so that its time is its own; the next dispatches are cut by it.
            self.submit()?;
            self.drain()?;
        }
        Ok(())
    }

    fn record(&mut self, dispatch: &Dispatch<'a, '_>, estimate: Option<Duration>) -> Result<(), DeviceError> {
        let batch = &mut self.batch;
        let at = batch.parameters.len();
        batch.parameters.extend(dispatch.words.iter().flat_map(|word| word.to_le_bytes()));
        assert!(batch.parameters.len() <= at + ALIGNMENT as usize, "parameters of a dispatch");
        batch.parameters.resize(at + ALIGNMENT as usize, 0);
        let (group, offsets) =
            self.bindings.bind(self.gpu, dispatch.pipeline, self.parameters, at as u32, dispatch.bindings)?;
        batch.dispatches.push(RecordedDispatch {
            pipeline: dispatch.pipeline,
            group,
            offsets,
            workgroups: dispatch.workgroups,
        });
        batch.work.push(dispatch.work);
        batch.estimate = batch.estimate.saturating_add(estimate.unwrap_or_default());
        batch.unmeasured |= estimate.is_none();
        Ok(())
    }

    /// Counts `steps` more steps of the handle's as done once the dispatches recorded so far are.
    pub(super) fn finish_steps(&mut self, steps: u64) -> Result<(), DeviceError> {
        if !self.batch.dispatches.is_empty() {
            self.batch.steps += steps;
        } else if let Some(last) = self.in_flight.back_mut() {
            last.steps += steps;
        } else {
            self.handle.advance(steps);
        }
        self.handle.check()
    }

    /// How many pieces of `piece_units` each one dispatch takes.
    pub(super) fn pieces(&self, kind: WorkKind, left: u64, piece_units: u64, first: u64) -> u64 {
        self.rates.pieces(kind, left, piece_units, first)
    }

    /// Submits the batch, once there is room for it.
    fn submit(&mut self) -> Result<(), DeviceError> {
        if self.batch.dispatches.is_empty() {
            return Ok(());
        }
        self.make_way()?;
        self.record_completion()?;
        let batch = std::mem::take(&mut self.batch);
        let index = self.gpu.calling(|| self.hand_over(&batch))?;
        self.submitted += 1;
        let (number, done) = (self.submitted, self.done.clone());
        self.gpu.queue.on_submitted_work_done(move || {
            done.fetch_max(number, Ordering::Relaxed);
        });
        self.queued = self.queued.saturating_add(batch.estimate);
        self.in_flight.push_back(Submission {
            number,
            index,
            at: Instant::now(),
            work: batch.work,
            estimate: batch.estimate,
            steps: batch.steps,
        });
        self.gpu.check()
    }

    /// The last dispatch of a submission, where completion is counted.
    fn record_completion(&mut self) -> Result<(), DeviceError> {
        let Some((pipeline, piece)) = self.completion_counter else { return Ok(()) };
        // Of a device's submissions no two have the same number, so that an older count is never the right one.
        let number = self.gpu.next_number();
        let words = shaders::CompletionCounter { number, first: self.submitted == 0 }.words();
        self.completion = shaders::next_completion(if self.submitted == 0 { 0 } else { self.completion }, number);
        let work = Workload { kind: WorkKind::Product, units: 0 };
        let dispatch = Dispatch { pipeline, words: &words, bindings: &[piece], workgroups: 1, work };
        self.record(&dispatch, Some(Duration::ZERO))
    }

    /// The completion counter's value once all submissions are carried out.
    pub(super) const fn expected_completion(&self) -> u32 {
        self.completion
    }

    fn hand_over(&self, batch: &PendingBatch<'_>) -> SubmissionIndex {
        self.gpu.queue.write_buffer(self.parameters, 0, &batch.parameters);
        let mut encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
            for dispatch in &batch.dispatches {
                pass.set_pipeline(dispatch.pipeline.raw());
                pass.set_bind_group(0, &dispatch.group, &dispatch.offsets);
                pass.dispatch_workgroups(dispatch.workgroups, 1, 1);
            }
        }
        self.gpu.queue.submit([encoder.finish()])
    }

    /// Waits until the submissions in flight leave room for the batch.
    fn make_way(&mut self) -> Result<(), DeviceError> {
        loop {
            self.handle.check()?;
            self.reap()?;
            let count = self.in_flight.len();
            if count < MAX_IN_FLIGHT && may_enqueue(self.queued, count, Some(self.batch.estimate)) {
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// Submits all that is recorded, and waits until all is done.
    pub(super) fn finish(&mut self) -> Result<(), DeviceError> {
        self.submit()?;
        while !self.in_flight.is_empty() {
            self.handle.check()?;
            self.wait()?;
        }
        self.handle.check()
    }

    /// Waits until all that was recorded is done. When recording or waiting failed, no submission is pending, or the device
    /// is lost.
    pub(super) fn conclude<T>(&mut self, recorded: Result<T, DeviceError>) -> Result<T, DeviceError> {
        match recorded.and_then(|made| self.finish().and(Ok(made))) {
            Err(DeviceError::Cancelled) => self.abandon().and(Err(DeviceError::Cancelled)),
            other => other,
        }
    }

    /// Drops the recorded dispatches and waits for pending submissions, cancelled or not.
    fn abandon(&mut self) -> Result<(), DeviceError> {
        self.batch = PendingBatch::default();
        self.drain()
    }

    fn drain(&mut self) -> Result<(), DeviceError> {
        while !self.in_flight.is_empty() {
            self.wait()?;
        }
        Ok(())
    }

    /// Waits a moment, then removes finished submissions.
    fn wait(&mut self) -> Result<(), DeviceError> {
        let start = Instant::now();
        self.gpu.turn(self.in_flight.front().map(|oldest| oldest.index.clone()))?;
        self.idle += start.elapsed().min(MAX_COUNTED_WAIT);
        self.reap()?;
        if self.idle > self.stall_limit {
            let text = format!("nothing was done for {} s", self.stall_limit.as_secs());
            return Err(self.gpu.lose(&text));
        }
        Ok(())
    }

    /// Removes finished submissions and learns from their time.
    fn reap(&mut self) -> Result<(), DeviceError> {
        self.gpu.check()?;
        let done = self.done.load(Ordering::Relaxed);
        let ended = self.in_flight.iter().take_while(|entry| entry.number <= done).count();
        let Some(first) = self.in_flight.front().filter(|_| ended > 0) else { return Ok(()) };
        let (now, start) = (Instant::now(), first.at.max(self.last_done));
        let mut work = Vec::new();
        for entry in self.in_flight.drain(..ended) {
            self.queued = self.queued.saturating_sub(entry.estimate);
            self.handle.advance(entry.steps);
            work.extend(entry.work);
        }
        self.idle = Duration::ZERO;
        self.rates.learn(&work, now - start);
        self.last_done = now;
        Ok(())
    }
}
