//! The envelopes: everything that a miner or a validator sends.

use super::error::WireError;
use super::handshake::{read_goodbye, read_refused, write_goodbye, write_refused};
use super::limits::{MAX_PING_INTERVAL_MS, MIN_PING_INTERVAL_MS};
use super::openings::{read_open, write_open};
use super::v1::session_request::Message as Request;
use super::v1::session_response::Message as Response;
use super::work::{read_probe, read_progress, write_probe, write_progress};
use super::{field, v1};
use crate::message::{MinerMessage, ValidatorMessage};

impl TryFrom<v1::SessionRequest> for MinerMessage {
    type Error = WireError;

    fn try_from(request: v1::SessionRequest) -> Result<Self, WireError> {
        let v1::SessionRequest { message } = request;
        Ok(match field::required("SessionRequest.message", message)? {
            Request::Hello(hello) => Self::Hello(hello.try_into()?),
            Request::Proof(v1::Proof { signature }) => Self::Proof(field::fixed("Proof.signature", &signature)?),
            Request::Inventory(inventory) => Self::Inventory(inventory.try_into()?),
            Request::Pong(v1::Pong { sequence }) => Self::Pong(sequence),
            Request::Declined(declined) => Self::Declined(declined.try_into()?),
            Request::Progress(progress) => {
                let (challenge_id, done_slots, all_slots) = read_progress(progress)?;
                Self::Progress { challenge_id, done_slots, all_slots }
            }
            Request::Commitment(commitment) => Self::Commitment(commitment.try_into()?),
            Request::DeviceRoots(roots) => Self::DeviceRoots(roots.try_into()?),
            Request::ProbeAnswer(answer) => Self::ProbeAnswer(answer.try_into()?),
            Request::DeviceDigests(digests) => Self::DeviceDigests(digests.try_into()?),
            Request::OpeningsChunk(chunk) => Self::OpeningsChunk(chunk.try_into()?),
            Request::Abort(abort) => Self::Abort(abort.try_into()?),
            Request::Goodbye(goodbye) => {
                let (code, detail) = read_goodbye(goodbye)?;
                Self::Goodbye(code, detail)
            }
        })
    }
}

impl From<MinerMessage> for v1::SessionRequest {
    fn from(message: MinerMessage) -> Self {
        let message = match message {
            MinerMessage::Hello(hello) => Request::Hello(hello.into()),
            MinerMessage::Proof(signature) => Request::Proof(v1::Proof { signature: signature.0.to_vec() }),
            MinerMessage::Inventory(inventory) => Request::Inventory(inventory.into()),
            MinerMessage::Pong(sequence) => Request::Pong(v1::Pong { sequence }),
            MinerMessage::Declined(stop) => Request::Declined(stop.into()),
            MinerMessage::Progress { challenge_id, done_slots, all_slots } => {
                Request::Progress(write_progress(challenge_id, done_slots, all_slots))
            }
            MinerMessage::Commitment(commitment) => Request::Commitment(commitment.into()),
            MinerMessage::DeviceRoots(roots) => Request::DeviceRoots(roots.into()),
            MinerMessage::ProbeAnswer(answer) => Request::ProbeAnswer(answer.into()),
            MinerMessage::DeviceDigests(digests) => Request::DeviceDigests(digests.into()),
            MinerMessage::OpeningsChunk(chunk) => Request::OpeningsChunk(chunk.into()),
            MinerMessage::Abort(stop) => Request::Abort(stop.into()),
            MinerMessage::Goodbye(code, detail) => Request::Goodbye(write_goodbye(code, &detail)),
        };
        Self { message: Some(message) }
    }
}

impl TryFrom<v1::SessionResponse> for ValidatorMessage {
    type Error = WireError;

    fn try_from(response: v1::SessionResponse) -> Result<Self, WireError> {
        let v1::SessionResponse { message } = response;
        Ok(match field::required("SessionResponse.message", message)? {
            Response::Welcome(welcome) => Self::Welcome(welcome.try_into()?),
            Response::Accepted(v1::Accepted { ping_interval_ms: ms }) => Self::Accepted(field::duration(
                "Accepted.ping_interval_ms",
                MIN_PING_INTERVAL_MS,
                MAX_PING_INTERVAL_MS,
                ms.into(),
            )?),
            Response::Refused(refused) => {
                let (code, detail) = read_refused(refused)?;
                Self::Refused(code, detail)
            }
            Response::Ping(v1::Ping { sequence }) => Self::Ping(sequence),
            Response::Challenge(challenge) => Self::Challenge(challenge.try_into()?),
            Response::Probe(probe) => {
                let (challenge_id, probe, deadline) = read_probe(probe)?;
                Self::Probe { challenge_id, probe, deadline }
            }
            Response::Open(open) => {
                let (challenge_id, items, deadline) = read_open(open)?;
                Self::Open { challenge_id, items, deadline }
            }
            Response::Verdict(verdict) => Self::Verdict(Box::new(verdict.try_into()?)),
            Response::Abort(abort) => Self::Abort(abort.try_into()?),
            Response::Goodbye(goodbye) => {
                let (code, detail) = read_goodbye(goodbye)?;
                Self::Goodbye(code, detail)
            }
        })
    }
}

impl From<ValidatorMessage> for v1::SessionResponse {
    fn from(message: ValidatorMessage) -> Self {
        let message = match message {
            ValidatorMessage::Welcome(welcome) => Response::Welcome(welcome.into()),
            ValidatorMessage::Accepted(ping_interval) => Response::Accepted(v1::Accepted {
                ping_interval_ms: field::milliseconds_u32(ping_interval, MIN_PING_INTERVAL_MS, MAX_PING_INTERVAL_MS),
            }),
            ValidatorMessage::Refused(code, detail) => Response::Refused(write_refused(code, &detail)),
            ValidatorMessage::Ping(sequence) => Response::Ping(v1::Ping { sequence }),
            ValidatorMessage::Challenge(offer) => Response::Challenge(offer.into()),
            ValidatorMessage::Probe { challenge_id, probe, deadline } => {
                Response::Probe(write_probe(challenge_id, &probe, deadline))
            }
            ValidatorMessage::Open { challenge_id, items, deadline } => {
                Response::Open(write_open(challenge_id, items, deadline))
            }
            ValidatorMessage::Verdict(verdict) => Response::Verdict((*verdict).into()),
            ValidatorMessage::Abort(stop) => Response::Abort(stop.into()),
            ValidatorMessage::Goodbye(code, detail) => Response::Goodbye(write_goodbye(code, &detail)),
        };
        Self { message: Some(message) }
    }
}
