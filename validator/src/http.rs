//! The HTTP API and the pages: one router, served on the control socket and on `http_listen`.
//!
//! Nothing here holds up a session: each connection is a task, everything that one may take is bounded
//! ([`crate::bounds`]), and what is written goes through the operations that commands use.

pub mod api;
pub mod caller;
pub mod connection;
pub mod events;
pub mod evidence;
pub mod extract;
pub mod guard;
pub mod listener;
pub mod login;
pub mod metrics;
pub mod origin;
pub mod pages;
pub mod problem;
pub mod settings;
pub mod watched;
pub mod well_known;

use std::net::{IpAddr, SocketAddr};
use std::path::Path as FilePath;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, watch};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use utoipa::openapi::OpenApi;

use self::guard::RequestRates;
use self::login::Logins;
use self::settings::HttpSettings;
use crate::bounds::{MAX_BODY_BYTES, MAX_DOWNLOADS, MAX_REQUESTS_AT_ONCE};
use crate::running::Running;
use crate::server::ServeError;

/// What the handlers share.
pub struct Web {
    /// The validator that is served.
    pub running: Arc<Running>,
    /// The settings.
    pub settings: HttpSettings,
    /// Who is logged in on the page.
    pub logins: Logins,
    /// How often anybody may ask.
    pub rates: RequestRates,
    /// One permit for each request from the network that may be worked on at once.
    pub work: Semaphore,
    /// One permit for each download of evidence.
    pub downloads: Arc<Semaphore>,
    /// Challenges that were begun over the API.
    pub watched: watched::Watches,
    /// Streams of events.
    pub streams: events::Streams,
    /// Set once what stands is to end.
    pub ending: watch::Sender<bool>,
    /// Where the API is served beside the control socket, once it is.
    pub address: OnceLock<SocketAddr>,
    /// The OpenAPI document.
    pub document: OnceLock<OpenApi>,
}

impl Web {
    /// For a validator that serves.
    #[must_use]
    pub fn new(running: Arc<Running>, settings: HttpSettings) -> Arc<Self> {
        Arc::new(Self {
            running,
            settings,
            logins: Logins::default(),
            rates: RequestRates::new(Instant::now()),
            work: Semaphore::new(MAX_REQUESTS_AT_ONCE),
            downloads: Arc::new(Semaphore::new(MAX_DOWNLOADS)),
            watched: watched::Watches::default(),
            streams: events::Streams::default(),
            ending: watch::Sender::new(false),
            address: OnceLock::new(),
            document: OnceLock::new(),
        })
    }

    /// Where the pages are, as a browser on this machine reaches them; `None` where none are served.
    #[must_use]
    pub fn page_url(&self) -> Option<String> {
        let address = self.address.get()?;
        if address.ip().is_loopback() {
            return Some(format!("http://{address}"));
        }
        if address.ip().is_unspecified() {
            return Some(format!("http://127.0.0.1:{}", address.port()));
        }
        let name = self.settings.hosts.first();
        Some(name.map_or_else(|| format!("https://{address}"), |name| format!("https://{name}:{}", address.port())))
    }

    /// Whether a host name is the validator's: any address is, since only names resolve by others' doing.
    #[must_use]
    pub fn serves_host(&self, host: &str) -> bool {
        let is_named = |name: &String| name.eq_ignore_ascii_case(host);
        host == "localhost"
            || host.parse::<IpAddr>().is_ok()
            || self.settings.hosts.iter().any(is_named)
            || self.running.validator.tls.issued().is_some_and(|issued| issued.names.iter().any(is_named))
    }
}

/// Serves operators on the control socket, and whoever `http_listen` lets in, until the last session has ended after the
/// validator was asked to stop.
///
/// # Errors
/// [`ServeError`].
pub async fn serve(
    web: &Arc<Web>,
    socket: UnixListener,
    path: &FilePath,
    network: Option<TcpListener>,
) -> Result<(), ServeError> {
    let router = router(web.clone());
    if let Some(listener) = &network
        && let Ok(address) = listener.local_addr()
    {
        let _ = web.address.set(address);
        tracing::info!(%address, "the HTTP API and the pages are served");
    }
    let drain = web.running.validator.drain.clone();
    let socket = listener::serve_socket(web, router.clone(), socket, path);
    let network = async {
        match network {
            Some(listener) => listener::serve_network(web, router, listener).await,
            None => Ok(()),
        }
    };
    let ending = async {
        drain.over().await;
        web.ending.send_replace(true);
    };
    let (served, (), ()) = tokio::join!(network, socket, ending);
    served
}

/// The routes of everything that is served.
pub fn router(web: Arc<Web>) -> Router {
    let (api, document) = api::routes().split_for_parts();
    // Neither events, which are not to wait for more of them, nor what is compressed already.
    let is_compressible =
        SizeAbove::new(1024).and(NotForContentType::SSE).and(NotForContentType::const_new("application/zstd"));
    // Set once: there is one router for each `Web`.
    let _ = web.document.set(document);
    api.merge(well_known::routes())
        .merge(pages::routes())
        .merge(metrics::routes())
        .fallback(problem::no_such_path)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(CatchPanicLayer::custom(problem::panicked))
        .layer(from_fn_with_state(web.clone(), guard::guard))
        .layer(from_fn_with_state(web.clone(), metrics::observe))
        .layer(CompressionLayer::new().gzip(true).compress_when(is_compressible))
        .with_state(web)
}
