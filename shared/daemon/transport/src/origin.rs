//! The unit by which addresses of peers are counted.

use std::net::{IpAddr, Ipv6Addr};

/// The address of a host: for IPv6 the network of 64 bits that a host is given.
pub fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (!0 << 64)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_of_ipv6_is_one_address() {
        let origin = |text: &str| origin(text.parse().unwrap()).to_string();
        assert_eq!(origin("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_ne!(origin("2001:db8:1:3::1"), origin("2001:db8:1:2::1"));
        assert_eq!((origin("::ffff:192.0.2.7"), origin("192.0.2.8")), ("192.0.2.7".to_owned(), "192.0.2.8".to_owned()));
    }
}
