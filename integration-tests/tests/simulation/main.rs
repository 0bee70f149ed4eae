//! Both sides in one thread, without a socket: clock, draws and lies come from seeds.

mod bounds;
mod sessions;
