//! What a validator asks of a fleet: its policy, the schedule, the attestation state, and what speed and identity show.

#![forbid(unsafe_code)]
