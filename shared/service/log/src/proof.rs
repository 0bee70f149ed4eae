//! Merkle proofs: the subtrees that they consist of (RFC 6962, sections 2.1.1 and 2.1.2), and their verification
//! (RFC 9162, sections 2.1.3.2 and 2.1.4.2).

use crate::hash::Hash;

/// The largest tree: more verdicts than any validator gives, and no sum of its indices overflows.
pub const MAX_TREE_SIZE: u64 = 1 << 40;
/// The most hashes of a proof; C2SP `tlog-witness` allows 63.
pub const MAX_PROOF_HASHES: usize = 63;

/// The entries from the first to before the second.
pub type Subtree = (u64, u64);

/// The subtrees whose hashes prove that the entry `index` is in a tree of `size`, from the leaf's sibling up.
pub fn inclusion(index: u64, size: u64) -> Vec<Subtree> {
    let (mut subtrees, (mut low, mut high)) = (Vec::new(), (0, size));
    while high - low > 1 {
        let middle = low + left_size(high - low);
        if index < middle {
            subtrees.push((middle, high));
            high = middle;
        } else {
            subtrees.push((low, middle));
            low = middle;
        }
    }
    subtrees.reverse();
    subtrees
}

/// The subtrees whose hashes prove that a tree of `old` entries, at least one, is the beginning of a tree of `size`.
pub fn consistency(old: u64, size: u64) -> Vec<Subtree> {
    let (mut subtrees, (mut low, mut high)) = (Vec::new(), (0, size));
    while high > old {
        let middle = low + left_size(high - low);
        if old <= middle {
            subtrees.push((middle, high));
            high = middle;
        } else {
            subtrees.push((low, middle));
            low = middle;
        }
    }
    if low > 0 {
        subtrees.push((low, high));
    }
    subtrees.reverse();
    subtrees
}

/// The largest power of two below a size of at least 2.
const fn left_size(size: u64) -> u64 {
    size.next_power_of_two() / 2
}

/// Whether a proof binds the entry `index` to the root of a tree of `size`.
#[must_use]
pub fn includes(leaf: Hash, index: u64, size: u64, proof: &[Hash], root: &Hash) -> bool {
    if index >= size {
        return false;
    }
    let (mut at, mut last, mut hash) = (index, size - 1, leaf);
    for sibling in proof {
        if last == 0 {
            return false;
        }
        if at & 1 == 1 || at == last {
            hash = Hash::node(sibling, &hash);
            skip(&mut at, &mut last);
        } else {
            hash = Hash::node(&hash, sibling);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && hash == *root
}

/// Whether a proof shows that the tree of `old` entries is the beginning of the tree of `size`.
#[must_use]
pub fn is_consistent((old, old_root): (u64, &Hash), (size, root): (u64, &Hash), proof: &[Hash]) -> bool {
    if old == 0 || old == size {
        return proof.is_empty() && if old == size { old_root == root } else { *old_root == Hash::empty() };
    }
    if old > size {
        return false;
    }
    let (mut at, mut last) = (old - 1, size - 1);
    let shared = at.trailing_ones();
    (at, last) = (at >> shared, last >> shared);
    let mut rest = proof.iter();
    // A complete old tree is a subtree of the new one.
    let first = if at == 0 { Some(old_root) } else { rest.next() };
    let Some(first) = first else { return false };
    let (mut old_hash, mut hash) = (*first, *first);
    for sibling in rest {
        if last == 0 {
            return false;
        }
        if at & 1 == 1 || at == last {
            (old_hash, hash) = (Hash::node(sibling, &old_hash), Hash::node(sibling, &hash));
            skip(&mut at, &mut last);
        } else {
            hash = Hash::node(&hash, sibling);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && old_hash == *old_root && hash == *root
}

/// Passes over the levels on which a node at the right edge has no sibling.
const fn skip(at: &mut u64, last: &mut u64) {
    while *at & 1 == 0 && *at != 0 {
        *at >>= 1;
        *last >>= 1;
    }
}
