//! The parts of the end-to-end tests: real daemons in folders of their own, over real sockets, and a dishonest miner
//! whose lies are switches.

pub mod attack;
pub mod audited;
pub mod authority;
pub mod daemon;
pub mod dialled;
pub mod document;
pub mod evidence;
pub mod faulty;
pub mod handmade;
pub mod http2;
#[cfg(target_os = "linux")]
pub mod load;
pub mod miner;
#[cfg(unix)]
pub mod postgres;
pub mod proxy;
pub mod raw;
pub mod relay;
#[cfg(unix)]
pub mod scrape;
pub mod stage;
pub mod standin;
pub mod standin_nvml;
#[cfg(target_os = "linux")]
pub mod tun;
pub mod validator;
pub mod vulkan;
pub mod web;

pub use assay_dishonest as dishonest;
