//! `assay-validator miners`.

use std::collections::BTreeMap;

use assay_api::{ClaimedDevice, MAX_DOCUMENTS, MinerConnection};
use assay_program::exit::{Exit, print_document};
use assay_program::render::{Screen, short_ids, table, units};
use assay_work::text::quoted;

use super::records::{ask, lists};
use super::status::progress;
use crate::cli::running::MinersArgs;
use crate::place::ApiLocation;

/// Lists the miners of a running validator.
///
/// # Errors
/// No validator answers.
pub fn execute(place: &ApiLocation, args: &MinersArgs) -> anyhow::Result<Exit> {
    if args.all || !args.label.is_empty() || args.status.is_some() || args.state.is_some() {
        return lists::miners(place, args);
    }
    let miners: Vec<MinerConnection> = ask(place, async |client| client.list("/connected", &(), MAX_DOCUMENTS).await)?;
    Ok(print_document(&miners, args.common.json, || match &miners[..] {
        [] => "no miner is connected".to_owned(),
        miners => shown(miners, args.wide, &Screen::stdout()),
    })?)
}

/// One line per miner; `wide` with whole keys and all columns.
fn shown(miners: &[MinerConnection], wide: bool, screen: &Screen) -> String {
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

/// One line for the devices that a miner showed before and does not list now.
fn missing(miner: &MinerConnection) -> String {
    let MinerConnection { miner_key, missing_devices, .. } = miner;
    if missing_devices.is_empty() {
        return String::new();
    }
    let ids = short_ids(missing_devices.iter().map(|device| device.device_id));
    let devices: Vec<_> =
        missing_devices.iter().zip(ids).map(|(device, id)| format!("{id} {}", quoted(&device.name))).collect();
    let key: String = miner_key.to_string().chars().take(8).collect();
    format!("\nmissing of {key}: {} (assay-validator forget {key})", devices.join(", "))
}

/// State of a miner: progress of its challenge.
fn state(miner: &MinerConnection) -> String {
    match &miner.challenge {
        Some(challenge) => progress(challenge),
        None => if miner.challenged_now { "challenged" } else { "idle" }.to_owned(),
    }
}

/// Each model once, with the number of its devices.
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
    use assay_protocol::claims::Hardware;
    use assay_protocol::verdict::NamedDevice;
    use assay_work::{DeviceId, PublicKey};

    fn device(id: u8, model: Option<&str>) -> ClaimedDevice {
        let hardware = model.map(|model| Hardware { model: Some(model.to_owned()), ..Hardware::default() });
        ClaimedDevice {
            device_id: DeviceId([id; 16]),
            name: "a name".to_owned(),
            backend: "cuda".to_owned(),
            total_bytes: 0,
            free_bytes: 0,
            slots: Vec::new(),
            hardware,
        }
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
        let lost = NamedDevice { device_id: DeviceId([0xcd; 16]), name: "NVIDIA H200\x1b".to_owned() };
        let shown = shown(&[MinerConnection { missing_devices: vec![lost], ..miner() }], false, &Screen::FILE);
        assert!(shown.ends_with("\nmissing of abababab: cdcdcdcd \"NVIDIA H200 \" (assay-validator forget abababab)"));
    }

    #[test]
    fn the_table_fits_a_terminal() {
        let models = ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H100 80GB HBM3 MIG 2g.20gb"];
        let devices = (0..64).map(|id| device(id, Some(models[usize::from(id) % 2]))).collect();
        let address = "[2001:db8:1234:5678:9abc:def0:1234:5678]:50000".to_owned();
        let one = MinerConnection { devices: 64, claimed_devices: devices, free_bytes: u64::MAX, address, ..miner() };
        let other = MinerConnection { miner_key: PublicKey([1; 32]), connected_seconds: 31_536_000, ..one.clone() };
        let screen = Screen { width: Some(100), colour: false };
        let shown = shown(&[one, other, MinerConnection { miner_key: PublicKey([2; 32]), ..miner() }], false, &screen);
        assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    }

    fn miner() -> MinerConnection {
        MinerConnection {
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
