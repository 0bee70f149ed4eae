//! One connection: HTTP/1.1 or HTTP/2, while it is used and read.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use assay_listen::bounds::{
    HTTP_HEADER_LIMIT, HTTP_IDLE_LIMIT, HTTP_RESPONSE_LIMIT, HTTP_WRITE_LIMIT, KEEPALIVE, KEEPALIVE_LIMIT,
    MAX_HTTP_HEADER_BYTES, MAX_HTTP_HEADERS, MAX_HTTP_STREAMS, MAX_RESET_STREAMS,
};
use assay_listen::intake::HttpIntake;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio::time::{MissedTickBehavior, Sleep, interval, sleep};
use tower::ServiceExt;

use super::origin::RequestOrigin;
use super::places::CallerPlace;

/// Interval of the checks whether a connection is still used.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The most bytes of an answer that are given out at once.
const PART_BYTES: usize = 64 << 10;
/// The place of a request, in the extensions of its answer: it is held until the answer has been given out.
pub type HeldPlace = Arc<(OwnedSemaphorePermit, CallerPlace)>;
/// Media type of an endless answer.
const EVENT_STREAM: &str = "text/event-stream";

/// Serves a connection until its client or `ending` ends it, or it is idle or unread for too long.
pub async fn serve<S>(
    stream: S,
    origin: RequestOrigin,
    activity: Arc<Activity>,
    router: Router,
    mut ending: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let is_bounded = !origin.is_socket();
    let handled = activity.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (under_way, router) = (handled.begin(Instant::now()), router.clone());
        request.extensions_mut().insert(origin.clone());
        request.extensions_mut().insert(handled.clone());
        async move {
            let Ok(response) = router.oneshot(request.map(Body::new)).await;
            Ok::<_, Infallible>(under_way.until_read(response))
        }
    });
    let builder = builder();
    let mut stream = StallGuard::new(stream, HTTP_WRITE_LIMIT);
    stream.intake = is_bounded.then(|| HttpIntake::new(Instant::now()));
    let io = TokioIo::new(stream);
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut look = interval(LOOK_INTERVAL);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_ending = false;
    loop {
        tokio::select! {
            // A client may end the connection for any reason.
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

/// Use of a connection.
#[derive(Debug)]
pub struct Activity {
    used: Mutex<Use>,
    /// Signals that it must make room for another connection.
    closed: Notify,
}

#[derive(Debug)]
struct Use {
    /// End of the last request, or start of the connection.
    idle_since: Instant,
    /// Number of requests so far, which numbers the next one.
    requests: u64,
    under_way: Vec<ActiveRequest>,
    /// Whether a request had a valid token or login.
    is_known: bool,
}

#[derive(Debug)]
struct ActiveRequest {
    number: u64,
    since: Instant,
    /// Whether the answer is a stream of events.
    is_endless: bool,
    /// The time since which the answer waits for its reader.
    unread_since: Option<Instant>,
}

/// A request, until its answer was read to the end or abandoned.
#[derive(Debug)]
pub struct RequestGuard {
    activity: Arc<Activity>,
    number: u64,
}

impl Activity {
    /// A new connection.
    pub fn new(now: Instant) -> Self {
        let used = Use { idle_since: now, requests: 0, under_way: Vec::new(), is_known: false };
        Self { used: Mutex::new(used), closed: Notify::new() }
    }

    /// Records that a request had a valid token or login.
    pub fn set_known(&self) {
        self.used.lock().is_known = true;
    }

    /// Rank for making room: the least goes first, the idle one for longest. Among connections without a valid token
    /// those with a request under way go after idle ones; connections with a valid token go only after all of these,
    /// and never with a request under way.
    pub fn rank(&self) -> (bool, bool, Instant) {
        let used = self.used.lock();
        (used.is_known, !used.under_way.is_empty(), used.idle_since)
    }

    pub fn close(&self) {
        self.closed.notify_one();
    }

    /// Waits until the connection makes room for another one.
    pub async fn closed(&self) {
        self.closed.notified().await;
    }

    pub fn begin(self: &Arc<Self>, now: Instant) -> RequestGuard {
        let mut used = self.used.lock();
        used.requests += 1;
        let number = used.requests;
        used.under_way.push(ActiveRequest { number, since: now, is_endless: false, unread_since: None });
        RequestGuard { activity: self.clone(), number }
    }

    /// Whether the connection must be closed.
    fn is_over(&self, now: Instant) -> bool {
        let used = self.used.lock();
        let is_late = |request: &ActiveRequest| {
            let is_unread = |since: Instant| now.saturating_duration_since(since) > HTTP_WRITE_LIMIT;
            let is_long = now.saturating_duration_since(request.since) > HTTP_RESPONSE_LIMIT;
            !request.is_endless && (is_long || request.unread_since.is_some_and(is_unread))
        };
        let idle_limit = if used.requests == 0 { HTTP_HEADER_LIMIT } else { HTTP_IDLE_LIMIT };
        let is_idle = used.under_way.is_empty() && now.saturating_duration_since(used.idle_since) > idle_limit;
        is_idle || used.under_way.iter().any(is_late)
    }
}

impl RequestGuard {
    /// Wraps the answer, so that the request stays under way, and has its place, until it was read. A stream of events
    /// has a place of its own.
    fn until_read(self, mut response: Response<Body>) -> Response<GuardedBody> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_endless = kind.is_some_and(|kind| kind.starts_with(EVENT_STREAM));
        let place = response.extensions_mut().remove::<HeldPlace>().filter(|_| !is_endless);
        self.change(|request| request.is_endless = is_endless);
        self.waits_for_reader(true);
        response.map(|body| GuardedBody { body, rest: Bytes::new(), request: self, _place: place })
    }

    fn waits_for_reader(&self, waits: bool) {
        self.change(|request| request.unread_since = waits.then(Instant::now));
    }

    fn change(&self, change: impl FnOnce(&mut ActiveRequest)) {
        let mut used = self.activity.used.lock();
        used.under_way.iter_mut().find(|request| request.number == self.number).map(change);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut used = self.activity.used.lock();
        used.under_way.retain(|request| request.number != self.number);
        used.idle_since = Instant::now();
    }
}

/// Body of an answer, with its request. It gives out parts, since HTTP/2 takes one whole as soon as the client reads a
/// byte.
struct GuardedBody {
    body: Body,
    /// The rest of the last frame.
    rest: Bytes,
    request: RequestGuard,
    _place: Option<HeldPlace>,
}

impl http_body::Body for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            self.request.waits_for_reader(false);
            match ready!(Pin::new(&mut self.body).poll_frame(context)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        self.request.waits_for_reader(true);
        let part = self.rest.len().min(PART_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

/// A stream that fails when written data stays unread for too long, or when the client sends too many frames.
struct StallGuard<S> {
    stream: S,
    /// Bounds on received data; `None`: unbounded.
    intake: Option<HttpIntake>,
    limit: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> StallGuard<S> {
    const fn new(stream: S, limit: Duration) -> Self {
        Self { stream, intake: None, limit, stalled: None }
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

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = &buffer.filled()[before..];
        let counted = self.intake.as_mut().map_or(Ok(()), |intake| intake.count(read, Instant::now()));
        Poll::Ready(counted.map_err(io::Error::other))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
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

    async fn next(body: &mut GuardedBody) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        std::future::poll_fn(|context| Poll::Ready(http_body::Body::poll_frame(Pin::new(&mut *body), context))).await
    }

    /// Regression test: an answer of some MiB that a client of HTTP/2 did not read was held for ten minutes, or without any
    /// bound once the client had read a byte.
    #[tokio::test]
    async fn an_answer_is_over_when_its_reader_stops() {
        let (start, activity) = (Instant::now(), Arc::new(Activity::new(Instant::now())));
        let permit = Arc::new(tokio::sync::Semaphore::new(1)).try_acquire_owned().unwrap();
        let own = crate::places::CallerCounts::default().enter(&crate::caller::Caller::for_tests(), 1, 1).unwrap();
        let place: HeldPlace = Arc::new((permit, own));
        let held = Arc::downgrade(&place);
        let mut response = Response::new(Body::from(vec![7; 2 * PART_BYTES + 1]));
        response.extensions_mut().insert(place);
        let mut body = activity.begin(start).until_read(response).into_body();
        let late = |after: Duration| activity.is_over(Instant::now() + after);
        for part in [PART_BYTES, PART_BYTES, 1] {
            assert!(!late(HTTP_WRITE_LIMIT / 2) && late(HTTP_WRITE_LIMIT * 2), "{part}");
            assert!(held.strong_count() == 1 && !http_body::Body::is_end_stream(&body), "{part}");
            let frame = next(&mut body).await.map(|frame| frame.unwrap().unwrap().into_data().unwrap().len());
            assert_eq!(frame, Poll::Ready(part));
        }
        assert!(matches!(next(&mut body).await, Poll::Ready(None)));
        drop(body);
        assert_eq!(held.strong_count(), 0);
        // The producer of an answer may take its time.
        let slow = Body::from_stream(tokio_stream::pending::<Result<Bytes, io::Error>>());
        let mut body = activity.begin(start).until_read(Response::new(slow)).into_body();
        assert!(next(&mut body).await.is_pending() && !late(HTTP_WRITE_LIMIT * 2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_fails() {
        use tokio::io::AsyncWriteExt;
        let (near, _far) = tokio::io::duplex(64);
        let mut stream = StallGuard::new(near, HTTP_WRITE_LIMIT);
        stream.write_all(&[0; 64]).await.unwrap();
        let error = stream.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
