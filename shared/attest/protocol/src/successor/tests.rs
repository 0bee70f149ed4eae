use super::*;
use crate::identity::Identity;
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000;
const DAY: u64 = 86_400;

fn predecessors(to: &PublicKey, statements: &[Successor], stands: impl Fn(&Successor) -> bool) -> Vec<Successor> {
    Lineage::verify(*to, statements).standing(stands)
}

fn identity(seed: u8) -> Identity {
    Identity::from_seed(&[seed; 32])
}

fn key(seed: u8) -> PublicKey {
    identity(seed).public_key()
}

fn statement(old: u8, new: u8, until: u64) -> Successor {
    identity(old).succeed(key(new), until)
}

/// Keys 1 to `last`, each followed by the next.
fn chain(last: u8) -> Vec<Successor> {
    (1..last).map(|old| statement(old, old + 1, NOW + DAY)).collect()
}

/// The vector of docs/PROTOCOL.md.
#[test]
fn the_bytes_are_those_of_the_protocol() {
    let made = statement(1, 2, NOW);
    let text = format!("{}{}{}{}", key(1), key(2), hex::encode(NOW.to_le_bytes()), made.signature);
    assert_eq!((made.to_hex(), made.to_hex().len()), (text, 2 * SUCCESSOR_BYTES));
    let mut signed = b"assay v1 succeed".to_vec();
    signed.extend_from_slice(&made.encode()[..72]);
    assert_eq!(signed.len(), 88);
    assert!(verify(&key(1), &signed, &made.signature));
}

#[test]
fn a_key_is_followed_until_the_statement_ends() {
    let made = [statement(1, 2, NOW)];
    assert!(follow(&key(1), &key(2), &made, NOW - 1));
    assert!(!follow(&key(1), &key(2), &made, NOW), "the end is no part of the overlap");
    assert!(!follow(&key(2), &key(1), &made, NOW - 1), "never backwards");
    assert!(!follow(&key(3), &key(2), &made, NOW - 1));
    assert!(!follow(&key(1), &key(2), &[], NOW - 1));
    assert!(follow(&key(1), &key(1), &[], u64::MAX), "a key is itself");
}

#[test]
fn an_overlap_has_an_end() {
    let made = [statement(1, 2, NOW + MAX_OVERLAP_S + DAY)];
    assert!(follow(&key(1), &key(2), &made, NOW));
    assert!(!follow(&key(1), &key(2), &made, NOW - 1));
    assert!(!follow(&key(1), &key(2), &[statement(1, 2, u64::MAX)], NOW));
}

#[test]
fn a_chain_has_at_most_eight_statements_in_any_order() {
    let mut longest = chain(9);
    longest.reverse();
    assert_eq!(longest.len(), MAX_SUCCESSORS);
    assert!(follow(&key(1), &key(9), &longest, NOW));
    assert_eq!(predecessors(&key(9), &longest, |_| true).len(), 8);
    assert!(!follow(&key(1), &key(10), &chain(10), NOW));
    assert!(!follow(&key(9), &key(10), &chain(10), NOW), "more than eight are not looked at");
    for missing in 0..8 {
        let mut broken = longest.clone();
        broken.remove(missing);
        assert!(!follow(&key(1), &key(9), &broken, NOW));
    }
    let mut expired = longest.clone();
    expired[3] = statement(5, 6, NOW);
    assert!(!follow(&key(1), &key(9), &expired, NOW) && follow(&key(6), &key(9), &expired, NOW));
}

#[test]
fn only_the_old_key_vouches() {
    let vouched_by = |signer: u8| {
        let mut forged = statement(signer, 2, NOW + DAY);
        forged.old_key = key(1);
        forged
    };
    assert!(!follow(&key(1), &key(2), &[vouched_by(2)], NOW), "the new key itself does not");
    assert!(!follow(&key(1), &key(2), &[vouched_by(3)], NOW));
    assert!(follow(&key(1), &key(2), &[vouched_by(3), vouched_by(1)], NOW), "a forged one hides no good one");
    // The neutral point as key: under the lax rule it signs anything.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let mut signature = [0; 64];
    signature[0] = 1;
    let neutral = PublicKey(neutral);
    let free =
        Successor { old_key: neutral, new_key: key(2), until_unix_seconds: NOW + DAY, signature: Signature(signature) };
    assert!(!follow(&neutral, &key(2), &[free], NOW));
}

#[test]
fn circles_and_forks_end() {
    let circle = [statement(1, 2, NOW + DAY), statement(2, 3, NOW + DAY), statement(3, 1, NOW + DAY)];
    for (from, to) in [(1, 2), (1, 3), (2, 3), (2, 1), (3, 2)] {
        assert!(follow(&key(from), &key(to), &circle, NOW));
    }
    assert!(!follow(&key(4), &key(3), &circle, NOW));
    assert_eq!(predecessors(&key(3), &circle, |_| true).len(), 2);
    assert!(!statement(1, 1, NOW + DAY).is_signed(), "no key follows itself");
    let fork = [statement(1, 3, NOW + DAY), statement(2, 3, NOW + DAY), statement(1, 2, NOW + DAY)];
    let old: Vec<_> = predecessors(&key(3), &fork, |_| true).iter().map(|s| s.old_key).collect();
    assert_eq!(old, [key(1), key(2)], "nearest first, each once");
}

#[test]
fn what_does_not_stand_leads_nowhere() {
    let found = predecessors(&key(4), &chain(4), |s| s.old_key != key(2));
    assert_eq!(found.iter().map(|s| s.old_key).collect::<Vec<_>>(), [key(3)], "nothing behind it is reached");
}

#[test]
fn a_chain_ends_with_the_first_statement_that_ends() {
    let statements = [statement(1, 2, NOW + 30), statement(2, 3, NOW + 10), statement(3, 4, NOW + 20)];
    let lineage = Lineage::verify(key(4), &statements);
    let until = |from: u8| lineage.until(&key(from), |_| true);
    assert_eq!([until(1), until(2), until(3), until(4)], [Some(NOW + 10), Some(NOW + 10), Some(NOW + 20), None]);
    assert_eq!(lineage.until(&key(1), |s| s.is_current(NOW + 10)), None);
    assert_eq!(lineage.until(&key(3), |s| s.is_current(NOW + 10)), Some(NOW + 20));
    assert_eq!(Lineage::alone(key(4)).until(&key(3), |_| true), None);
}

/// An expired statement does not hide a later one for the same two keys.
#[test]
fn of_several_statements_the_one_that_stands_longest_counts() {
    let mut statements = vec![statement(1, 2, NOW), statement(1, 2, NOW + 10), statement(1, 2, NOW + 30)];
    for _ in 0..3 {
        statements.rotate_left(1);
        let lineage = Lineage::verify(key(2), &statements);
        assert_eq!(lineage.until(&key(1), |s| s.is_current(NOW)), Some(NOW + 30));
        assert_eq!(lineage.until(&key(1), |s| s.until_unix_seconds <= NOW + 10), Some(NOW + 10));
        assert!(follow(&key(1), &key(2), &statements, NOW));
    }
}

#[test]
fn lists_of_bytes_are_bounded() {
    let all = chain(9);
    assert_eq!(decode_all(&encode_all(&all)), Ok(all));
    assert_eq!(decode_all(&[]), Ok(Vec::new()));
    assert_eq!(decode_all(&encode_all(&chain(10))), Err(SuccessorError::TooMany(9)));
    assert_eq!(decode_all(&[0; 135]), Err(SuccessorError::Length(135)));
    assert_eq!(Successor::decode(&[0; 137]), Err(SuccessorError::Length(137)));
    let hex = statement(1, 2, NOW).to_hex();
    assert_eq!(Successor::from_hex(&hex), Ok(statement(1, 2, NOW)));
    for wrong in [hex.to_uppercase(), hex[1..].to_owned(), format!("{hex}00"), String::new(), "g".repeat(272)] {
        assert_eq!(Successor::from_hex(&wrong), Err(SuccessorError::Hex), "{wrong}");
    }
}

proptest! {
    #[test]
    fn every_statement_comes_back(old: [u8; 32], new: [u8; 32], until: u64, signature: [u8; 64]) {
        let one = Successor {
            old_key: PublicKey(old), new_key: PublicKey(new), until_unix_seconds: until, signature: Signature(signature),
        };
        prop_assert_eq!(Successor::decode(&one.encode()), Ok(one));
        prop_assert_eq!(Successor::from_hex(&one.to_hex()), Ok(one));
    }

    /// One changed bit anywhere, and it vouches for nothing.
    #[test]
    fn a_changed_bit_is_seen(bit in 0..8 * SUCCESSOR_BYTES) {
        let mut bytes = statement(1, 2, NOW + DAY).encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let changed = Successor::decode(&bytes).unwrap();
        prop_assert!(!changed.is_signed());
        prop_assert!(!follow(&key(1), &key(2), &[changed], NOW));
        prop_assert!(!follow(&changed.old_key, &changed.new_key, &[changed], NOW));
    }

    /// Random statements among six keys, some expired or forged: the followed keys are those that a search finds.
    #[test]
    fn what_is_followed_is_reachable(
        edges in prop::collection::vec((1..7_u8, 1..7_u8, any::<bool>(), any::<bool>()), 0..=8), from in 1..7_u8, to in 1..7_u8,
    ) {
        let statements: Vec<_> = edges.iter().map(|&(old, new, is_expired, is_forged)| {
            let mut made = statement(old, new, if is_expired { NOW } else { NOW + DAY });
            made.signature.0[40] ^= u8::from(is_forged);
            made
        }).collect();
        let mut reached = vec![from];
        for _ in 0..8 {
            for &(old, new, is_expired, is_forged) in &edges {
                if reached.contains(&old) && !is_expired && !is_forged {
                    reached.push(new);
                }
            }
        }
        prop_assert_eq!(follow(&key(from), &key(to), &statements, NOW), reached.contains(&to));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..1500)) {
        match decode_all(&bytes) {
            Ok(read) => prop_assert_eq!(encode_all(&read), bytes),
            Err(_) => prop_assert!(!bytes.len().is_multiple_of(SUCCESSOR_BYTES) || bytes.len() > 8 * SUCCESSOR_BYTES),
        }
    }
}
