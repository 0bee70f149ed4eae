//! `assay-validator miners`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use assay_program::exit::{Exit, print};
use assay_program::render::{Screen, short_ids, table, units};
use assay_protocol::claims::Hardware;
use assay_protocol::message::{DeviceClaim, Inventory};
use assay_protocol::wire::v1::{self, ListMinersRequest};
use assay_work::text::quoted;
use assay_work::{DeviceId, PublicKey};
use serde::Serialize;

use super::control;
use super::records::lists;
use super::status::ChallengeRow;
use crate::cli::running::MinersArgs;
use crate::config::ValidatorConfig;

/// A miner that is connected.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MinerRow {
    /// Its key.
    pub miner_key: PublicKey,
    /// Its program and version: a claim.
    pub agent: String,
    /// Where it connects from.
    pub address: String,
    /// How many devices it has: a claim.
    pub devices: usize,
    /// What it says of each: claims.
    pub claimed_devices: Vec<ClaimedDevice>,
    /// All their free memory: a claim.
    pub free_bytes: u64,
    /// Whether it is being challenged.
    pub challenged_now: bool,
    /// The challenge that it works on.
    pub challenge: Option<ChallengeRow>,
    /// For how long it has been connected.
    pub connected_seconds: u64,
    /// The devices that it showed before and does not list now.
    pub missing_devices: Vec<MissingDevice>,
    /// The last measured round trip.
    pub round_trip_ms: Option<f64>,
}

/// A device as its miner describes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimedDevice {
    /// The device.
    pub device_id: DeviceId,
    /// The model.
    pub name: String,
    /// The backend's name.
    pub backend: String,
    /// What its management library says of it.
    pub hardware: Option<Hardware>,
}

/// A device that a miner showed before and does not list now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingDevice {
    /// The device.
    pub device_id: DeviceId,
    /// The name that it had: a claim.
    pub name: String,
}

/// Lists the miners of a running validator.
///
/// # Errors
/// No validator answers on the socket.
pub fn execute(config: &ValidatorConfig, args: &MinersArgs) -> anyhow::Result<Exit> {
    if args.all || !args.label.is_empty() || args.status.is_some() || args.state.is_some() {
        return lists::miners(config, args);
    }
    let miners = list(&config.control_socket)?;
    if args.json {
        print(&serde_json::to_string_pretty(&miners)?)?;
    } else if miners.is_empty() {
        print("no miner is connected")?;
    } else {
        print(&shown(&miners, args.wide, &Screen::stdout()))?;
    }
    Ok(Exit::Done)
}

/// Asks the validator behind a socket.
fn list(socket: &Path) -> anyhow::Result<Vec<MinerRow>> {
    control::block_on(async {
        let client = control::connect(socket).await?;
        let listed = client.ask(|mut rpc| async move { rpc.list_miners(ListMinersRequest {}).await }).await?;
        listed.miners.into_iter().map(MinerRow::try_from).collect()
    })
}

impl TryFrom<v1::ConnectedMiner> for MinerRow {
    type Error = anyhow::Error;

    fn try_from(miner: v1::ConnectedMiner) -> anyhow::Result<Self> {
        let inventory = Inventory::try_from(miner.inventory.unwrap_or_default());
        let devices = inventory.context("the validator sent no inventory")?.devices;
        Ok(Self {
            miner_key: PublicKey::try_from(miner.miner_key.as_slice()).context("the validator sent no key")?,
            agent: miner.agent,
            address: miner.address,
            devices: devices.len(),
            free_bytes: devices.iter().map(|d| d.free_bytes).fold(0, u64::saturating_add),
            claimed_devices: devices.into_iter().map(ClaimedDevice::from).collect(),
            challenged_now: miner.challenged_now,
            challenge: miner.challenge.map(ChallengeRow::try_from).transpose()?,
            connected_seconds: miner.connected_seconds,
            missing_devices: miner
                .missing_devices
                .into_iter()
                .map(MissingDevice::try_from)
                .collect::<Result<_, _>>()?,
            round_trip_ms: miner.round_trip_ms,
        })
    }
}

impl TryFrom<v1::NamedDevice> for MissingDevice {
    type Error = anyhow::Error;

    fn try_from(device: v1::NamedDevice) -> anyhow::Result<Self> {
        let v1::NamedDevice { device_id, name } = device;
        Ok(Self { device_id: DeviceId::try_from(&device_id[..]).context("the validator sent no device's id")?, name })
    }
}

impl From<DeviceClaim> for ClaimedDevice {
    fn from(device: DeviceClaim) -> Self {
        let DeviceClaim { id, name, backend, claimed_hardware, .. } = device;
        Self { device_id: id, name, backend, hardware: claimed_hardware }
    }
}

/// A line for each miner; `wide` with whole keys and all columns.
fn shown(miners: &[MinerRow], wide: bool, screen: &Screen) -> String {
    let mut header = vec!["miner", "address", "claimed models", "free GiB", "connected s", "RTT ms", "state"];
    if wide {
        header.extend(["devices", "agent"]);
    }
    let mut table = table::new(screen, &header);
    for (miner, short_key) in miners.iter().zip(short_ids(miners.iter().map(|miner| miner.miner_key))) {
        let key = if wide { miner.miner_key.to_string() } else { short_key };
        let mut cells = vec![
            table::id(key),
            table::id(&miner.address),
            models(&miner.claimed_devices).into(),
            table::figure(units::gib(miner.free_bytes)),
            table::figure(miner.connected_seconds),
            table::figure(miner.round_trip_ms.map_or_else(|| "–".to_owned(), units::figures)),
            state(miner).into(),
        ];
        if wide {
            cells.extend([table::figure(miner.devices), quoted(&miner.agent).to_string().into()]);
        }
        table.add_row(cells);
    }
    let mut out = table::text(&table);
    for miner in miners {
        out += &missing(miner);
    }
    out
}

/// A line for the devices that a miner showed before and does not list now.
fn missing(miner: &MinerRow) -> String {
    let MinerRow { miner_key, missing_devices, .. } = miner;
    if missing_devices.is_empty() {
        return String::new();
    }
    let ids = short_ids(missing_devices.iter().map(|device| device.device_id));
    let devices: Vec<_> =
        missing_devices.iter().zip(ids).map(|(device, id)| format!("{id} {}", quoted(&device.name))).collect();
    let key: String = miner_key.to_string().chars().take(8).collect();
    format!("\nmissing of {key}: {} (assay-validator forget {key})", devices.join(", "))
}

/// What a miner does: how far its challenge is.
fn state(miner: &MinerRow) -> String {
    match &miner.challenge {
        Some(challenge) => challenge.progress(),
        None => if miner.challenged_now { "challenged" } else { "idle" }.to_owned(),
    }
}

/// Each model once, with how many there are.
fn models(devices: &[ClaimedDevice]) -> String {
    let mut counts = BTreeMap::new();
    for device in devices {
        let model = device.hardware.as_ref().and_then(|hardware| hardware.model.as_deref());
        *counts.entry(quoted(model.unwrap_or(&device.name)).to_string()).or_insert(0_usize) += 1;
    }
    counts.into_iter().map(|(model, count)| format!("{count} × {model}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(id: u8, model: Option<&str>) -> ClaimedDevice {
        let hardware = model.map(|model| Hardware { model: Some(model.to_owned()), ..Hardware::default() });
        ClaimedDevice { device_id: DeviceId([id; 16]), name: "a name".to_owned(), backend: "cuda".to_owned(), hardware }
    }

    #[test]
    fn miners_are_shown_with_what_they_claim() {
        let miner = miner();
        let narrow = shown(std::slice::from_ref(&miner), false, &Screen::FILE);
        assert!(narrow.contains("\nabababab ") && !narrow.contains("assay-miner"), "{narrow}");
        let shown = shown(&[miner], true, &Screen::FILE);
        for part in
            [&"ab".repeat(32), "127.0.0.1:50000", "2 × \"NVIDIA H200 \"", "1 × \"a name\"", "3.00", "61", "challenged"]
        {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        assert!(!shown.contains('\x1b'));
    }

    #[test]
    fn devices_that_are_missing_are_named() {
        let lost = MissingDevice { device_id: DeviceId([0xcd; 16]), name: "NVIDIA H200\x1b".to_owned() };
        let shown = shown(&[MinerRow { missing_devices: vec![lost], ..miner() }], false, &Screen::FILE);
        assert!(shown.ends_with("\nmissing of abababab: cdcdcdcd \"NVIDIA H200 \" (assay-validator forget abababab)"));
    }

    #[test]
    fn the_table_fits_a_terminal() {
        let models = ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H100 80GB HBM3 MIG 2g.20gb"];
        let devices = (0..64).map(|id| device(id, Some(models[usize::from(id) % 2]))).collect();
        let address = "[2001:db8:1234:5678:9abc:def0:1234:5678]:50000".to_owned();
        let one = MinerRow { devices: 64, claimed_devices: devices, free_bytes: u64::MAX, address, ..miner() };
        let other = MinerRow { miner_key: PublicKey([1; 32]), connected_seconds: 31_536_000, ..one.clone() };
        let screen = Screen { width: Some(100), colour: false };
        let shown = shown(&[one, other, MinerRow { miner_key: PublicKey([2; 32]), ..miner() }], false, &screen);
        assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    }

    fn miner() -> MinerRow {
        MinerRow {
            miner_key: PublicKey([0xab; 32]),
            agent: "assay-miner\x1b 0.1.0".to_owned(),
            address: "127.0.0.1:50000".to_owned(),
            devices: 3,
            claimed_devices: vec![
                device(1, Some("NVIDIA H200\x1b")),
                device(2, None),
                device(3, Some("NVIDIA H200\x1b")),
            ],
            free_bytes: 3 << 30,
            challenged_now: true,
            challenge: None,
            missing_devices: Vec::new(),
            connected_seconds: 61,
            round_trip_ms: None,
        }
    }
}
