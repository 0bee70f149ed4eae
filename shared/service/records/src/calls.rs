//! How a simulation makes the calls of a store.

use std::fmt::Debug;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

/// A call under way, or a part of one.
pub type CallFuture<'a, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The order of calls, and their fate: a call that ends without its work was lost with its validator.
pub trait Calls: Debug + Send + Sync {
    /// Makes a call in its turn; whether its answer arrives. Without one the work is done or not.
    fn run<'a>(self: Arc<Self>, work: CallFuture<'a>) -> CallFuture<'a, bool>;

    /// Does the work of a task on which a call waits.
    fn run_for_others<'a>(self: Arc<Self>, work: CallFuture<'a>) -> CallFuture<'a>;
}

/// Makes a call; one that is lost does not return.
pub(crate) async fn make<T: Send, E: From<sqlx::Error> + Send>(
    calls: Arc<dyn Calls>,
    work: impl Future<Output = Result<T, E>> + Send,
) -> Result<T, E> {
    let mut answer = None;
    if !calls.run(Box::pin(async { answer = Some(work.await) })).await {
        return Err(sqlx::Error::Io(io::ErrorKind::ConnectionReset.into()).into());
    }
    match answer {
        Some(answer) => answer,
        None => std::future::pending().await,
    }
}
