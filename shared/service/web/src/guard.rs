//! Checks of every request before its handler: host names, other sites' pages, rates, and the caller.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_api::{ProblemCode, ProblemDetails};
use assay_listen::bounds::{
    FAILED_LOGINS, HTTP_BODY_LIMIT, HTTP_REQUEST_LIMIT, MAX_ADDRESSES, MAX_BODY_BYTES, MAX_CALLER_REQUESTS,
    MAX_REQUESTS_AT_ONCE, MAX_STRANGER_BODY_BYTES, MAX_STRANGER_REQUESTS_AT_ONCE, REQUESTS,
};
use assay_listen::rates::Buckets;
use assay_records::with_api_limit;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_stream::StreamExt;

use super::caller::{Caller, Credential};
use super::connection::{Activity, HeldPlace};
use super::origin::RequestOrigin;
use super::places::CallerCounts;
use super::problem::{ApiError, Result, as_problem};
use super::well_known::is_health;
use super::{Web, WebState};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// Answers of the API are not pages: pages have a policy of their own.
const NO_PAGE: &str = "default-src 'none'; frame-ancestors 'none'";

/// A browser that reached this name over TLS uses only TLS for it for a year.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Request rates of addresses and tokens.
#[derive(Debug)]
pub struct RequestRates(Mutex<CallerRates>);

#[derive(Debug)]
struct CallerRates {
    by_address: Buckets<IpAddr>,
    by_credential: Buckets<[u8; 32]>,
    failed: Buckets<IpAddr>,
}

impl RequestRates {
    pub fn new(now: Instant) -> Self {
        Self(Mutex::new(CallerRates {
            by_address: Buckets::new(REQUESTS, MAX_ADDRESSES, now),
            by_credential: Buckets::new(REQUESTS, MAX_ADDRESSES, now),
            failed: Buckets::new(FAILED_LOGINS, MAX_ADDRESSES, now),
        }))
    }

    /// Counts a request of an address.
    ///
    /// # Errors
    /// [`ProblemCode::TooManyRequests`].
    pub fn request(&self, address: IpAddr, now: Instant) -> Result<()> {
        self.0.lock().by_address.take(address, now).map(|_| ()).map_err(|refused| too_many(refused.until))
    }

    /// Counts a request of a token or a login: many addresses may share one.
    ///
    /// # Errors
    /// [`ProblemCode::TooManyRequests`].
    pub fn request_of(&self, credential: &Credential, now: Instant) -> Result<()> {
        let (Credential::Token(text) | Credential::Login(text)) = credential else { return Ok(()) };
        let key = *blake3::hash(text.as_bytes()).as_bytes();
        self.0.lock().by_credential.take(key, now).map(|_| ()).map_err(|refused| too_many(refused.until))
    }

    /// Counts a wrong credential of an address.
    ///
    /// # Errors
    /// [`ProblemCode::TooManyRequests`].
    pub fn failed(&self, address: IpAddr, now: Instant) -> Result<()> {
        self.0.lock().failed.take(address, now).map(|_| ()).map_err(|refused| too_many(refused.until))
    }
}

fn too_many(until: Duration) -> ApiError {
    let seconds = until.as_secs_f64().ceil().max(1.0) as u64;
    ProblemDetails::new(ProblemCode::TooManyRequests, format!("try again in {seconds} s")).after(seconds).into()
}

/// Places for concurrent requests from the network. Callers without a credential have places of their own.
#[derive(Debug)]
pub struct RequestPlaces {
    callers: Arc<Semaphore>,
    of_each: CallerCounts,
    strangers: Arc<Semaphore>,
}

impl Default for RequestPlaces {
    fn default() -> Self {
        let places = [MAX_REQUESTS_AT_ONCE, MAX_STRANGER_REQUESTS_AT_ONCE];
        let [callers, strangers] = places.map(|places| Arc::new(Semaphore::new(places)));
        Self { callers, of_each: CallerCounts::default(), strangers }
    }
}

impl RequestPlaces {
    /// Handles an admitted request, once its body is complete and a place is free. Health checks take no place. A caller
    /// with a credential holds its place until its answer has been read; a stranger's answers are small, and others must
    /// not wait for its reading.
    ///
    /// # Errors
    /// The body is too large, broken or late, or the caller has too many requests at once.
    async fn work<F>(&self, request: Request, work: impl FnOnce(Request) -> F) -> Result<Response>
    where
        F: Future<Output = Response>,
    {
        if is_health(request.uri().path()) {
            return Ok(work(request).await);
        }
        let caller = request.extensions().get::<Caller>();
        let own = caller.map(|caller| self.of_each.enter(caller, MAX_CALLER_REQUESTS, usize::MAX)).transpose()?;
        let (places, most) = match &own {
            Some(_) => (&self.callers, MAX_BODY_BYTES),
            None => (&self.strangers, MAX_STRANGER_BODY_BYTES),
        };
        let request = with_body(request, most).await?;
        // The semaphores are never closed.
        let place = places.clone().acquire_owned().await.ok();
        let mut response = work(request).await;
        if let Some(held) = place.zip(own) {
            response.extensions_mut().insert::<HeldPlace>(Arc::new(held));
        }
        Ok(response)
    }
}

/// Whether a gRPC client asks: a miner that was given the address of `http_listen`.
fn is_grpc(headers: &HeaderMap) -> bool {
    header(headers, &CONTENT_TYPE).is_some_and(|media_type| media_type.starts_with("application/grpc"))
}

/// The answer to a gRPC client, in its own form: its body is not read.
fn no_grpc() -> Response {
    let why =
        "this is the validator's HTTP API: miners connect to its `listen`, which `assay-validator address` prints";
    // 12: UNIMPLEMENTED.
    let headers = [("content-type", "application/grpc"), ("grpc-status", "12"), ("grpc-message", why)];
    headers.into_response()
}

/// Reads the whole body into memory.
async fn with_body(request: Request, most: usize) -> Result<Request> {
    let (parts, body) = request.into_parts();
    let read = async {
        let (mut stream, mut read) = (body.into_data_stream(), Vec::new());
        while let Some(bytes) = stream.next().await {
            let broken = |_| ApiError::new(ProblemCode::Malformed, "the request's body ended before its end");
            read.extend_from_slice(&bytes.map_err(broken)?);
            if read.len() > most {
                return Err(ApiError::new(ProblemCode::TooLarge, format!("a body has at most {most} bytes here")));
            }
        }
        Ok(read)
    };
    let late = |_| {
        let limit_s = HTTP_BODY_LIMIT.as_secs();
        ApiError::new(ProblemCode::Timeout, format!("the request's body was not there within {limit_s} s"))
    };
    let read = timeout(HTTP_BODY_LIMIT, read).await.map_err(late)??;
    Ok(Request::from_parts(parts, Body::from(read)))
}

/// Passes a request to its handler, with the caller among its extensions, or answers it.
pub async fn guard(State(web): WebState, mut request: Request, next: Next) -> Response {
    let origin = request.extensions().get::<RequestOrigin>();
    let is_local = origin.is_some_and(RequestOrigin::is_socket);
    let is_encrypted = origin.is_some_and(RequestOrigin::is_encrypted);
    let is_grpc = is_grpc(request.headers());
    let answer = async {
        let answered = match admit(&web, &mut request).await {
            _ if is_grpc => Ok(no_grpc()),
            // A local caller does not wait for callers on the network.
            Ok(()) if is_local => Ok(next.run(request).await),
            Ok(()) => web.places.work(request, |request| next.run(request)).await,
            Err(refused) => Err(refused),
        };
        answered.map_or_else(ApiError::into_response, as_problem)
    };
    let answer = async { if is_local { answer.await } else { with_api_limit(answer).await } };
    // An export or a backup has no time limit.
    let limit = if is_local { Duration::MAX } else { HTTP_REQUEST_LIMIT };
    let response = match timeout(limit, answer).await {
        Ok(response) => response,
        Err(_) => ApiError::new(ProblemCode::Timeout, "the validator has too much to do").into_response(),
    };
    with_headers(response, is_encrypted)
}

async fn admit(web: &Web, request: &mut Request) -> Result<()> {
    let missing = || ApiError::new(ProblemCode::Internal, "a request without an origin");
    let origin = request.extensions().get::<RequestOrigin>().cloned().ok_or_else(missing)?;
    let credential = match is_health(request.uri().path()) {
        true => Ok(Credential::None),
        false => Credential::of(&origin, request.headers()),
    };
    if let Some(address) = origin.address() {
        let now = Instant::now();
        web.rates.request(address, now)?;
        if let Some(authority) = checked_authority(request)? {
            check_host(web, &authority)?;
            let is_ambient = credential.as_ref().is_ok_and(Credential::is_ambient);
            check_site(request, &authority, origin.is_encrypted(), is_ambient)?;
        }
        if let Ok(credential) = &credential {
            web.rates.request_of(credential, now)?;
        }
    }
    let known = match credential {
        Ok(credential) => web.caller(&origin, credential).await,
        Err(refused) => Err(refused),
    };
    match known {
        Ok(Some(caller)) => {
            let activity = request.extensions().get::<Arc<Activity>>();
            if let Some(activity) = activity.filter(|_| *caller.credential() != Credential::None) {
                activity.set_known();
            }
            request.extensions_mut().insert(caller);
        }
        Ok(None) => {}
        Err(refused) => {
            if let (ProblemCode::Unauthorized, Some(address)) = (refused.0.code, origin.address()) {
                web.rates.failed(address, Instant::now())?;
                tracing::info!(%address, "a request of the HTTP API showed a wrong token");
            }
            return Err(refused);
        }
    }
    Ok(())
}

/// Refuses a foreign name that resolves to this machine (DNS rebinding): a page under that name would be of the same
/// site as this one.
fn check_host(web: &Web, authority: &Authority) -> Result<()> {
    if web.serves_host(&host_of(authority)) {
        return Ok(());
    }
    let why = "this name is not the validator's: use its address, or add the name to http_hosts";
    Err(ApiError::new(ProblemCode::WrongHost, why))
}

/// The host of a request, if it is to be checked: health checks say the same to all, and those of HTTP/1.0 name no host.
fn checked_authority(request: &Request) -> Result<Option<Authority>> {
    let is_health = is_health(request.uri().path());
    let is_named = request.uri().authority().is_some() || request.headers().contains_key(HOST);
    match is_named || !is_health {
        true => authority(request).map(|authority| Some(authority).filter(|_| !is_health)),
        false => Ok(None),
    }
}

/// The host of a request, with its port. Two that differ are refused: a proxy could have used the other one (RFC 9112,
/// section 3.2).
fn authority(request: &Request) -> Result<Authority> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, another) = (hosts.next(), hosts.next());
    let authority = match request.uri().authority() {
        Some(authority) => Some(authority.clone()),
        None => host.and_then(|host| host.to_str().ok()?.parse::<Authority>().ok()),
    };
    // Nothing may follow the host and port: an address in brackets ends with them.
    let is_whole = |authority: &Authority| {
        let (text, host) = (authority.as_str(), authority.host());
        text == host || authority.port_u16().is_some_and(|port| text == format!("{host}:{port}"))
    };
    let malformed = || ApiError::new(ProblemCode::Malformed, "one header Host is expected, with a name or an address");
    authority.filter(|authority| another.is_none() && is_whole(authority)).ok_or_else(malformed)
}

fn host_of(authority: &Authority) -> String {
    authority.host().trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase()
}

/// Refuses requests of another site's page, except for following a link. A browser names the page of a request; a
/// client without these headers is not a browser, and has no cookie to abuse.
fn check_site(request: &Request, host: &Authority, is_encrypted: bool, is_ambient: bool) -> Result<()> {
    let (headers, method) = (request.headers(), request.method());
    let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
    let refused = || ApiError::new(ProblemCode::CrossSite, "this is not for other sites' pages");
    match header(headers, &FETCH_SITE) {
        Some("same-origin" | "none") => return Ok(()),
        Some(_) if is_safe && header(headers, &FETCH_MODE) == Some("navigate") => return Ok(()),
        Some(_) => return Err(refused()),
        None => {}
    }
    if is_safe {
        return Ok(());
    }
    let scheme = if is_encrypted { "https" } else { "http" };
    match header(headers, &ORIGIN) {
        Some(origin)
            if origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://")) == Some(host.as_str()) =>
        {
            Ok(())
        }
        None if !is_ambient => Ok(()),
        _ => Err(refused()),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    // A non-text value differs from every expected one.
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// Sets the default headers for browsers and caches, where the handler did not set them.
fn with_headers(mut response: Response, is_encrypted: bool) -> Response {
    let headers = response.headers_mut();
    if is_encrypted {
        headers.insert(STRICT_TRANSPORT_SECURITY, HSTS);
    }
    let usual = [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (CONTENT_SECURITY_POLICY, NO_PAGE),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in usual {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(method: Method, pairs: &[(&str, &str)]) -> Request {
        let mut request = http::Request::builder().method(method).uri("/api/v1/miners");
        for (name, value) in pairs {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    /// A request with a complete or a truncated body.
    fn post(path: &str, is_whole: bool) -> Request {
        let body = match is_whole {
            true => Body::from("code=1"),
            false => Body::from_stream(tokio_stream::pending::<Result<Vec<u8>, std::io::Error>>()),
        };
        http::Request::builder().method(Method::POST).uri(path).body(body).unwrap()
    }

    async fn answered(_: Request) -> Response {
        Response::default()
    }

    fn of_caller() -> Request {
        let mut request = post("/api/v1/miners", true);
        request.extensions_mut().insert(Caller::for_tests());
        request
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_and_strangers_take_no_place_of_others() {
        let places = Arc::new(RequestPlaces::default());
        let slow: Vec<_> = (0..1000)
            .map(|_| {
                let places = places.clone();
                tokio::spawn(async move { places.work(post("/login", false), answered).await })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(places.work(post("/login", true), answered).await.is_ok(), "a stranger with a body");
        let mut held: Vec<_> = (0..MAX_STRANGER_REQUESTS_AT_ONCE)
            .map(|_| Box::pin(places.work(post("/login", true), |_| std::future::pending())))
            .collect();
        for work in &mut held {
            assert!(
                std::future::poll_fn(|context| std::task::Poll::Ready(work.as_mut().poll(context))).await.is_pending()
            );
        }
        for path in ["/healthz", "/readyz"] {
            assert!(places.work(post(path, false), answered).await.is_ok(), "{path}");
        }
        assert!(places.work(of_caller(), answered).await.is_ok(), "who may ask has other places");
        for late in slow {
            assert_eq!(late.await.unwrap().unwrap_err().0.code, ProblemCode::Timeout);
        }
        let large = Request::new(Body::from(vec![b'x'; MAX_STRANGER_BODY_BYTES + 1]));
        assert_eq!(places.work(large, answered).await.unwrap_err().0.code, ProblemCode::TooLarge);
    }

    /// Regression test: an answer that was not read held its memory, and no place.
    #[tokio::test]
    async fn a_caller_holds_its_place_until_its_answer_is_gone() {
        let places = RequestPlaces::default();
        let answer = places.work(of_caller(), answered).await.unwrap();
        assert_eq!(places.callers.available_permits(), MAX_REQUESTS_AT_ONCE - 1);
        let mut more = Vec::new();
        for _ in 1..MAX_CALLER_REQUESTS {
            more.push(places.work(of_caller(), answered).await.unwrap());
        }
        let refused = places.work(of_caller(), answered).await.unwrap_err();
        assert_eq!(refused.0.code, ProblemCode::TooManyRequests, "the other places are those of others");
        drop((answer, more));
        assert_eq!(places.callers.available_permits(), MAX_REQUESTS_AT_ONCE);
        let _unread = places.work(post("/login", true), answered).await.unwrap();
        assert_eq!(places.strangers.available_permits(), MAX_STRANGER_REQUESTS_AT_ONCE, "strangers never do");
    }

    #[test]
    fn a_health_check_names_no_host_of_this_validator() {
        let checked = |path: &str, hosts: &[&str]| {
            let request = hosts.iter().fold(http::Request::get(path), |request, host| request.header(HOST, *host));
            let checked = checked_authority(&request.body(Body::empty()).unwrap());
            checked.map(|checked| checked.is_some()).map_err(|refused| refused.0.code)
        };
        for path in ["/healthz", "/readyz"] {
            assert_eq!((checked(path, &[]), checked(path, &["evil.example"])), (Ok(false), Ok(false)), "{path}");
            assert_eq!(checked(path, &["localhost", "evil.example"]), Err(ProblemCode::Malformed), "{path}");
        }
        assert_eq!(checked("/api/v1/status", &[]), Err(ProblemCode::Malformed));
        assert_eq!(checked("/api/v1/status", &["localhost"]), Ok(true));
    }

    #[test]
    fn another_sites_page_neither_reads_nor_changes_anything() {
        let check = |method, pairs: &[(&str, &str)], is_encrypted, ambient| {
            let request = request(method, pairs);
            check_site(&request, &authority(&request).unwrap(), is_encrypted, ambient).is_ok()
        };
        let post = |pairs: &[(&str, &str)], ambient| check(Method::POST, pairs, false, ambient);
        let get = |pairs: &[(&str, &str)]| check(Method::GET, pairs, false, true);
        let host = ("host", "127.0.0.1:7480");
        assert!(post(&[host, ("sec-fetch-site", "same-origin")], true));
        assert!(!post(&[host, ("sec-fetch-site", "same-site")], true), "another port of this machine");
        assert!(!post(&[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], true), "a form");
        assert!(post(&[host, ("origin", "http://127.0.0.1:7480")], true));
        let over_tls = |origin| check(Method::POST, &[host, ("origin", origin)], true, true);
        assert!(over_tls("https://127.0.0.1:7480") && !over_tls("http://127.0.0.1:7480"), "of its own scheme");
        let others =
            ["http://127.0.0.1:7481", "https://127.0.0.1:7480", "http://evil.example", "null", "127.0.0.1:7480"];
        for origin in others {
            assert!(!post(&[host, ("origin", origin)], true), "{origin}");
            assert!(!post(&[host, ("origin", origin)], false), "{origin}, with a token");
        }
        assert!(!post(&[host], true), "a cookie comes from a browser, and a browser names the page");
        assert!(post(&[host], false), "a program with a token");
        assert!(get(&[host]) && get(&[host, ("sec-fetch-site", "none")]));
        assert!(get(&[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]), "a link");
        assert!(!get(&[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")]), "an image");
    }

    #[test]
    fn a_browser_that_came_over_tls_comes_no_other_way() {
        let said = |is_encrypted| with_headers(Response::default(), is_encrypted);
        assert!(said(true).headers()[STRICT_TRANSPORT_SECURITY] == "max-age=31536000");
        assert!(!said(false).headers().contains_key(STRICT_TRANSPORT_SECURITY));
    }

    #[test]
    fn a_host_is_known_without_its_port_and_in_any_case() {
        let named = |pairs: &[(&str, &str)]| authority(&request(Method::GET, pairs)).ok().map(|named| host_of(&named));
        let host = |value: &str| named(&[("host", value)]);
        assert_eq!(host("LocalHost:7480").as_deref(), Some("localhost"));
        assert_eq!(host("[::1]:7480").as_deref(), Some("::1"));
        assert_eq!(host("validator.example.").as_deref(), Some("validator.example"));
        for malformed in ["a b", "", "user@localhost", "[::1].evil.example:1", "[::1]x", "localhost:port", "a:1:2"] {
            assert_eq!(host(malformed), None, "{malformed}");
        }
        assert_eq!(named(&[]), None);
        assert_eq!(
            named(&[("host", "localhost"), ("host", "localhost")]),
            None,
            "two, of which another one may be read"
        );
    }

    #[test]
    fn wrong_credentials_and_requests_have_rates() {
        let now = Instant::now();
        let rates = RequestRates::new(now);
        let address: IpAddr = [10, 0, 0, 1].into();
        let count = |times: usize, take: &dyn Fn() -> bool| (0..times).filter(|_| take()).count();
        assert_eq!(count(2000, &|| rates.request(address, now).is_ok()), 1000);
        assert_eq!(count(2000, &|| rates.failed(address, now).is_ok()), 50);
        let token = Credential::Token("assay_read_x".to_owned());
        assert_eq!(count(2000, &|| rates.request_of(&token, now).is_ok()), 1000);
        assert!(rates.request([10, 0, 0, 2].into(), now).is_ok(), "another address does not pay for it");
        let refused = rates.failed(address, now).unwrap_err();
        assert_eq!((refused.0.status, refused.0.retry_after_s), (429, Some(1)));
    }
}
