//! How a simulation makes the calls of a store.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

/// A call under way, or a part of one.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The order of calls, and their fate: a call that ends without its work was lost with its validator.
pub trait Calls: Debug + Send + Sync {
    /// Makes a call in its turn.
    fn run<'a>(self: Arc<Self>, work: CallFuture<'a>) -> CallFuture<'a>;

    /// Does the work of a task on which a call waits.
    fn run_for_others<'a>(self: Arc<Self>, work: CallFuture<'a>) -> CallFuture<'a>;
}

/// Makes a call; one that is lost does not return.
pub(crate) async fn make<T: Send>(calls: Arc<dyn Calls>, work: impl Future<Output = T> + Send) -> T {
    let mut answer = None;
    calls.run(Box::pin(async { answer = Some(work.await) })).await;
    match answer {
        Some(answer) => answer,
        None => std::future::pending().await,
    }
}
