//! `assay-validator approve`, `suspend`, `resume`, `revoke`, `quarantine`, `release` and `label`.

use std::io::Write;

use assay_api::{ChangeLabels, Decision};
use assay_program::exit::{Exit, print_document};
use serde_json::Value;

use super::{ask, labels, text};
use crate::cli::records::{DecideArgs, LabelArgs, LabelEdit};
use crate::escaped;
use crate::place::ApiLocation;

/// Sends a decision about a miner, and prints the miner's new status.
///
/// # Errors
/// No validator answers, or it refuses.
pub fn execute(place: &ApiLocation, args: &DecideArgs, decision: Decision) -> anyhow::Result<Exit> {
    let path = format!("/miners/{}/{}", escaped(&args.miner), decision.name());
    let made: Value = ask(place, async |client| client.act(&path).await)?;
    print_document(&made, args.common.json, || {
        let said = match decision {
            Decision::Quarantine | Decision::Release => text(&made, "state").to_owned(),
            _ => format!("{} → {}", text(&made, "before"), text(&made, "status")),
        };
        format!("miner {}: {said}", text(&made, "key"))
    })?;
    if let Some(note) = made["note"].as_str().filter(|_| !args.common.json) {
        let _ = writeln!(std::io::stderr(), "but {note}");
    }
    Ok(Exit::Done)
}

/// Sets labels, and removes others.
///
/// # Errors
/// No validator answers, or it refuses.
pub fn label(place: &ApiLocation, args: &LabelArgs) -> anyhow::Result<Exit> {
    let mut change = ChangeLabels::default();
    for edit in &args.edits {
        match edit.clone() {
            LabelEdit::Set(name, value) => drop(change.set.insert(name, value)),
            LabelEdit::Remove(name) => change.remove.push(name),
        }
    }
    let path = format!("/miners/{}/labels", escaped(&args.miner));
    let made: Value = ask(place, async |client| client.patch(&path, &change).await)?;
    Ok(print_document(&made, args.common.json, || format!("miner {}: {}", text(&made, "key"), labels(&made)))?)
}
