//! A TCP connection to an address, with or without a proxy, by whichever of its IP addresses answers first.

use std::error::Error;
use std::time::Duration;

use assay_program::address::Address;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::net::TcpStream;
use tower::ServiceExt;

use crate::liveness;
use crate::proxy::{Proxies, ProxyError};

/// A connection cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// No server answers there.
    #[error("no connection to {address}: {problem}: check the address, and that the validator listens there")]
    Unreachable {
        address: Address,
        /// The system's error.
        problem: String,
    },
    /// A proxy does not pass it on.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
}

/// Dials an address: IPv6 and IPv4 addresses of a name take turns, as in RFC 8305.
pub async fn dial(address: &Address, proxies: &Proxies, limit: Duration) -> Result<TcpStream, DialError> {
    let Some(proxy) = proxies.for_address(address) else { return tcp(address, limit).await };
    let mut stream = tcp(&proxy.address, limit).await?;
    proxy.connect(&mut stream, address).await?;
    Ok(stream)
}

async fn tcp(address: &Address, limit: Duration) -> Result<TcpStream, DialError> {
    let unreachable = |problem| DialError::Unreachable { address: address.clone(), problem };
    let uri = address.url().parse().map_err(|_| unreachable("the host is no name".to_owned()))?;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(limit));
    let stream = connector.oneshot(uri).await.map_err(|error| unreachable(causes(&error)))?.into_inner();
    // Without it a link that is gone is noticed later, by pings.
    let _ = liveness::watch(&stream);
    Ok(stream)
}

/// An error and its causes.
fn causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
