//! `assay-validator reload` and `assay-validator forget`: changes to a running validator.

use assay_program::exit::{Exit, Failure, print};
use assay_protocol::wire::v1::{ForgetDevicesRequest, ListMinersRequest, ReloadRequest};
use assay_work::PublicKey;

use super::control::{self, Client};
use crate::cli::running::{ForgetArgs, StatusArgs};
use crate::config::ValidatorConfig;
use crate::control::Refusal;

/// Has a running validator read its configuration again, and says what changed.
///
/// # Errors
/// No validator answers on the socket, or it refuses the configuration.
pub fn reload(config: &ValidatorConfig, args: &StatusArgs) -> anyhow::Result<Exit> {
    let answer = control::block_on(async {
        let client = control::connect(&config.control_socket).await?;
        let answer = client.try_ask(|mut rpc| async move { rpc.reload(ReloadRequest {}).await }).await;
        Ok(answer.map_err(|status| match Refusal::of(&status) {
            Some(Refusal::Configuration) => Failure::new(Exit::Config, status.message()),
            _ => client.failure(&status),
        })?)
    })?;
    if args.json {
        let json = serde_json::json!({ "changed": answer.changed, "need_restart": answer.need_restart });
        print(&serde_json::to_string_pretty(&json)?)?;
        return Ok(Exit::Done);
    }
    match answer.changed.as_slice() {
        [] => print("no setting in effect has changed; log files are reopened")?,
        changed => print(&format!("in effect now: {}", changed.join(", ")))?,
    }
    if !answer.need_restart.is_empty() {
        print(&format!("take a restart: {}", answer.need_restart.join(", ")))?;
    }
    Ok(Exit::Done)
}

/// Has a running validator forget the devices that a miner showed.
///
/// # Errors
/// No validator answers on the socket, or no miner is meant.
pub fn forget(config: &ValidatorConfig, args: &ForgetArgs) -> anyhow::Result<Exit> {
    let (key, devices) = control::block_on(async {
        let client = control::connect(&config.control_socket).await?;
        let key = meant(&client, args).await?;
        let request = ForgetDevicesRequest { miner_key: key.0.to_vec() };
        let answer = client.ask(|mut rpc| async move { rpc.forget_devices(request).await }).await?;
        Ok((key, answer.devices))
    })?;
    if args.json {
        print(&serde_json::json!({ "miner_key": key, "devices": devices }).to_string())?;
    } else {
        let devices = if devices == 1 { "1 device".to_owned() } else { format!("{devices} devices") };
        print(&format!("forgot {devices} of miner {key}"))?;
    }
    Ok(Exit::Done)
}

/// The key typed in full, or the one of a connected miner that starts so.
async fn meant(client: &Client, args: &ForgetArgs) -> Result<PublicKey, Failure> {
    if let Ok(key) = args.miner.to_string().parse() {
        return Ok(key);
    }
    let miners = client.ask(|mut rpc| async move { rpc.list_miners(ListMinersRequest {}).await }).await?.miners;
    let key = args.miner.find(miners.into_iter().map(|miner| miner.miner_key));
    let key = key.map_err(|error| {
        Failure::new(Exit::Usage, format!("{error}; a miner that is not connected takes its whole key"))
    })?;
    PublicKey::try_from(&key[..]).map_err(|_| Failure::new(Exit::Io, "the validator sent no key"))
}
