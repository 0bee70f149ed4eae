//! What every request passes before its handler: host names, other sites' pages, rates, and who asks.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assay_api::{Problem, ProblemCode};
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::Web;
use super::caller::Credential;
use super::origin::RequestOrigin;
use super::problem::{Refused, as_problem};
use crate::bounds::{FAILED_LOGINS, HTTP_REQUEST_LIMIT, MAX_ADDRESSES, REQUESTS};
use crate::rates::Buckets;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// Nothing of an answer of the API is a page: pages have a policy of their own.
const NO_PAGE: &str = "default-src 'none'; frame-ancestors 'none'";

/// How often addresses and tokens may ask.
#[derive(Debug)]
pub struct RequestRates(Mutex<Rates>);

#[derive(Debug)]
struct Rates {
    by_address: Buckets<IpAddr>,
    by_credential: Buckets<[u8; 32]>,
    failed: Buckets<IpAddr>,
}

impl RequestRates {
    /// Nobody has asked yet.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self(Mutex::new(Rates {
            by_address: Buckets::new(REQUESTS, MAX_ADDRESSES, now),
            by_credential: Buckets::new(REQUESTS, MAX_ADDRESSES, now),
            failed: Buckets::new(FAILED_LOGINS, MAX_ADDRESSES, now),
        }))
    }

    /// Counts a request of an address.
    ///
    /// # Errors
    /// [`ProblemCode::TooManyRequests`].
    pub fn request(&self, address: IpAddr, now: Instant) -> Result<(), Refused> {
        self.lock().by_address.take(address, now).map(|_| ()).map_err(|refused| too_many(refused.until))
    }

    /// Counts a request of a token or a login: many addresses may share one.
    ///
    /// # Errors
    /// [`ProblemCode::TooManyRequests`].
    pub fn request_of(&self, credential: &Credential, now: Instant) -> Result<(), Refused> {
        let (Credential::Token(text) | Credential::Login(text)) = credential else { return Ok(()) };
        let key = *blake3::hash(text.as_bytes()).as_bytes();
        self.lock().by_credential.take(key, now).map(|_| ()).map_err(|refused| too_many(refused.until))
    }

    /// Counts a wrong credential of an address.
    ///
    /// # Errors
    /// [`ProblemCode::TooManyRequests`].
    pub fn failed(&self, address: IpAddr, now: Instant) -> Result<(), Refused> {
        self.lock().failed.take(address, now).map(|_| ()).map_err(|refused| too_many(refused.until))
    }

    fn lock(&self) -> MutexGuard<'_, Rates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_many(until: Duration) -> Refused {
    let seconds = until.as_secs_f64().ceil().max(1.0) as u64;
    Problem::new(ProblemCode::TooManyRequests, format!("try again in {seconds} s")).after(seconds).into()
}

/// Lets a request through to its handler, with who asks among its extensions, or answers it.
pub async fn guard(State(web): State<Arc<Web>>, mut request: Request, next: Next) -> Response {
    let is_local = request.extensions().get::<RequestOrigin>().is_some_and(RequestOrigin::is_socket);
    let answer = async {
        match admit(&web, &mut request).await {
            Ok(()) => {
                // The semaphore is never closed. Who is at the socket waits for nobody on the network.
                let _place = if is_local { None } else { web.work.acquire().await.ok() };
                as_problem(next.run(request).await)
            }
            Err(refused) => refused.into_response(),
        }
    };
    // An export or a backup takes as long as it takes.
    let limit = if is_local { Duration::MAX } else { HTTP_REQUEST_LIMIT };
    let response = match timeout(limit, answer).await {
        Ok(response) => response,
        Err(_) => Refused::new(ProblemCode::Timeout, "the validator has too much to do").into_response(),
    };
    with_headers(response)
}

async fn admit(web: &Web, request: &mut Request) -> Result<(), Refused> {
    let missing = || Refused::new(ProblemCode::Internal, "a request without an origin");
    let origin = request.extensions().get::<RequestOrigin>().cloned().ok_or_else(missing)?;
    let credential = Credential::of(&origin, request.headers());
    if let Some(address) = origin.address() {
        let now = Instant::now();
        web.rates.request(address, now)?;
        check_host(web, request)?;
        check_site(request, credential.as_ref().is_ok_and(Credential::is_ambient))?;
        if let Ok(credential) = &credential {
            web.rates.request_of(credential, now)?;
        }
    }
    let known = match credential {
        Ok(credential) => web.caller(&origin, credential).await,
        Err(refused) => Err(refused),
    };
    match known {
        Ok(Some(caller)) => drop(request.extensions_mut().insert(caller)),
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

/// A name that resolves to this machine by somebody else's doing (DNS rebinding) is not served: a page of that name
/// would be of the same site as this.
fn check_host(web: &Web, request: &Request) -> Result<(), Refused> {
    let host = host_of(request).ok_or_else(|| Refused::new(ProblemCode::Malformed, "the header Host is missing"))?;
    if web.serves_host(&host) {
        return Ok(());
    }
    let why = "this name is not the validator's: use its address, or add the name to http_hosts";
    Err(Refused::new(ProblemCode::WrongHost, why))
}

/// The host that a request is for, without the port.
fn host_of(request: &Request) -> Option<String> {
    let authority = match request.uri().authority() {
        Some(authority) => authority.clone(),
        None => request.headers().get(HOST)?.to_str().ok()?.parse::<Authority>().ok()?,
    };
    let (host, port) = (authority.host(), authority.port_u16());
    // Nothing else stands beside them: an address in brackets ends with these.
    let is_whole =
        authority.as_str() == host || port.is_some_and(|port| authority.as_str() == format!("{host}:{port}"));
    is_whole.then(|| host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase())
}

/// Another site's page may neither change anything nor have anything read for it; only a link from there may be
/// followed. A browser says which page asks; who says nothing is no browser, and has no cookie to abuse.
fn check_site(request: &Request, is_ambient: bool) -> Result<(), Refused> {
    let (headers, method) = (request.headers(), request.method());
    let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
    let refused = || Refused::new(ProblemCode::CrossSite, "this is not for other sites' pages");
    match header(headers, &FETCH_SITE) {
        Some("same-origin" | "none") => return Ok(()),
        Some(_) if is_safe && header(headers, &FETCH_MODE) == Some("navigate") => return Ok(()),
        Some(_) => return Err(refused()),
        None => {}
    }
    if is_safe {
        return Ok(());
    }
    match (header(headers, &ORIGIN), header(headers, &HOST)) {
        (Some(origin), Some(host)) if origin.split_once("://").is_some_and(|(_, from)| from == host) => Ok(()),
        (None, _) if !is_ambient => Ok(()),
        _ => Err(refused()),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    // A value that is no text is another value than those that are asked for.
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// What every answer says to browsers and caches, where its handler did not say otherwise.
fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
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

    #[test]
    fn another_sites_page_neither_reads_nor_changes_anything() {
        let post = |pairs: &[(&str, &str)], ambient| check_site(&request(Method::POST, pairs), ambient).is_ok();
        let get = |pairs: &[(&str, &str)]| check_site(&request(Method::GET, pairs), true).is_ok();
        let host = ("host", "127.0.0.1:7480");
        assert!(post(&[host, ("sec-fetch-site", "same-origin")], true));
        assert!(!post(&[host, ("sec-fetch-site", "same-site")], true), "another port of this machine");
        assert!(!post(&[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], true), "a form");
        assert!(post(&[host, ("origin", "http://127.0.0.1:7480")], true));
        for origin in ["http://127.0.0.1:7481", "http://evil.example", "null", "127.0.0.1:7480"] {
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
    fn a_host_is_known_without_its_port_and_in_any_case() {
        let host = |value: &str| host_of(&request(Method::GET, &[("host", value)]));
        assert_eq!(host("LocalHost:7480").as_deref(), Some("localhost"));
        assert_eq!(host("[::1]:7480").as_deref(), Some("::1"));
        assert_eq!(host("validator.example.").as_deref(), Some("validator.example"));
        for malformed in ["a b", "", "user@localhost", "[::1].evil.example:1", "[::1]x", "localhost:port", "a:1:2"] {
            assert_eq!(host(malformed), None, "{malformed}");
        }
        assert_eq!(host_of(&request(Method::GET, &[])), None);
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
