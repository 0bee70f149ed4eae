//! Real daemons over TLS: whom a miner trusts, who may listen in, proxies, and machines that are not this one.
//! The programs must have been built: `cargo build --bins`.

mod authority;
mod connect;
mod namespace;
mod relay;
mod tls;
