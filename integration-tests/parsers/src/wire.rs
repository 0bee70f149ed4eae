//! Messages of a session, in both directions.

use assay_protocol::message::{MinerMessage, ValidatorMessage};
use assay_protocol::successor::{Lineage, MAX_SUCCESSORS};
use assay_protocol::wire::limits::MAX_MESSAGE_BYTES;
use assay_protocol::wire::stored::{miner_bytes, miner_message, validator_bytes, validator_message};
use assay_work::{Precision, PublicKey};

use crate::honest;

/// A validator reads a miner's message: one that passes every check is read again as it is written.
pub fn miner_messages(data: &[u8]) {
    let Ok(message) = miner_message(data) else { return };
    if let MinerMessage::Hello(hello) = &message {
        let lineage = Lineage::verify(hello.miner_key, &hello.successors);
        assert!(lineage.standing(|_| true).len() <= MAX_SUCCESSORS);
    }
    let bytes = miner_bytes(message.clone());
    assert!(bytes.len() <= MAX_MESSAGE_BYTES);
    assert_eq!(miner_message(&bytes).as_ref(), Ok(&message));
}

/// A miner reads a validator's message, and plans the challenge of an offer.
pub fn validator_messages(data: &[u8]) {
    let Ok(message) = validator_message(data) else { return };
    if let ValidatorMessage::Challenge(offer) = &message {
        for precision in Precision::ALL {
            let planned = offer.plan(&honest::inventory(precision), PublicKey([4; 32]), PublicKey([5; 32]));
            let slots = planned.map(|planned| planned.shares().iter().map(|share| share.count).sum::<u32>());
            assert!(slots.is_err() || slots == Ok(offer.total));
        }
    }
    let bytes = validator_bytes(message.clone());
    assert!(bytes.len() <= MAX_MESSAGE_BYTES);
    assert_eq!(validator_message(&bytes).as_ref(), Ok(&message));
}
