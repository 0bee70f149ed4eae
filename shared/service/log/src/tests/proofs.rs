//! Properties of proofs, and proofs of receipts.

use proptest::prelude::*;

use super::{entry, identity, key, log, source};
use crate::error::LogError;
use crate::hash::Hash;
use crate::proof::{consistency, includes, inclusion, is_consistent};
use crate::receipt_proof::ReceiptProof;
use crate::tree::TreeReader;

fn leaves(size: u64) -> Vec<Hash> {
    (0..size).map(|number| Hash::leaf(&number.to_be_bytes())).collect()
}

fn hashes(leaves: &[Hash], subtrees: Vec<(u64, u64)>) -> Vec<Hash> {
    subtrees.iter().map(|(low, high)| Hash::above(&leaves[*low as usize..*high as usize])).collect()
}

/// A size, two numbers below it, and a change of a proof.
fn cases() -> impl Strategy<Value = (u64, u64, u64, usize, u8)> {
    (1_u64..700).prop_flat_map(|size| (Just(size), 0..size, 0..=size, any::<usize>(), any::<u8>()))
}

/// The proof with a hash changed, left out, added or two swapped; `None` where that gives the same.
fn altered(proof: &[Hash], at: usize, how: u8) -> Option<Vec<Hash>> {
    let mut other = proof.to_vec();
    match how % 4 {
        0 if !proof.is_empty() => other[at % proof.len()].0[at % 32] ^= 1 << (how / 4 % 8),
        1 if !proof.is_empty() => drop(other.remove(at % proof.len())),
        2 => other.insert(at % (proof.len() + 1), Hash([how; 32])),
        _ if proof.len() > 1 => other.swap(at % (proof.len() - 1), proof.len() - 1),
        _ => {}
    }
    (other != proof).then_some(other)
}

proptest! {
    #[test]
    fn an_inclusion_proof_holds_for_its_entry_alone((size, index, other, at, how) in cases()) {
        let leaves = leaves(size);
        let (leaf, root, proof) = (leaves[index as usize], Hash::above(&leaves), hashes(&leaves, inclusion(index, size)));
        prop_assert!(includes(leaf, index, size, &proof, &root));
        if let Some(other) = altered(&proof, at, how) {
            prop_assert!(!includes(leaf, index, size, &other, &root));
        }
        prop_assert!(other == index || !includes(leaf, other, size, &proof, &root));
        prop_assert!(!includes(Hash([how; 32]), index, size, &proof, &root));
        prop_assert!(!includes(leaf, index, size, &proof, &Hash([how; 32])));
    }

    #[test]
    fn a_consistency_proof_holds_for_its_trees_alone((size, _, old, at, how) in cases()) {
        let leaves = leaves(size);
        let (root, old_root) = (Hash::above(&leaves), Hash::above(&leaves[..old as usize]));
        let proof = if old == 0 || old == size { Vec::new() } else { hashes(&leaves, consistency(old, size)) };
        prop_assert!(is_consistent((old, &old_root), (size, &root), &proof));
        if let Some(other) = altered(&proof, at, how) {
            prop_assert!(!is_consistent((old, &old_root), (size, &root), &other));
        }
        prop_assert!(!is_consistent((old, &Hash([how; 32])), (size, &root), &proof));
        prop_assert!(old == 0 || !is_consistent((old, &old_root), (size, &Hash([how; 32])), &proof));
        prop_assert!(old == size || !is_consistent((size, &root), (old, &old_root), &proof));
    }
}

#[tokio::test]
async fn a_receipt_is_proved_by_the_tiles_of_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(folder.path(), 700, 350);
    let (source, note) = (source(folder.path()), writer.checkpoint().note.clone());
    let mut tree = TreeReader::new(&source, 700);
    for index in [1, 2, 255, 256, 511, 512, 698, 698] {
        let (token, entry) = (format!("receipt {index}"), entry(index));
        assert_eq!(tree.leaf(index).await.unwrap(), entry.leaf());
        let proof = ReceiptProof { entry, index, hashes: tree.inclusion(index).await.unwrap(), note: note.clone() };
        let read: ReceiptProof = proof.to_string().parse().unwrap();
        assert_eq!(read, proof);
        let refused = |proof: &ReceiptProof, token: &str| {
            let checked = proof.check((entry.challenge, token), &key(), &[]);
            assert!(matches!(checked, Err(LogError::Inconsistent(_))), "{index}");
        };
        if index % 3 == 0 {
            refused(&proof, &token);
            continue;
        }
        let of = entry.challenge;
        assert_eq!(proof.check((of, &token), &key(), &[]).unwrap().checkpoint.size, 700);
        assert!(proof.check((super::entry(index + 1).challenge, &token), &key(), &[]).is_err(), "of another challenge");
        refused(&proof, "receipt 7");
        refused(&ReceiptProof { index: index + 1, ..proof.clone() }, &token);
        let other = super::VerdictEntry { verdict: [0; 32], ..entry };
        refused(&ReceiptProof { entry: other, ..proof.clone() }, &token);
        let stranger = crate::checkpoint::log_key(assay_protocol::identity::Identity::from_seed(&[9; 32]).public_key());
        assert!(proof.check((of, &token), &stranger, &[]).is_err());
        let witness = crate::witness::Witness::new(folder.path(), identity(), Vec::new());
        assert!(
            proof.check((of, &token), &key(), std::slice::from_ref(witness.key())).is_err(),
            "no witness cosigned it"
        );
    }
    let proof = ReceiptProof { entry: entry(1), index: 1, hashes: tree.inclusion(1).await.unwrap(), note };
    let text = proof.to_string();
    // Every byte counts: another proof, or none.
    for at in 0..text.len() {
        let mut other = text.as_bytes().to_vec();
        other[at] ^= 1;
        let holds = String::from_utf8(other).ok().and_then(|text| text.parse::<ReceiptProof>().ok());
        assert!(holds.is_none_or(|proof| proof.check((entry(1).challenge, "receipt 1"), &key(), &[]).is_err()), "{at}");
    }
    let many = text.replacen("\n\n", &format!("\n{}\n", format!("{}\n", Hash([0; 32])).repeat(64)), 1);
    assert!(many.parse::<ReceiptProof>().is_err());
}
