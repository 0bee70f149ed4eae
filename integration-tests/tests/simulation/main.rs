//! Both sides in one thread, without a socket: clock, draws and lies come from seeds.

mod bounds;
mod cheaters;
mod fleet;
mod hiding;
mod miner_states;
mod recording;
mod sessions;
mod standing;
mod states;
mod table;
mod validator;
