//! The envelopes: everything that a miner or a validator sends.

use super::field::{BoxedInDomain, RequiredMessage};
use super::v1::session_request::Message as Request;
use super::v1::session_response::Message as Response;
use crate::message::{MinerMessage, ValidatorMessage};

messages! {
    v1::SessionRequest = (MinerMessage) { message: RequiredMessage }
    v1::SessionResponse = (ValidatorMessage) { message: RequiredMessage }
}

oneof! {
    Request = MinerMessage {
        Hello(hello),
        Proof(signature, join_token),
        Inventory(inventory),
        Pong(sequence),
        Declined(stop),
        Progress { challenge_id, done_slots, all_slots, finished },
        Commitment(commitment),
        DeviceRoots(roots),
        ProbeAnswer(answer),
        DeviceDigests(digests),
        OpeningsChunk(chunk),
        Abort(stop),
        Goodbye(code, detail),
    }
}

oneof! {
    Response = ValidatorMessage {
        Welcome(welcome),
        Accepted(ping_interval),
        Refused { code, detail, retry_after },
        Ping(sequence),
        Challenge(offer),
        Probe { challenge_id, probe, deadline },
        Sweep { challenge_id, sweep, deadline },
        Open { challenge_id, items, deadline },
        Verdict(verdict): BoxedInDomain,
        Goodbye(code, detail),
    }
}
