//! Tables of the devices of this host.

pub mod devices;
pub mod hardware;
pub mod status;
pub mod units;
