//! Listeners: the control socket, and the network.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use assay_protocol::channel::Channel;
use assay_transport::origin::origin;
use assay_transport::server::ServerTls;
use axum::Router;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;

use super::Web;
use super::connection::{Activity, serve};
use super::origin::RequestOrigin;
use super::settings::HttpSettings;
use assay_listen::bounds::{
    HTTP_ADDRESS_CONNECTS, HTTP_HEADER_LIMIT, MAX_ADDRESSES, MAX_HTTP_ADDRESS_CONNECTIONS, MAX_HTTP_CONNECTIONS,
    MAX_SOCKET_CONNECTIONS,
};
use assay_listen::connection::{PlaintextRule, TLS_HANDSHAKE};
use assay_listen::gate::Gate;
use assay_listen::peer::first_to_go;
use assay_listen::rates::Buckets;
use assay_listen::refused::RefusedConnections;

/// Answer to plaintext from another machine where TLS is required.
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
                // Connections above the limit are closed.
                let Ok(place) = places.clone().try_acquire_owned() else { continue };
                let (origin, router, ending) = (RequestOrigin::of_socket(&stream), router.clone(), ending.clone());
                tokio::spawn(async move {
                    serve(stream, origin, Arc::new(Activity::new(Instant::now())), router, ending).await;
                    drop(place);
                });
            }
            Err(error) => refused.pause(&error).await,
        }
    }
    let _ = places.acquire_many(MAX_SOCKET_CONNECTIONS as u32).await;
}

/// Why the network is not served: TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("TLS: {0}")]
pub struct TlsError(String);

/// The file of a served socket; dropping it removes the file.
struct SocketFile<'a>(&'a Path);

impl Drop for SocketFile<'_> {
    fn drop(&mut self) {
        // The listener is gone; a file that is already removed is no error.
        let _ = std::fs::remove_file(self.0);
    }
}

/// Creates the listener of `http_listen`; `None` without one, or where its default address is taken.
///
/// # Errors
/// The system's error for an address that was configured.
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
/// [`TlsError`].
pub async fn serve_network(web: &Web, router: Router, listener: TcpListener) -> Result<(), TlsError> {
    let validator = &web.running.validator;
    let tls = validator.listening.tls.for_http().map_err(|error| TlsError(error.to_string()))?;
    let door = Arc::new(NetworkAdmission { tls, plaintext: web.settings.plaintext, router });
    let (callers, (place, mut last_left)) =
        (Arc::new(Callers::new(validator.listening.gate.clone())), mpsc::channel::<Infallible>(1));
    let mut refused = RefusedConnections::new("the HTTP API");
    let mut ending = web.ending.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        match accepted {
            Ok((stream, peer)) => match callers.enter(peer.ip()) {
                Some(caller) => {
                    let (door, ending, place) = (door.clone(), ending.clone(), place.clone());
                    tokio::spawn(async move {
                        tokio::select! {
                            () = caller.activity.closed() => {}
                            () = door.admit(stream, peer, &caller, ending) => {}
                        }
                        drop(place);
                    });
                }
                // Reset, so that the system keeps no state of it.
                None => drop(stream.set_zero_linger()),
            },
            Err(error) => refused.pause(&error).await,
        }
    }
    drop(place);
    let _ = last_left.recv().await;
    Ok(())
}

/// Admission of callers from the network.
struct NetworkAdmission {
    tls: ServerTls,
    plaintext: PlaintextRule,
    router: Router,
}

impl NetworkAdmission {
    /// Serves a connection: TLS or plaintext, by its first byte.
    async fn admit(
        &self,
        mut stream: TcpStream,
        peer: SocketAddr,
        caller: &CallerPlace,
        ending: watch::Receiver<bool>,
    ) {
        let _ = stream.set_nodelay(true);
        let mut first = [0];
        let (router, activity) = (self.router.clone(), caller.activity.clone());
        match timeout(HTTP_HEADER_LIMIT, stream.peek(&mut first)).await {
            Ok(Ok(1..)) if first[0] == TLS_HANDSHAKE => {
                let handshake = timeout(HTTP_HEADER_LIMIT, self.tls.accept(stream));
                let Ok(Ok(stream)) = handshake.await else { return };
                serve(stream, RequestOrigin::Network { peer, is_encrypted: true }, activity, router, ending).await;
            }
            Ok(Ok(1..)) => match self.plaintext.channel(peer.ip()) {
                Some(channel) => {
                    let is_encrypted = channel == Channel::Proxied;
                    serve(stream, RequestOrigin::Network { peer, is_encrypted }, activity, router, ending).await;
                }
                None => drop(timeout(HTTP_HEADER_LIMIT, stream.write_all(PLAINTEXT_REFUSED)).await),
            },
            _ => {}
        }
    }
}

#[derive(Debug)]
struct Callers {
    gate: Arc<Gate>,
    /// Connections with their addresses.
    list: Mutex<Vec<(IpAddr, Arc<Activity>)>>,
    /// Rate of new connections by address.
    connects: Mutex<Buckets<IpAddr>>,
}

/// The place of a connection, until it ends.
#[derive(Debug)]
struct CallerPlace {
    callers: Arc<Callers>,
    activity: Arc<Activity>,
}

impl Callers {
    fn new(gate: Arc<Gate>) -> Self {
        let connects = Buckets::new(HTTP_ADDRESS_CONNECTS, MAX_ADDRESSES, Instant::now());
        Self { gate, list: Mutex::default(), connects: Mutex::new(connects) }
    }

    /// Takes a place; `None` at the limit of the address. Loopback addresses have no limit of their own. When all
    /// places are taken, another connection is closed.
    fn enter(self: &Arc<Self>, from: IpAddr) -> Option<CallerPlace> {
        let (address, now) = (origin(from), Instant::now());
        let mut list = self.list.lock();
        if !address.is_loopback() {
            self.connects.lock().take(address, now).ok()?;
            if list.iter().filter(|(other, _)| *other == address).count() >= MAX_HTTP_ADDRESS_CONNECTIONS {
                return None;
            }
        }
        if list.len() >= MAX_HTTP_CONNECTIONS {
            let place = first_to_go(&list, address, |(other, _)| *other, |(_, activity)| activity.rank())?;
            if let (true, true, _) = list[place].1.rank() {
                return None;
            }
            list.swap_remove(place).1.close();
            self.gate.made_room();
        }
        let activity = Arc::new(Activity::new(now));
        list.push((address, activity.clone()));
        Some(CallerPlace { callers: self.clone(), activity })
    }
}

impl Drop for CallerPlace {
    fn drop(&mut self) {
        self.callers.list.lock().retain(|(_, activity)| !Arc::ptr_eq(activity, &self.activity));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_listen::bounds::ConnectionBounds;

    fn callers() -> Arc<Callers> {
        Arc::new(Callers::new(Arc::new(Gate::new(&ConnectionBounds::default(), Instant::now()))))
    }

    #[test]
    fn an_address_has_so_many_connections_and_gives_them_back() {
        let callers = callers();
        let far: IpAddr = [203, 0, 113, 9].into();
        let places: Vec<_> = (0..2 * MAX_HTTP_ADDRESS_CONNECTIONS).filter_map(|_| callers.enter(far)).collect();
        assert_eq!(places.len(), MAX_HTTP_ADDRESS_CONNECTIONS);
        assert!(callers.enter([203, 0, 113, 10].into()).is_some(), "another address does not pay for it");
        drop(places);
        assert!(callers.enter(far).is_some());
        assert!(callers.list.lock().is_empty(), "nothing is kept of who left");
        let again = (0..10_000).filter(|_| callers.enter(far).is_some()).count();
        assert!(again < 200, "{again}: new ones have a rate");
    }

    #[test]
    fn of_too_many_connections_the_oldest_silent_one_goes_and_no_request_of_a_known_caller() {
        let callers = callers();
        let enter = || callers.enter([127, 0, 0, 1].into());
        let places: Vec<_> = (0..MAX_HTTP_CONNECTIONS).map(|_| enter().unwrap()).collect();
        let stands =
            |place: &CallerPlace| callers.list.lock().iter().any(|(_, other)| Arc::ptr_eq(other, &place.activity));
        // Requests are under way on the first two connections; the first and the third had a valid token.
        let _requests = [0, 1].map(|place| places[place].activity.begin(Instant::now()));
        for place in [0, 2] {
            places[place].activity.set_known();
        }
        let mut known = Vec::new();
        let mut enter_known = || {
            let place = enter().unwrap();
            place.activity.set_known();
            known.push((place.activity.begin(Instant::now()), place));
        };
        enter_known();
        assert_eq!(places.iter().position(|place| !stands(place)), Some(3), "the oldest that is silent");
        (4..places.len()).for_each(|_| enter_known());
        assert!(places[..3].iter().all(stands) && !places[3..].iter().any(stands));
        enter_known();
        assert_eq!([0, 1, 2].map(|place| stands(&places[place])), [true, false, true], "who showed nothing");
        enter_known();
        assert_eq!([0, 1, 2].map(|place| stands(&places[place])), [true, false, false]);
        assert!(enter().is_none() && callers.enter([203, 0, 113, 9].into()).is_none(), "all work, and are known");
        assert_eq!((callers.list.lock().len(), callers.gate.totals().made_room), (MAX_HTTP_CONNECTIONS, 511));
    }

    #[tokio::test]
    async fn a_connection_hears_that_it_makes_room() {
        let place = callers().enter([127, 0, 0, 1].into()).unwrap();
        place.activity.close();
        place.activity.closed().await;
    }

    #[test]
    fn the_answer_to_plaintext_has_the_length_that_it_says() {
        let text = std::str::from_utf8(PLAINTEXT_REFUSED).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }
}
