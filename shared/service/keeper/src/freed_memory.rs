//! Returns memory freed by sessions to the system.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use assay_device::machine::return_freed_memory;

/// Delay after a request: a connection's memory is freed soon after its session.
const PAUSE: Duration = Duration::from_secs(1);

/// Pending requests. The allocator is shared by the whole process, and so by all sessions.
static WISHES: AtomicU64 = AtomicU64::new(0);

/// Requests the return of freed memory, after a second or more: once for all requests meanwhile.
pub fn return_freed_soon() {
    if WISHES.fetch_add(1, Ordering::Relaxed) == 0 {
        tokio::spawn(return_freed());
    }
}

/// Serves all requests, each at least [`PAUSE`] after it was made.
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
