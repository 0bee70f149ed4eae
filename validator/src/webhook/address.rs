//! Where a webhook's name leads, and where nothing is sent: whoever may add webhooks chooses whom this machine talks to.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};

/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;
/// How long one of them may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// Why nothing is sent to an address; `None` where it is.
///
/// Loopback and private networks are where receivers are. What a link alone has is a cloud's metadata, which hands out
/// credentials to whoever asks from this machine.
#[must_use]
pub fn refusal(address: IpAddr) -> Option<&'static str> {
    let is_link_local = match address.to_canonical() {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address == METADATA,
    };
    match address.to_canonical() {
        _ if is_link_local => Some("a link-local address, where clouds have their metadata"),
        IpAddr::V4(address) if address.is_broadcast() => Some("the broadcast address"),
        address if address.is_unspecified() => Some("no address of a host"),
        address if address.is_multicast() => Some("a multicast address"),
        _ => None,
    }
}

/// The metadata of a cloud on IPv6.
const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Connects to a host, by the first of its addresses that answers. What is refused is the address itself, whatever the
/// name says by then.
///
/// # Errors
/// Why there is no connection.
pub async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    let found = lookup_host((host, port)).await.map_err(|error| format!("cannot resolve {host}: {error}"))?;
    let mut problem = format!("{host} has no address");
    for address in found.take(MAX_ADDRESSES) {
        match dial(address).await {
            Ok(stream) => return Ok(stream),
            Err(why) => problem = why,
        }
    }
    Err(problem)
}

async fn dial(address: SocketAddr) -> Result<TcpStream, String> {
    if let Some(why) = refusal(address.ip()) {
        return Err(format!("nothing is sent to {}: {why}", address.ip()));
    }
    let stream = tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(address)).await;
    let stream = stream.map_err(|_| format!("no answer from {address} within {CONNECT_LIMIT:?}"))?;
    let stream = stream.map_err(|error| format!("cannot connect to {address}: {error}"))?;
    // An event is one small write.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_clouds_is_out_of_reach() {
        for address in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
            "0.0.0.0",
            "::",
            "::ffff:0.0.0.0",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
        ] {
            assert!(refusal(address.parse().unwrap()).is_some(), "{address}");
        }
        for address in ["127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "192.0.2.1", "2001:db8::1", "fd00::1"] {
            assert_eq!(refusal(address.parse().unwrap()), None, "{address}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_there_is_refused_too() {
        let refused = connect("169.254.169.254", 80).await.unwrap_err();
        assert!(refused.starts_with("nothing is sent to 169.254.169.254: a link-local address"), "{refused}");
    }
}
