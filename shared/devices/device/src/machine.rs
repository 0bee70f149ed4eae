//! Facts of the host: a stable name, its processor, its threads, the memory available now.
//!
//! The parts that depend on the operating system are in a module for each.

#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
mod macos;
#[cfg(all(unix, not(target_os = "macos")))]
#[allow(unsafe_code)]
mod proc;
#[cfg(windows)]
#[allow(unsafe_code)]
mod windows;

#[cfg(target_os = "macos")]
use macos as system;
#[cfg(all(unix, not(target_os = "macos")))]
use proc as system;
#[cfg(windows)]
use windows as system;

use assay_work::DeviceId;

/// Bytes that this process could still touch without making the host reclaim, swap or kill, as the system says it.
pub fn available_bytes() -> u64 {
    system::available_bytes()
}

/// The memory that this process may have at most: the machine's, or what a control group above it allows, if that is
/// less; 0 where the system does not say.
pub fn total_bytes() -> u64 {
    system::total_bytes()
}

/// Keeps the allocator from keeping more freed memory the larger the blocks are that it once gave, as glibc does: up to
/// 64 MiB in each of its arenas. To be called once, when the process starts.
pub fn limit_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    system::limit_freed_memory();
}

/// Gives memory that this process freed back to the system, where its allocator keeps it: glibc keeps free memory
/// between blocks in use.
pub fn return_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    system::return_freed_memory();
}

/// The processor's model, as a person reads it.
pub fn processor_name() -> String {
    system::processor_name().unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH))
}

/// Threads that run at once here, at least 1.
pub fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The id of a device whose hardware has none: from this host's name, the daemon's `seed`, and the `name` of the device
/// on this host.
pub fn derive_id(context: &str, seed: &[u8], name: &[u8]) -> DeviceId {
    let host = system::host_name().unwrap_or_default();
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for part in [host.as_bytes(), seed] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.update(name);
    let mut id = [0; DeviceId::LEN];
    hasher.finalize_xof().fill(&mut id);
    DeviceId(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_and_differ() {
        let id = |seed: &[u8], name: &[u8]| derive_id("assay v1 test device id", seed, name);
        assert_eq!(id(b"key", b"0"), id(b"key", b"0"));
        assert_ne!(id(b"key", b"0"), id(b"key", b"1"));
        assert_ne!(id(b"key", b"0"), id(b"other", b"0"));
        assert_ne!(id(b"key", b"0"), derive_id("assay v1 other device id", b"key", b"0"));
    }

    #[test]
    fn this_host_has_memory_and_threads() {
        assert!((1..=total_bytes()).contains(&available_bytes()) && parallelism() > 0 && !processor_name().is_empty());
    }
}
