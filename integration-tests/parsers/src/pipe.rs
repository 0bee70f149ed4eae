//! The pipe between a program and the worker of a device.

use assay_device::backend::BackendKind;
use assay_worker::frame;
use assay_worker::message::{FromWorker, ToWorker};

/// The program reads a worker: a message within its bounds is sent and read again unchanged.
pub fn worker_replies(mut data: &[u8]) {
    while let Ok(mut message) = frame::read::<FromWorker>(&mut data) {
        if message.check(BackendKind::Cpu).is_ok() {
            assert_eq!(carried(&message.clone().bounded()), message);
        }
    }
}

/// A worker reads the program.
pub fn worker_requests(mut data: &[u8]) {
    while let Ok(message) = frame::read::<ToWorker>(&mut data) {
        if message.check().is_ok() {
            assert_eq!(carried(&message), message);
        }
    }
}

fn carried<M: serde::Serialize + serde::de::DeserializeOwned>(message: &M) -> M {
    let mut pipe = Vec::new();
    frame::write(&mut pipe, message).expect("a message that was read fits into a frame");
    frame::read(&mut pipe.as_slice()).expect("a message that was written is read")
}
