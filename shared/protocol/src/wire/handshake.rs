//! How a session starts, and how it or a challenge stops.

use super::error::{Problem, WireError};
use super::limits::{MAX_AGENT_BYTES, MAX_DETAIL_BYTES, MAX_VERSIONS};
use super::{field, v1};
use crate::message::{Hello, RefusedCode, Stop, StopCode, Welcome};

impl TryFrom<v1::Hello> for Hello {
    type Error = WireError;

    fn try_from(hello: v1::Hello) -> Result<Self, WireError> {
        let v1::Hello { versions, miner_key, miner_nonce, agent, inventory } = hello;
        field::at_most("Hello.versions", MAX_VERSIONS, versions.len())?;
        Ok(Self {
            versions,
            miner_key: field::fixed("Hello.miner_key", &miner_key)?,
            miner_nonce: field::fixed("Hello.miner_nonce", &miner_nonce)?,
            agent: field::text("Hello.agent", MAX_AGENT_BYTES, agent)?,
            inventory: field::required("Hello.inventory", inventory)?.try_into()?,
        })
    }
}

impl From<Hello> for v1::Hello {
    fn from(hello: Hello) -> Self {
        let Hello { versions, miner_key, miner_nonce, agent, inventory } = hello;
        Self {
            versions,
            miner_key: miner_key.0.to_vec(),
            miner_nonce: miner_nonce.0.to_vec(),
            agent: field::printable(&agent, MAX_AGENT_BYTES),
            inventory: Some(inventory.into()),
        }
    }
}

impl TryFrom<v1::Welcome> for Welcome {
    type Error = WireError;

    fn try_from(welcome: v1::Welcome) -> Result<Self, WireError> {
        let v1::Welcome { version, validator_key, nonce, signature, agent } = welcome;
        Ok(Self {
            version,
            validator_key: field::fixed("Welcome.validator_key", &validator_key)?,
            nonce: field::fixed("Welcome.nonce", &nonce)?,
            signature: field::fixed("Welcome.signature", &signature)?,
            agent: field::text("Welcome.agent", MAX_AGENT_BYTES, agent)?,
        })
    }
}

impl From<Welcome> for v1::Welcome {
    fn from(welcome: Welcome) -> Self {
        let Welcome { version, validator_key, nonce, signature, agent } = welcome;
        Self {
            version,
            validator_key: validator_key.0.to_vec(),
            nonce: nonce.0.to_vec(),
            signature: signature.0.to_vec(),
            agent: field::printable(&agent, MAX_AGENT_BYTES),
        }
    }
}

pub(super) fn read_refused(refused: v1::Refused) -> Result<(RefusedCode, String), WireError> {
    let v1::Refused { code, detail } = refused;
    Ok((read_refused_code(code)?, field::text("Refused.detail", MAX_DETAIL_BYTES, detail)?))
}

pub(super) fn write_refused(code: RefusedCode, detail: &str) -> v1::Refused {
    v1::Refused { code: v1::RefusedCode::from(code).into(), detail: field::printable(detail, MAX_DETAIL_BYTES) }
}

pub(super) fn read_goodbye(goodbye: v1::Goodbye) -> Result<(StopCode, String), WireError> {
    let v1::Goodbye { code, detail } = goodbye;
    Ok((read_stop_code("Goodbye.code", code)?, field::text("Goodbye.detail", MAX_DETAIL_BYTES, detail)?))
}

pub(super) fn write_goodbye(code: StopCode, detail: &str) -> v1::Goodbye {
    v1::Goodbye { code: v1::StopCode::from(code).into(), detail: field::printable(detail, MAX_DETAIL_BYTES) }
}

impl TryFrom<v1::Declined> for Stop {
    type Error = WireError;

    fn try_from(declined: v1::Declined) -> Result<Self, WireError> {
        let v1::Declined { challenge_id, code, detail } = declined;
        Ok(Self {
            challenge_id: field::fixed("Declined.challenge_id", &challenge_id)?,
            code: read_stop_code("Declined.code", code)?,
            detail: field::text("Declined.detail", MAX_DETAIL_BYTES, detail)?,
        })
    }
}

impl From<Stop> for v1::Declined {
    fn from(stop: Stop) -> Self {
        let Stop { challenge_id, code, detail } = stop;
        Self {
            challenge_id: challenge_id.0.to_vec(),
            code: v1::StopCode::from(code).into(),
            detail: field::printable(&detail, MAX_DETAIL_BYTES),
        }
    }
}

impl TryFrom<v1::Abort> for Stop {
    type Error = WireError;

    fn try_from(abort: v1::Abort) -> Result<Self, WireError> {
        let v1::Abort { challenge_id, code, detail } = abort;
        Ok(Self {
            challenge_id: field::fixed("Abort.challenge_id", &challenge_id)?,
            code: read_stop_code("Abort.code", code)?,
            detail: field::text("Abort.detail", MAX_DETAIL_BYTES, detail)?,
        })
    }
}

impl From<Stop> for v1::Abort {
    fn from(stop: Stop) -> Self {
        let Stop { challenge_id, code, detail } = stop;
        Self {
            challenge_id: challenge_id.0.to_vec(),
            code: v1::StopCode::from(code).into(),
            detail: field::printable(&detail, MAX_DETAIL_BYTES),
        }
    }
}

fn read_refused_code(code: i32) -> Result<RefusedCode, WireError> {
    let unknown = WireError::new("Refused.code", Problem::UnknownCode(code));
    Ok(match v1::RefusedCode::try_from(code).map_err(|_| unknown.clone())? {
        v1::RefusedCode::Unspecified => return Err(unknown),
        v1::RefusedCode::Version => RefusedCode::Version,
        v1::RefusedCode::Signature => RefusedCode::Signature,
        v1::RefusedCode::NotAllowed => RefusedCode::NotAllowed,
        v1::RefusedCode::Full => RefusedCode::Full,
        v1::RefusedCode::Draining => RefusedCode::Draining,
        v1::RefusedCode::Malformed => RefusedCode::Malformed,
    })
}

impl From<RefusedCode> for v1::RefusedCode {
    fn from(code: RefusedCode) -> Self {
        match code {
            RefusedCode::Version => Self::Version,
            RefusedCode::Signature => Self::Signature,
            RefusedCode::NotAllowed => Self::NotAllowed,
            RefusedCode::Full => Self::Full,
            RefusedCode::Draining => Self::Draining,
            RefusedCode::Malformed => Self::Malformed,
        }
    }
}

fn read_stop_code(field: &'static str, code: i32) -> Result<StopCode, WireError> {
    let unknown = WireError::new(field, Problem::UnknownCode(code));
    Ok(match v1::StopCode::try_from(code).map_err(|_| unknown.clone())? {
        v1::StopCode::Unspecified => return Err(unknown),
        v1::StopCode::Busy => StopCode::Busy,
        v1::StopCode::Draining => StopCode::Draining,
        v1::StopCode::NotEnoughMemory => StopCode::NotEnoughMemory,
        v1::StopCode::DeviceLost => StopCode::DeviceLost,
        v1::StopCode::Invalid => StopCode::Invalid,
        v1::StopCode::StaleInventory => StopCode::StaleInventory,
        v1::StopCode::Unsupported => StopCode::Unsupported,
        v1::StopCode::Deadline => StopCode::Deadline,
        v1::StopCode::Internal => StopCode::Internal,
    })
}

impl From<StopCode> for v1::StopCode {
    fn from(code: StopCode) -> Self {
        match code {
            StopCode::Busy => Self::Busy,
            StopCode::Draining => Self::Draining,
            StopCode::NotEnoughMemory => Self::NotEnoughMemory,
            StopCode::DeviceLost => Self::DeviceLost,
            StopCode::Invalid => Self::Invalid,
            StopCode::StaleInventory => Self::StaleInventory,
            StopCode::Unsupported => Self::Unsupported,
            StopCode::Deadline => Self::Deadline,
            StopCode::Internal => Self::Internal,
        }
    }
}
