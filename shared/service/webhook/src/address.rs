//! Resolution of a webhook's host, and forbidden networks: webhooks must not reach services that only this machine may
//! use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};

/// The most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;
/// Time limit for each of them.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// Reasons to refuse a network.
const METADATA: &str = "where clouds have their metadata";
const NO_HOST: &str = "no address of a host";
const TRANSLATED: &str = "an address in which another one is hidden";
/// IPv6 addresses of IPv4-only hosts (RFC 6052): the embedded address is judged.
const NAT64: u128 = 0x64_ff9b << 96;

/// Forbidden networks. Loopback and private networks are allowed, since receivers are there; a cloud's metadata service
/// hands out credentials to any process on this machine.
const REFUSED: [(Ipv6Addr, u32, &str); 14] = [
    v4([169, 254, 0, 0], 16, "a link-local address, where clouds have their metadata"),
    v4([100, 100, 100, 200], 32, METADATA),
    v4([168, 63, 129, 16], 32, METADATA),
    v4([192, 0, 0, 192], 32, METADATA),
    v4([0, 0, 0, 0], 8, NO_HOST),
    v4([224, 0, 0, 0], 4, "a multicast address"),
    v4([240, 0, 0, 0], 4, NO_HOST),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "a link-local address, where clouds have their metadata"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "a multicast address"),
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32, METADATA),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128, METADATA),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, TRANSLATED),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, TRANSLATED),
    (Ipv6Addr::UNSPECIFIED, 96, TRANSLATED),
];

/// An IPv4 network in its IPv6 form.
const fn v4(octets: [u8; 4], bits: u32, why: &'static str) -> (Ipv6Addr, u32, &'static str) {
    let [a, b, c, d] = octets;
    (Ipv4Addr::new(a, b, c, d).to_ipv6_mapped(), 96 + bits, why)
}

/// The reason to refuse an address; `None` for an allowed one.
pub fn refusal(address: IpAddr) -> Option<&'static str> {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) if address.to_bits() >> 32 == NAT64 >> 32 => {
            Ipv4Addr::from_bits(address.to_bits() as u32).to_ipv6_mapped()
        }
        IpAddr::V6(address) => address,
    };
    let is_in = |network: Ipv6Addr, bits: u32| (network.to_bits() ^ address.to_bits()) >> (128 - bits) == 0;
    let found = REFUSED.iter().find(|(network, bits, _)| is_in(*network, *bits))?;
    (!address.is_loopback()).then_some(found.2)
}

/// Connects to a host, by the first of its addresses that answers. The check is on the address itself, after the lookup
/// of the name.
///
/// # Errors
/// The reason for the failure.
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
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "::ffff:168.63.129.16",
            "fd20:ce::254",
            "0.1.2.3",
            "240.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::100.100.100.200",
            "64:ff9b:1::1",
            "2002:a9fe:a9fe::1",
            "::169.254.169.254",
            "::8.8.8.8",
        ] {
            assert!(refusal(address.parse().unwrap()).is_some(), "{address}");
        }
        for address in [
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "10.0.0.1",
            "100.100.100.199",
            "192.168.1.1",
            "192.0.2.1",
            "223.255.255.255",
            "64:ff9b::192.0.2.1",
            "2001:db8::1",
            "2003::1",
            "fd00::1",
        ] {
            assert_eq!(refusal(address.parse().unwrap()), None, "{address}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_there_is_refused_too() {
        let refused = connect("169.254.169.254", 80).await.unwrap_err();
        assert!(refused.starts_with("nothing is sent to 169.254.169.254: a link-local address"), "{refused}");
    }
}
