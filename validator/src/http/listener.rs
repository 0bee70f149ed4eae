//! Where connections come from: the control socket, and the network.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use assay_transport::server::ServerTls;
use axum::Router;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Web;
use super::connection::serve;
use super::origin::RequestOrigin;
use super::settings::HttpSettings;
use crate::bounds::{HTTP_HEADER_LIMIT, MAX_HTTP_ADDRESS_CONNECTIONS, MAX_HTTP_CONNECTIONS, MAX_SOCKET_CONNECTIONS};
use crate::connection::{PlaintextRule, TLS_HANDSHAKE};
use crate::gate;
use crate::server::{RefusedConnections, ServeError};

/// What plaintext from another machine is answered where it has to be TLS.
const PLAINTEXT_REFUSED: &[u8] = b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.3\r\nConnection: close, upgrade\r\n\
    Content-Type: text/plain\r\nContent-Length: 60\r\n\r\nplaintext from another machine is refused: dial https://...\n";

/// Serves the operator on the control socket until `web.ending`, then removes it.
pub async fn serve_socket(web: &Web, router: Router, listener: UnixListener, path: &Path) {
    let _socket = SocketFile(path);
    let places = Arc::new(Semaphore::new(MAX_SOCKET_CONNECTIONS));
    let mut refused = RefusedConnections::new("operators");
    let mut ending = web.ending.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                // Whoever is one too many sees its connection closed.
                let Ok(place) = places.clone().try_acquire_owned() else { continue };
                let (origin, router, ending) = (RequestOrigin::of_socket(&stream), router.clone(), ending.clone());
                tokio::spawn(async move {
                    serve(stream, origin, router, ending).await;
                    drop(place);
                });
            }
            Err(error) => refused.pause(&error).await,
        }
    }
    let _ = places.acquire_many(MAX_SOCKET_CONNECTIONS as u32).await;
}

/// The file of a socket that is served; dropped, it is removed.
struct SocketFile<'a>(&'a Path);

impl Drop for SocketFile<'_> {
    fn drop(&mut self) {
        // Nobody listens there any more; a socket that is gone already is as good.
        let _ = std::fs::remove_file(self.0);
    }
}

/// Makes the listener of `http_listen`; `None` where there is none, or where its default address is taken.
///
/// # Errors
/// What the system said of an address that somebody chose.
pub async fn bind(settings: &HttpSettings) -> io::Result<Option<TcpListener>> {
    let Some(listen) = &settings.listen else { return Ok(None) };
    match TcpListener::bind((listen.host.as_str(), listen.port)).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if settings.is_default => {
            tracing::warn!(
                address = %listen,
                "the HTTP API and the pages are served on the control socket only ({error}): choose another http_listen, \
                 or leave it empty"
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Serves callers from the network until `web.ending`.
///
/// # Errors
/// [`ServeError::Tls`].
pub async fn serve_network(web: &Web, router: Router, listener: TcpListener) -> Result<(), ServeError> {
    let tls = web.running.validator.tls.for_http().map_err(|error| ServeError::Tls(error.to_string()))?;
    let door = Arc::new(Admission { tls, plaintext: web.settings.plaintext, router });
    let (places, addresses) = (Arc::new(Semaphore::new(MAX_HTTP_CONNECTIONS)), Arc::new(Addresses::default()));
    let mut refused = RefusedConnections::new("the HTTP API");
    let mut ending = web.ending.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let place = places.clone().try_acquire_owned().ok();
                let place = place.and_then(|place| Some((place, addresses.enter(peer.ip())?)));
                match place {
                    Some(place) => drop(tokio::spawn(door.clone().admit(stream, peer, ending.clone(), place))),
                    // Reset, so that the system keeps nothing of it.
                    None => drop(stream.set_zero_linger()),
                }
            }
            Err(error) => refused.pause(&error).await,
        }
    }
    let _ = places.acquire_many(MAX_HTTP_CONNECTIONS as u32).await;
    Ok(())
}

/// How callers from the network are let in.
struct Admission {
    tls: ServerTls,
    plaintext: PlaintextRule,
    router: Router,
}

/// What a connection takes of the bounds.
type Place = (OwnedSemaphorePermit, AddressPlace);

impl Admission {
    /// Serves a connection: TLS or plaintext, as its first byte says.
    async fn admit(
        self: Arc<Self>,
        mut stream: TcpStream,
        peer: SocketAddr,
        ending: tokio::sync::watch::Receiver<bool>,
        place: Place,
    ) {
        let _ = stream.set_nodelay(true);
        let mut first = [0];
        let router = self.router.clone();
        match timeout(HTTP_HEADER_LIMIT, stream.peek(&mut first)).await {
            Ok(Ok(1..)) if first[0] == TLS_HANDSHAKE => {
                let handshake = timeout(HTTP_HEADER_LIMIT, self.tls.accept(stream));
                let Ok(Ok(stream)) = handshake.await else { return };
                serve(stream, RequestOrigin::Network { peer, is_encrypted: true }, router, ending).await;
            }
            Ok(Ok(1..)) if self.plaintext.channel(peer.ip()).is_some() => {
                serve(stream, RequestOrigin::Network { peer, is_encrypted: false }, router, ending).await;
            }
            Ok(Ok(1..)) => drop(timeout(HTTP_HEADER_LIMIT, stream.write_all(PLAINTEXT_REFUSED)).await),
            _ => {}
        }
        drop(place);
    }
}

/// Connections of each address.
#[derive(Debug, Default)]
struct Addresses(Mutex<HashMap<IpAddr, usize>>);

/// A connection of an address, until it ends.
#[derive(Debug)]
struct AddressPlace {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

impl Addresses {
    /// A place for one more; `None`: the address has as many as it may. This machine may have all.
    fn enter(self: &Arc<Self>, from: IpAddr) -> Option<AddressPlace> {
        let address = gate::origin(from);
        let most = if address.is_loopback() { MAX_HTTP_CONNECTIONS } else { MAX_HTTP_ADDRESS_CONNECTIONS };
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(AddressPlace { addresses: self.clone(), address })
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let mut counts = self.addresses.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_connections_and_gives_them_back() {
        let addresses = Arc::new(Addresses::default());
        let far: IpAddr = [203, 0, 113, 9].into();
        let places: Vec<_> = (0..2 * MAX_HTTP_ADDRESS_CONNECTIONS).filter_map(|_| addresses.enter(far)).collect();
        assert_eq!(places.len(), MAX_HTTP_ADDRESS_CONNECTIONS);
        assert!(addresses.enter([203, 0, 113, 10].into()).is_some(), "another address does not pay for it");
        drop(places);
        assert!(addresses.enter(far).is_some());
        assert!(addresses.0.lock().unwrap().is_empty(), "nothing is kept of who left");
        let near: IpAddr = [127, 0, 0, 1].into();
        let places: Vec<_> = (0..2 * MAX_HTTP_CONNECTIONS).filter_map(|_| addresses.enter(near)).collect();
        assert_eq!(places.len(), MAX_HTTP_CONNECTIONS);
    }

    #[test]
    fn the_answer_to_plaintext_has_the_length_that_it_says() {
        let text = std::str::from_utf8(PLAINTEXT_REFUSED).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }
}
