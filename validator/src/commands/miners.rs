//! `assay-validator miners`.

use std::path::Path;

use anyhow::Context;
use assay_shared::program::exit::{Exit, print};
use assay_shared::program::render::{Screen, table, units};
use assay_shared::wire::v1::{self, ListMinersRequest};
use assay_shared::work::PublicKey;
use serde::Serialize;

use super::control;
use crate::cli::MinersArgs;
use crate::config::ValidatorConfig;

/// A miner that is connected.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConnectedMiner {
    /// Its key.
    pub miner_key: PublicKey,
    /// Its program and version: a claim.
    pub agent: String,
    /// Where it connects from.
    pub address: String,
    /// How many devices it has: a claim.
    pub devices: usize,
    /// All their free memory: a claim.
    pub free_bytes: u64,
    /// Whether it is being challenged.
    pub challenged_now: bool,
    /// For how long it has been connected.
    pub connected_seconds: u64,
    /// The last measured round trip.
    pub round_trip_ms: Option<f64>,
}

/// Lists the miners of a running validator.
///
/// # Errors
/// No validator answers on the socket.
pub fn execute(config: &ValidatorConfig, args: &MinersArgs) -> anyhow::Result<Exit> {
    let miners = list(&config.control_socket)?;
    if args.json {
        print(&serde_json::to_string_pretty(&miners)?)?;
    } else if miners.is_empty() {
        print("no miner is connected")?;
    } else {
        print(&shown(&miners, &Screen::stdout()))?;
    }
    Ok(Exit::Done)
}

/// Asks the validator behind a socket.
fn list(socket: &Path) -> anyhow::Result<Vec<ConnectedMiner>> {
    control::block_on(async {
        let mut client = control::connect(socket).await?;
        let listed = client.list_miners(ListMinersRequest {}).await.map_err(|status| control::failure(&status))?;
        listed.into_inner().miners.into_iter().map(ConnectedMiner::try_from).collect()
    })
}

impl TryFrom<v1::ConnectedMiner> for ConnectedMiner {
    type Error = anyhow::Error;

    fn try_from(miner: v1::ConnectedMiner) -> anyhow::Result<Self> {
        let devices = miner.inventory.unwrap_or_default().devices;
        Ok(Self {
            miner_key: PublicKey::try_from(miner.miner_key.as_slice()).context("the validator sent no key")?,
            agent: miner.agent,
            address: miner.address,
            devices: devices.len(),
            free_bytes: devices.iter().map(|d| d.free_bytes).fold(0, u64::saturating_add),
            challenged_now: miner.challenged_now,
            connected_seconds: miner.connected_seconds,
            round_trip_ms: miner.round_trip_ms,
        })
    }
}

fn shown(miners: &[ConnectedMiner], screen: &Screen) -> String {
    let header = ["miner", "address", "agent", "devices", "free GiB", "connected s", "round trip ms", "now"];
    let mut table = table::new(screen, &header);
    for miner in miners {
        table.add_row([
            miner.miner_key.to_string().into(),
            miner.address.as_str().into(),
            units::printable(&miner.agent).into(),
            table::figure(miner.devices),
            table::figure(units::gib(miner.free_bytes)),
            table::figure(miner.connected_seconds),
            table::figure(miner.round_trip_ms.map_or_else(|| "–".to_owned(), units::figures)),
            if miner.challenged_now { "challenged" } else { "idle" }.into(),
        ]);
    }
    table::text(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn miners_are_shown_with_what_they_claim() {
        let miner = ConnectedMiner {
            miner_key: PublicKey([0xab; 32]),
            agent: "assay-miner\x1b 0.1.0".to_owned(),
            address: "127.0.0.1:50000".to_owned(),
            devices: 2,
            free_bytes: 3 << 30,
            challenged_now: true,
            connected_seconds: 61,
            round_trip_ms: None,
        };
        let shown = shown(&[miner], &Screen::FILE);
        for part in [&"ab".repeat(32), "127.0.0.1:50000", "3.00", "61", "challenged"] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        assert!(!shown.contains('\x1b'));
    }
}
