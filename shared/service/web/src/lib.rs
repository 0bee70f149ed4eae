//! The HTTP API and the pages: one router, served on the control socket and on `http_listen`.
//!
//! No request delays a session: each connection is a task, its resources are bounded ([`assay_listen::bounds`]), and writes go
//! through the operations that commands use.

#![forbid(unsafe_code)]

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
pub mod places;
pub mod problem;
mod scrape;
pub mod settings;
mod user;
pub mod watched;
pub mod well_known;

use std::net::IpAddr;
use std::path::Path as FilePath;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::middleware::from_fn_with_state;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, watch};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};

use self::guard::{RequestPlaces, RequestRates};
use self::listener::TlsError;
use self::login::Logins;
use self::settings::HttpSettings;
use assay_keeper::running::RunningValidator;
use assay_listen::bounds::{MAX_BODY_BYTES, MAX_DOWNLOADS};

/// The state as handlers take it.
pub type WebState = State<Arc<Web>>;

/// State shared by the handlers.
pub struct Web {
    pub running: Arc<RunningValidator>,
    pub settings: HttpSettings,
    /// Current logins of the pages.
    pub logins: Logins,
    /// Request rates by address and token.
    pub rates: RequestRates,
    /// Places for concurrent requests from the network.
    pub places: RequestPlaces,
    /// One permit for each concurrent download of evidence.
    pub downloads: Arc<Semaphore>,
    /// Open streams of events.
    pub streams: places::CallerCounts,
    /// Set when open connections and streams must end.
    pub ending: watch::Sender<bool>,
    /// The OpenAPI document, in JSON.
    pub document: OnceLock<Bytes>,
}

impl Web {
    pub fn new(running: Arc<RunningValidator>, settings: HttpSettings) -> Arc<Self> {
        Arc::new(Self {
            running,
            settings,
            logins: Logins::default(),
            rates: RequestRates::new(Instant::now()),
            places: RequestPlaces::default(),
            downloads: Arc::new(Semaphore::new(MAX_DOWNLOADS)),
            streams: places::CallerCounts::default(),
            ending: watch::Sender::new(false),
            document: OnceLock::new(),
        })
    }

    /// URL of the pages for a browser on this machine; `None` where none are served.
    pub fn page_url(&self) -> Option<String> {
        let address = self.running.http?;
        if address.ip().is_loopback() {
            return Some(format!("http://{address}"));
        }
        if address.ip().is_unspecified() {
            return Some(format!("http://127.0.0.1:{}", address.port()));
        }
        let name = self.settings.hosts.first();
        Some(name.map_or_else(|| format!("https://{address}"), |name| format!("https://{name}:{}", address.port())))
    }

    /// Whether a host name belongs to the validator. Addresses always do: only names can be made to resolve here by
    /// others.
    pub fn serves_host(&self, host: &str) -> bool {
        let is_named = |name: &String| name.eq_ignore_ascii_case(host);
        host == "localhost"
            || host.parse::<IpAddr>().is_ok()
            || self.settings.hosts.iter().any(is_named)
            || self.running.validator.listening.tls.issued().is_some_and(|issued| issued.names.iter().any(is_named))
    }
}

/// Serves operators on the control socket, and callers of `http_listen`, until the last session has ended after a
/// request to stop.
pub async fn serve(
    web: &Arc<Web>,
    socket: UnixListener,
    path: &FilePath,
    network: Option<TcpListener>,
) -> Result<(), TlsError> {
    let router = router(web.clone());
    if let Some(address) = web.running.http {
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

pub fn router(web: Arc<Web>) -> Router {
    let (api, document) = api::routes().split_for_parts();
    // Excludes streams of events, which must not be delayed, and compressed evidence.
    let is_compressible =
        SizeAbove::new(1024).and(NotForContentType::SSE).and(NotForContentType::const_new("application/zstd"));
    // Set once: there is one router for each `Web`.
    let _ = web.document.set(serde_json::to_vec(&document).unwrap_or_default().into());
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
