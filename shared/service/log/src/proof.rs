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
    let (mut subtrees, _) = siblings(size, |(low, high)| high - low > 1, |middle| index < middle);
    subtrees.reverse();
    subtrees
}

/// The subtrees whose hashes prove that a tree of `old` entries, at least one, is the beginning of a tree of `size`.
pub fn consistency(old: u64, size: u64) -> Vec<Subtree> {
    let (mut subtrees, last) = siblings(size, |(_, high)| high > old, |middle| old <= middle);
    subtrees.extend(Some(last).filter(|(low, _)| *low > 0));
    subtrees.reverse();
    subtrees
}

/// The siblings on a way from the root down, and the subtree at which it ends.
fn siblings(size: u64, goes_on: impl Fn(Subtree) -> bool, goes_left: impl Fn(u64) -> bool) -> (Vec<Subtree>, Subtree) {
    let (mut siblings, (mut low, mut high)) = (Vec::new(), (0, size));
    while goes_on((low, high)) {
        // The left part has the largest power of two below the size.
        let middle = low + (high - low).next_power_of_two() / 2;
        if goes_left(middle) {
            siblings.push((middle, high));
            high = middle;
        } else {
            siblings.push((low, middle));
            low = middle;
        }
    }
    (siblings, (low, high))
}

/// Whether a proof binds the entry `index` to the root of a tree of `size`.
#[must_use]
pub fn includes(leaf: Hash, index: u64, size: u64, proof: &[Hash], root: &Hash) -> bool {
    index < size && climb((index, size - 1), leaf, proof).is_some_and(|(_, hash)| hash == *root)
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
    let (at, last) = (old - 1, size - 1);
    let shared = at.trailing_ones();
    let (at, last) = (at >> shared, last >> shared);
    // A complete old tree is a subtree of the new one.
    let begun = if at == 0 { Some((old_root, proof)) } else { proof.split_first() };
    begun.is_some_and(|(first, rest)| climb((at, last), *first, rest) == Some((*old_root, *root)))
}

/// The hashes at the root of the way up from a node, which is the `at`th of its level, the last one of which is `last`:
/// with the siblings on its left alone, and with all. `None` unless there are as many siblings as the way has.
fn climb((mut at, mut last): (u64, u64), node: Hash, siblings: &[Hash]) -> Option<(Hash, Hash)> {
    let (mut left, mut all) = (node, node);
    for sibling in siblings {
        if last == 0 {
            return None;
        }
        if at & 1 == 1 || at == last {
            (left, all) = (Hash::node(sibling, &left), Hash::node(sibling, &all));
            // Levels on which a node at the right edge has no sibling are passed over.
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            all = Hash::node(&all, sibling);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    (last == 0).then_some((left, all))
}
