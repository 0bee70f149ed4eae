//! A dishonest miner against a real validator: one lie for each test, and the one reason it must be caught for.

mod commitment;
mod evasive;
mod linked;
mod openings;
mod probe;
mod work;
