//! The records of a validator: SQLite in its state directory, or PostgreSQL for a fleet.

#![forbid(unsafe_code)]
