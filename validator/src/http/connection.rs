//! One connection: HTTP/1.1 or HTTP/2, for as long as it is used and read.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, Sleep, interval, sleep};
use tower::ServiceExt;

use super::origin::RequestOrigin;
use crate::bounds::{
    HTTP_HEADER_LIMIT, HTTP_IDLE_LIMIT, HTTP_RESPONSE_LIMIT, HTTP_WRITE_LIMIT, KEEPALIVE, KEEPALIVE_LIMIT,
    MAX_HTTP_HEADER_BYTES, MAX_HTTP_HEADERS, MAX_HTTP_STREAMS, MAX_RESET_STREAMS,
};

/// How often it is looked whether a connection is still used.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// What an answer without an end says of itself.
const EVENT_STREAM: &str = "text/event-stream";

/// Serves a connection until its client or `ending` ends it, or it is of no use any more.
pub async fn serve<S>(stream: S, origin: RequestOrigin, router: Router, mut ending: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Arc::new(Activity::new(Instant::now()));
    let is_bounded = !origin.is_socket();
    let handled = activity.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (under_way, router) = (handled.begin(Instant::now()), router.clone());
        request.extensions_mut().insert(origin.clone());
        async move {
            let Ok(response) = router.oneshot(request.map(Body::new)).await;
            Ok::<_, Infallible>(under_way.until_read(response))
        }
    });
    let builder = builder();
    let io = TokioIo::new(Unstalled::new(stream, HTTP_WRITE_LIMIT));
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut look = interval(LOOK_INTERVAL);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_ending = false;
    loop {
        tokio::select! {
            // Why a client ended it is the client's affair.
            _ = connection.as_mut() => return,
            _ = look.tick(), if is_bounded => if activity.is_over(Instant::now()) { return },
            _ = ending.wait_for(|ending| *ending), if !is_ending => {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP_HEADER_LIMIT.max(HTTP_IDLE_LIMIT))
        .max_buf_size(MAX_HTTP_HEADER_BYTES)
        .max_headers(MAX_HTTP_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_LIMIT)
        .max_concurrent_streams(MAX_HTTP_STREAMS)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_header_list_size(MAX_HTTP_HEADER_BYTES as u32);
    builder
}

/// What a connection is used for.
#[derive(Debug)]
struct Activity(Mutex<Use>);

#[derive(Debug)]
struct Use {
    /// When the last request ended, or the connection began.
    idle_since: Instant,
    /// Requests so far: their numbers.
    requests: u64,
    under_way: Vec<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    number: u64,
    since: Instant,
    /// A stream of events.
    is_endless: bool,
}

/// A request, until its answer was read to the end or given up.
#[derive(Debug)]
struct RequestGuard {
    activity: Arc<Activity>,
    number: u64,
}

impl Activity {
    const fn new(now: Instant) -> Self {
        Self(Mutex::new(Use { idle_since: now, requests: 0, under_way: Vec::new() }))
    }

    fn begin(self: &Arc<Self>, now: Instant) -> RequestGuard {
        let mut used = self.lock();
        used.requests += 1;
        let number = used.requests;
        used.under_way.push(UnderWay { number, since: now, is_endless: false });
        RequestGuard { activity: self.clone(), number }
    }

    /// Whether the connection is to be closed.
    fn is_over(&self, now: Instant) -> bool {
        let used = self.lock();
        let is_late = |request: &UnderWay| {
            !request.is_endless && now.saturating_duration_since(request.since) > HTTP_RESPONSE_LIMIT
        };
        let idle_limit = if used.requests == 0 { HTTP_HEADER_LIMIT } else { HTTP_IDLE_LIMIT };
        let is_idle = used.under_way.is_empty() && now.saturating_duration_since(used.idle_since) > idle_limit;
        is_idle || used.under_way.iter().any(is_late)
    }

    fn lock(&self) -> MutexGuard<'_, Use> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestGuard {
    /// The answer, which keeps the request under way until it was read.
    fn until_read(self, response: Response<Body>) -> Response<Guarded> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if kind.is_some_and(|kind| kind.starts_with(EVENT_STREAM)) {
            let mut used = self.activity.lock();
            if let Some(request) = used.under_way.iter_mut().find(|request| request.number == self.number) {
                request.is_endless = true;
            }
        }
        response.map(|body| Guarded { body, _request: self })
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut used = self.activity.lock();
        used.under_way.retain(|request| request.number != self.number);
        used.idle_since = Instant::now();
    }
}

/// The body of an answer, with its request.
struct Guarded {
    body: Body,
    _request: RequestGuard,
}

impl http_body::Body for Guarded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that fails where its other end leaves unread for too long what was written.
struct Unstalled<S> {
    stream: S,
    limit: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Unstalled<S> {
    const fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, stalled: None }
    }

    fn bounded<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let limit = self.limit;
        let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstalled<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.bounded(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(context, polled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_over_without_a_request_and_without_a_reader() {
        let start = Instant::now();
        let activity = Arc::new(Activity::new(start));
        assert!(!activity.is_over(start + HTTP_HEADER_LIMIT));
        assert!(activity.is_over(start + HTTP_HEADER_LIMIT * 2), "it never asked anything");
        let request = activity.begin(start);
        assert!(!activity.is_over(start + HTTP_RESPONSE_LIMIT), "an answer takes its time");
        assert!(activity.is_over(start + HTTP_RESPONSE_LIMIT * 2), "nobody reads it");
        let events = Response::builder().header(CONTENT_TYPE, EVENT_STREAM).body(Body::empty()).unwrap();
        let response = request.until_read(events);
        assert!(!activity.is_over(start + HTTP_RESPONSE_LIMIT * 2), "events have no end");
        drop(response);
        let end = Instant::now();
        assert!(!activity.is_over(end + HTTP_IDLE_LIMIT / 2));
        assert!(activity.is_over(end + HTTP_IDLE_LIMIT * 2), "it was left idle");
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_fails() {
        use tokio::io::AsyncWriteExt;
        let (near, _far) = tokio::io::duplex(64);
        let mut stream = Unstalled::new(near, HTTP_WRITE_LIMIT);
        stream.write_all(&[0; 64]).await.unwrap();
        let error = stream.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
