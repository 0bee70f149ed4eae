//! Streams, which run enqueued work in order, and events, which mark its progress.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{self, CUevent, CUevent_flags, CUresult, CUstream, CUstream_flags};

use super::{Context, call};
use crate::error::Fault;

/// Whose blocks the device starts first when two streams have blocks to start. Running blocks are not interrupted. On a
/// device without priorities both are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Priority {
    High,
    Low,
}

/// A queue of the device.
#[derive(Debug)]
pub(in super::super) struct Stream {
    context: Arc<Context>,
    raw: CUstream,
}

// SAFETY: the handle may be used from any thread that has bound the context.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream that waits for no other one. The context is bound.
    pub(in super::super) fn new(context: &Arc<Context>, priority: Priority) -> Result<Self, Fault> {
        let (mut lowest, mut highest) = (0, 0);
        // SAFETY: the caller has bound the context; both pointers are to locals.
        let result = unsafe { sys::cuCtxGetStreamPriorityRange(&raw mut lowest, &raw mut highest) };
        context.check(call(result, "asking for the priorities of streams"))?;
        let number = match priority {
            Priority::High => highest,
            Priority::Low => lowest,
        };
        let mut raw = std::ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the caller has bound the context.
        let result = unsafe { sys::cuStreamCreateWithPriority(&raw mut raw, flags, number) };
        context.check(call(result, "making a stream"))?;
        Ok(Self { context: context.clone(), raw })
    }

    pub(super) const fn raw(&self) -> CUstream {
        self.raw
    }

    /// The driver's handle, for libraries that enqueue on it.
    #[cfg(feature = "bench")]
    pub(in super::super) fn handle(&self) -> *mut std::ffi::c_void {
        self.raw.cast()
    }

    pub(in super::super) fn context(&self) -> &Context {
        &self.context
    }

    /// Enqueues a wait for the work before the last record of `event`.
    pub(in super::super) fn wait_for(&self, event: &CudaEvent) -> Result<(), Fault> {
        // SAFETY: both are of one context, which is bound.
        let result = unsafe { sys::cuStreamWaitEvent(self.raw, event.raw, 0) };
        self.context.check(call(result, "making one stream wait for the other"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.context.is_lost() && self.context.bind().is_ok() {
            // SAFETY: made once; the driver lets the enqueued work end.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}

/// A mark in a stream.
#[derive(Debug)]
pub(in super::super) struct CudaEvent {
    context: Arc<Context>,
    raw: CUevent,
}

// SAFETY: the handle may be used from any thread that has bound the context.
unsafe impl Send for CudaEvent {}

impl CudaEvent {
    /// An event that keeps its time. The context is bound.
    pub(in super::super) fn new(context: &Arc<Context>) -> Result<Self, Fault> {
        let mut raw = std::ptr::null_mut();
        let flags = CUevent_flags::CU_EVENT_DEFAULT as u32;
        // SAFETY: the caller has bound the context.
        context.check(call(unsafe { sys::cuEventCreate(&raw mut raw, flags) }, "making an event"))?;
        Ok(Self { context: context.clone(), raw })
    }

    /// Marks the end of the work enqueued on the stream so far. Any failure loses the context: nothing else would wait
    /// for that work.
    pub(in super::super) fn record(&self, stream: &Stream) -> Result<(), Fault> {
        // SAFETY: both are of one context, which is bound.
        let result = unsafe { sys::cuEventRecord(self.raw, stream.raw()) };
        call(result, "recording an event").inspect_err(|_| self.context.lose())
    }

    /// Whether the marked work is done. A failure of work enqueued before shows here, and loses the context; `doing`
    /// names the awaited work.
    pub(in super::super) fn is_done(&self, doing: impl FnOnce() -> String) -> Result<bool, Fault> {
        // SAFETY: the event exists, its context is bound.
        match unsafe { sys::cuEventQuery(self.raw) } {
            CUresult::CUDA_SUCCESS => Ok(true),
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => call(other, &doing()).map(|()| false).inspect_err(|_| self.context.lose()),
        }
    }

    /// The time between two events that are done.
    pub(in super::super) fn since(&self, earlier: &Self) -> Result<Duration, Fault> {
        let mut ms = 0.0_f32;
        // SAFETY: both events were recorded; the function's type is checked where it is found.
        let code = unsafe { (self.context.library().elapsed)(&raw mut ms, earlier.raw, self.raw) };
        if code != 0 {
            let doing = "asking for the time between two events".to_owned();
            return self.context.check(Err(Fault { code, name: "an error".into(), doing }));
        }
        // A clock that answers nonsense only costs a poor estimate.
        Ok(Duration::try_from_secs_f32(ms / 1000.0).unwrap_or_default())
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if !self.context.is_lost() && self.context.bind().is_ok() {
            // SAFETY: made once.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}
