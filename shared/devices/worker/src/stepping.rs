//! The way of linked walks' states to a worker: through memory that both processes have, else over the pipe.
//!
//! A step of a linked probe sends every state there and back. In shared memory only a request and its answer cross the
//! pipe. Without it (Windows, a full file system), the states go over the pipe too.

use super::link::{RequestError, RequestSteps, WorkerLink};
use super::message::{MAX_SENT_STATES, Reply, Request};
use super::states::{Name, SharedStates, StatesWay};
use assay_device::{DeviceError, Handle, LinkedShare, StateBytes};

impl WorkerLink {
    /// `Device::step_states` of the worker's device, of at most [`assay_device::MAX_STEPPED_STATES`].
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn step_states(&mut self, share: &LinkedShare, states: &mut [StateBytes]) -> Result<(), RequestError> {
        let mut way = match self.states_way.take() {
            Some(way) => way,
            None => self.share_states()?,
        };
        let stepped = match &mut way {
            StatesWay::Shared(memory) => self.step_shared(memory, share, states),
            StatesWay::Pipe => self.step_over_pipe(share, states),
        };
        self.states_way = Some(way);
        stepped
    }

    /// Makes memory for states, and has the worker open it.
    fn share_states(&mut self) -> Result<StatesWay, RequestError> {
        let over_pipe = |error: &dyn std::fmt::Display| {
            tracing::debug!(%error, "states of linked walks go over the pipe");
            Ok(StatesWay::Pipe)
        };
        let (memory, name): (_, Name) = match SharedStates::create() {
            Ok(created) => created,
            Err(error) => return over_pipe(&error),
        };
        let Some(path) = name.to_str() else { return over_pipe(&"its folder has a name that is not text") };
        match self.ask(Request::ShareStates(path.to_owned())) {
            Ok(Reply::Done) => Ok(StatesWay::Shared(memory)),
            Ok(_) => Err(self.malformed("an answer of another kind")),
            Err(RequestError::Device(error @ DeviceError::Unsupported(_))) => over_pipe(&error),
            Err(error) => Err(error),
        }
    }

    fn step_shared(
        &mut self,
        memory: &mut SharedStates,
        share: &LinkedShare,
        states: &mut [StateBytes],
    ) -> Result<(), RequestError> {
        memory.first(states.len()).copy_from_slice(states);
        // At most MAX_STEPPED_STATES: there is no room for more.
        let request = Request::StepShared { share: *share, states: states.len() as u32 };
        match self.ask(request)? {
            Reply::Done => states.copy_from_slice(memory.first(states.len())),
            _ => return Err(self.malformed("an answer of another kind")),
        }
        Ok(())
    }

    fn step_over_pipe(&mut self, share: &LinkedShare, states: &mut [StateBytes]) -> Result<(), RequestError> {
        for states in states.chunks_mut(MAX_SENT_STATES) {
            let sent = states.as_flattened().to_vec();
            let (bytes, request) = (sent.len() as u64, Request::StepStates { share: *share, states: sent });
            let stepped = self.ask_bytes(request, bytes, &Handle::default(), RequestSteps::none())?;
            // As many bytes as were sent came back.
            states.as_flattened_mut().copy_from_slice(&stepped);
        }
        Ok(())
    }
}
