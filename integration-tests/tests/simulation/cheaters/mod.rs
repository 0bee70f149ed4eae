//! A dishonest miner against a validator: one lie for each test, and the one reason it must be caught for.

mod commitment;
mod evasive;
mod linked;
mod openings;
mod probe;
mod stage;
mod sweep;
mod work;
