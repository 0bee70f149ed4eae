//! Gives the memory that sessions freed back to the system.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use assay_device::machine::return_freed_memory;

/// How long after a wish: what a session's connection holds is freed soon after the session.
const PAUSE: Duration = Duration::from_secs(1);

/// Wishes that are not met yet. The allocator is the whole process's, so that all sessions share them.
static WISHES: AtomicU64 = AtomicU64::new(0);

/// Gives freed memory back, a second from now or later: once for all who wish it meanwhile.
pub fn return_freed_soon() {
    if WISHES.fetch_add(1, Ordering::Relaxed) == 0 {
        tokio::spawn(return_freed());
    }
}

/// Meets all wishes, each at least [`PAUSE`] after it came up.
async fn return_freed() {
    loop {
        let wishes = WISHES.load(Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
        // It fails only when the runtime shuts down.
        let _ = tokio::task::spawn_blocking(return_freed_memory).await;
        if WISHES.fetch_sub(wishes, Ordering::Relaxed) == wishes {
            return;
        }
    }
}
