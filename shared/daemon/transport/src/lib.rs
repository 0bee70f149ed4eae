//! How a miner and a validator reach each other: addresses with keys, TLS 1.3 and whom it trusts, proxies, and a
//! program's own key.
//!
//! The validator's certificate is made from its own Ed25519 key, so that a miner that knows the key needs no authority.
//! Certificates of an authority work too. In both cases the session's signatures cover the connection's `tls-exporter`
//! ([`assay_protocol::channel`]): a proxy that ends TLS between the two has no session.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod client;
pub mod dial;
pub mod failure;
pub mod http;
pub mod known;
pub mod liveness;
pub mod origin;
pub mod own_key;
pub mod proxy;
pub mod server;
pub mod target;
pub mod trust;

mod provider;
#[cfg(test)]
mod tests;
