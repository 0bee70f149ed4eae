//! Slots of devices that walk over one another's memory: each is in a worker of its own, and the program hands their memory
//! from one to the other.

use super::handles::Listener;
use super::link::{RequestError, WorkerLink, ask};
use super::message::{PeerShare, Reply, Request};
use assay_device::{DeviceError, PeerSlots, SharedSlots};

impl WorkerLink {
    /// `Device::share_slots` of the worker's device.
    pub fn share_slots(&mut self) -> Result<Option<SharedSlots>, RequestError> {
        if self.handles.is_none() && !self.connect_handles()? {
            return Ok(None);
        }
        let bytes = match self.ask(Request::ShareSlots)? {
            Reply::SharedSlots(Some(bytes)) => bytes,
            Reply::SharedSlots(None) => return Ok(None),
            _ => return Err(self.malformed("an answer of another kind")),
        };
        let received = self.handles.as_ref().map(|handles| handles.receive(1));
        match received {
            Some(Ok(mut handles)) => Ok(handles.pop().map(|handle| SharedSlots { bytes, handle })),
            Some(Err(error)) => Err(self.malformed(&format!("no handle of its memory: {error}"))),
            None => Ok(None),
        }
    }

    /// Makes the way of handles; whether there is one.
    fn connect_handles(&mut self) -> Result<bool, RequestError> {
        let without = |error: &dyn std::fmt::Display| {
            tracing::debug!(%error, "slots are shared with no other device");
            Ok(false)
        };
        let listener = match Listener::new() {
            Ok(listener) => listener,
            // On systems without handles of memory.
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => return without(&error),
            Err(error) => {
                tracing::warn!(%error, "no folder for a socket: states of linked probes go through this program");
                return Ok(false);
            }
        };
        let Some(path) = listener.path().to_str() else { return without(&"its folder has a name that is not text") };
        match self.ask(Request::ConnectHandles(path.to_owned())) {
            Ok(Reply::Done) => {}
            Ok(_) => return Err(self.malformed("an answer of another kind")),
            Err(RequestError::Device(error @ DeviceError::Unsupported(_))) => return without(&error),
            Err(error) => return Err(error),
        }
        match listener.accept() {
            Ok(handles) => {
                self.handles = Some(handles);
                Ok(true)
            }
            Err(error) => without(&error),
        }
    }

    /// `Device::map_peers` of the worker's device.
    pub fn map_peers(&mut self, peers: &[PeerSlots]) -> Result<bool, RequestError> {
        let Some(handles) = &self.handles else { return Ok(false) };
        let theirs: Vec<_> = peers.iter().filter_map(|peer| Some(&peer.slots.as_ref()?.handle)).collect();
        if let Err(error) = handles.send(&theirs) {
            tracing::debug!(%error, "other devices' slots are not mapped");
            // A part that was sent is void.
            self.handles = None;
            return Ok(false);
        }
        let of_peer = |peer: &PeerSlots| PeerShare { share: peer.share, bytes: peer.slots.as_ref().map(|s| s.bytes) };
        ask!(self, Request::MapPeers(peers.iter().map(of_peer).collect()), Reply::Mapped(reaches_all) => reaches_all)
    }

    /// `Device::unmap_peers` of the worker's device.
    pub fn unmap_peers(&mut self) -> Result<(), RequestError> {
        if self.handles.is_none() {
            return Ok(());
        }
        ask!(self, Request::UnmapPeers, Reply::Done => ())
    }
}
