//! Work that blocks, beside the runtime.

use tokio::task::JoinHandle;

/// Does work that blocks on a thread of its own; in a simulation at once, since threads end in any order.
pub fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    #[cfg(feature = "testing")]
    if crate::clock::testing::database_ms().is_some() {
        let done = work();
        return tokio::spawn(std::future::ready(done));
    }
    tokio::task::spawn_blocking(work)
}
