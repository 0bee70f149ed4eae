//! Statements by which keys follow one another, and certificates that carry them.

use assay_protocol::successor::{Lineage, MAX_SUCCESSORS, Successor, decode_all, encode_all, follow};
use assay_transport::certificate::Facts;
use assay_work::PublicKey;

use crate::text;

/// Statements, as a certificate carries them and as a file has them.
pub fn successors(data: &[u8]) {
    if let Some(statement) = text(data).and_then(|text| Successor::from_hex(text).ok()) {
        assert_eq!(statement.to_hex().as_bytes(), data);
    }
    let Ok(statements) = decode_all(data) else { return };
    assert_eq!(encode_all(&statements), data);
    let keys = statements.iter().flat_map(|statement| [statement.old_key, statement.new_key]);
    let now = statements.iter().map(|statement| statement.until_unix_seconds.saturating_sub(1)).min().unwrap_or(0);
    for to in keys.chain([PublicKey([7; 32])]) {
        let lineage = Lineage::verify(to, &statements);
        let standing = lineage.standing(|statement| statement.is_current(now));
        assert!(standing.len() <= MAX_SUCCESSORS && standing.iter().all(Successor::is_signed));
        for from in standing.iter().map(|statement| statement.old_key).chain([PublicKey([8; 32])]) {
            let until = lineage.until(&from, |statement| statement.is_current(now));
            assert_eq!(follow(&from, &to, &statements, now), until.is_some() || from == to);
            assert!(until.is_none_or(|until| until > now));
        }
    }
}

/// A peer's certificate: each statement in it has the form of one.
pub fn certificate(data: &[u8]) {
    let Some(facts) = Facts::of(data) else { return };
    assert!(facts.successors.len() <= MAX_SUCCESSORS);
    assert_eq!(decode_all(&encode_all(&facts.successors)).as_ref(), Ok(&facts.successors));
    assert_eq!(Facts::of(data), Some(facts));
}
