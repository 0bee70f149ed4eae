//! Who is challenged in the same moment, so that one device cannot stand in for two.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::policy::{RoundScope, Rounds};

/// Bits of an IPv4 address that make a block of one site.
const BLOCK_BITS_V4: u32 = 24;
/// Bits of an IPv6 address that make a block of one site.
const BLOCK_BITS_V6: u32 = 48;

/// A miner that can be in a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The miner.
    pub miner: String,
    /// Whose it is.
    pub operator: Option<String>,
    /// Where it connects from.
    pub address: IpAddr,
    /// The model that its first device claims.
    pub model: Option<String>,
}

/// The block of addresses of one site: `192.0.2.0/24`, `2001:db8:1::/48`.
#[must_use]
pub fn block(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let bits = v4.to_bits() & (u32::MAX << (32 - BLOCK_BITS_V4));
            format!("{}/{BLOCK_BITS_V4}", std::net::Ipv4Addr::from_bits(bits))
        }
        IpAddr::V6(v6) => {
            let bits = v6.to_bits() & (u128::MAX << (128 - BLOCK_BITS_V6));
            format!("{}/{BLOCK_BITS_V6}", std::net::Ipv6Addr::from_bits(bits))
        }
    }
}

/// The rounds of a group: who is challenged with whom, by what they have in common. `draw` gives a number below its
/// argument; it is asked where a round has too many members.
pub fn partition(
    members: &[Member],
    rounds: &Rounds,
    mut draw: impl FnMut(usize) -> usize,
) -> BTreeMap<String, Vec<String>> {
    let mut sets = BTreeMap::<String, Vec<String>>::new();
    for member in members {
        let unknown = || "unknown".to_owned();
        let key = match rounds.by {
            RoundScope::All => "all".to_owned(),
            RoundScope::Operator => member.operator.clone().unwrap_or_else(unknown),
            RoundScope::Address => block(member.address),
            RoundScope::Model => member.model.clone().unwrap_or_else(unknown),
        };
        sets.entry(key).or_default().push(member.miner.clone());
    }
    for set in sets.values_mut() {
        set.sort_unstable();
        set.dedup();
        let Some(most) = rounds.most.map(|most| most as usize).filter(|most| *most < set.len()) else { continue };
        // The first `most` of a shuffle.
        for at in 0..most {
            let drawn = at + draw(set.len() - at).min(set.len() - at - 1);
            set.swap(at, drawn);
        }
        set.truncate(most);
        set.sort_unstable();
    }
    sets
}

#[cfg(test)]
mod tests;
