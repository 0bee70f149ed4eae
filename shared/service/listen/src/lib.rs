//! Connections of miners before they have a session: bounds on all that a peer can take, rates, TLS, and places for
//! strangers.

#![forbid(unsafe_code)]

pub mod bounds;
pub mod connection;
pub mod gate;
pub mod handshake;
pub mod intake;
pub mod lag;
pub mod peer;
pub mod rates;
pub mod refused;
pub mod tls;
pub mod traffic;
