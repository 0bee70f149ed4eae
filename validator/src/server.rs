//! The validator's two listeners: one for miners, one for its operator.

use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assay_keeper::validator::Validator;
use assay_listen::bounds::{
    ConnectionBounds, KEEPALIVE, KEEPALIVE_LIMIT, MAX_HEADER_BYTES, MAX_QUERY_BYTES, MAX_RESET_STREAMS, MAX_STREAMS,
    STREAM_WINDOW,
};
use assay_listen::connection::{Admittance, Connection, PlaintextRule};
use assay_listen::gate::Gate;
use assay_listen::handshake::HandshakeBound;
use assay_listen::peer::Strangers;
use assay_listen::refused::RefusedConnections;
use assay_protocol::wire::codec::session_server;
use assay_transport::liveness;
use assay_web::listener::TlsError;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_stream::Stream;
use tonic::transport::Server;

use crate::health::follow;
use crate::service::Sessions;

/// Reasons why a listener could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the server failed: {0}")]
    Transport(#[from] tonic::transport::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The operator's socket could not be created.
    #[error("control socket {path}: {source}")]
    Socket {
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Serves miners on a listener until the validator is asked to stop.
pub async fn serve_miners(
    validator: Arc<Validator>,
    listener: TcpListener,
    plaintext: PlaintextRule,
    bounds: ConnectionBounds,
) -> Result<(), ServeError> {
    let (health, health_service) = tonic_health::server::health_reporter();
    let health_service = health_service.max_decoding_message_size(MAX_QUERY_BYTES);
    let admittance = Arc::new(Admittance::new(
        validator.listening.tls.clone(),
        plaintext,
        validator.reports.metrics.traffic.clone(),
    ));
    let incoming = bounded(listener, admittance, validator.listening.gate.clone(), bounds);
    let sessions = HandshakeBound(session_server(Sessions::new(validator.clone())));
    Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_LIMIT))
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW)
        .http2_max_pending_accept_reset_streams(Some(MAX_RESET_STREAMS))
        .add_service(health_service)
        .add_service(sessions)
        .serve_with_incoming_shutdown(incoming, follow(validator, health))
        .await?;
    Ok(())
}

/// Creates the operator's socket, which only the daemon's user can open.
///
/// # Errors
/// [`ServeError::Socket`].
pub fn bind_control(path: &Path) -> Result<UnixListener, ServeError> {
    check_unserved(path)?;
    bind_socket(path).map_err(|source| ServeError::Socket { path: path.into(), source })
}

/// Checks that no other validator serves a socket.
///
/// # Errors
/// [`ServeError::Socket`].
pub fn check_unserved(path: &Path) -> Result<(), ServeError> {
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        let source = io::Error::new(io::ErrorKind::AddrInUse, "another validator serves it: give another path");
        return Err(ServeError::Socket { path: path.into(), source });
    }
    Ok(())
}

/// Binds a socket with mode 0600. A stale socket that no process serves is replaced.
fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        // A folder created here is closed to others, so that the socket is never accessible between bind and chmod.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    if std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Incoming connections. Each is accepted at once, as a stranger's, unless its address has too many; at most
/// [`MAX_CLOSING`](assay_listen::bounds::MAX_CLOSING) closing ones may remain.
fn bounded(
    listener: TcpListener,
    admittance: Arc<Admittance>,
    gate: Arc<Gate>,
    bounds: ConnectionBounds,
) -> impl Stream<Item = io::Result<Connection>> {
    let permits = Arc::new(Semaphore::new(bounds.connections()));
    let strangers = Arc::new(Strangers::new(bounds.handshakes(), gate));
    let mut refused = RefusedConnections::new("miners");
    async_stream::stream! {
        loop {
            // The semaphore is never closed.
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            match listener.accept().await {
                // A dual-stack socket gives IPv4 addresses as ::ffff:…
                Ok((stream, address)) => match strangers.enter((address.ip().to_canonical(), address.port()).into()) {
                    Some(peer) => {
                        // A delayed packet would count as the miner's time.
                        let _ = stream.set_nodelay(true);
                        // Without it a dead link is noticed later, by pings.
                        let _ = liveness::watch(&stream);
                        yield Ok(Connection::new(stream, admittance.clone(), peer, permit));
                    }
                    // Reset, so that the system keeps no state of it.
                    None => drop(stream.set_zero_linger()),
                },
                Err(error) => refused.pause(&error).await,
            }
        }
    }
}
