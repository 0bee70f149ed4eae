//! The keys that bind work to a challenge (WORK.md, Keys), and the draws from them.

use super::bytes::{DeviceId, PassKey, Root, WorkKey};

/// The key of iteration `iteration` on a device, after a pass that ended in `previous_root`
/// ([`Root::BEFORE_FIRST`] for the first).
pub fn pass_key(work_key: &WorkKey, device_id: DeviceId, iteration: u32, previous_root: &Root) -> PassKey {
    let iteration = iteration.to_le_bytes();
    PassKey(derived("assay v1 pass key", &[work_key.as_ref(), device_id.as_ref(), &iteration, previous_root.as_ref()]))
}

/// A key of a context, from the bytes of these parts in their order.
pub(crate) fn derived(context: &str, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// The slots whose product is slot `u ≥ 2`: `(earlier, previous)`.
///
/// # Panics
/// When `u < 2`: leaves have no parents.
pub fn parents(key: &PassKey, u: u32) -> (u32, u32) {
    assert!(u >= 2, "leaves have no parents");
    let mut hasher = blake3::Hasher::new_keyed(key.as_bytes());
    hasher.update(b"parent");
    hasher.update(&u.to_le_bytes());
    let mut draw = [0; 8];
    draw.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    // The remainder is below u - 1, which is a u32.
    ((u64::from_le_bytes(draw) % u64::from(u - 1)) as u32, u - 1)
}
