//! The documents of a validator's HTTP API: what programs, the commands and the pages exchange with it. Types alone; the
//! validator serves them.

#![forbid(unsafe_code)]
