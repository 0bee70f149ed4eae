//! `assay-validator approve`, `suspend`, `resume`, `revoke` and `label`.

use std::io::Write;

use assay_program::exit::{Exit, print};
use assay_protocol::wire::v1::change_request::Change;
use assay_protocol::wire::v1::{LabelChange, StatusAction, StatusChange};

use super::{labels, make, text};
use crate::cli::records::{DecideArgs, LabelArgs, LabelEdit};
use crate::config::ValidatorConfig;

/// Decides whether a miner takes part.
///
/// # Errors
/// No validator answers on the socket, or it refuses.
pub fn execute(config: &ValidatorConfig, args: &DecideArgs, action: StatusAction) -> anyhow::Result<Exit> {
    let change = StatusChange { miner: args.miner.clone(), action: action.into() };
    let made = make(config, Change::Status(change))?;
    if args.common.json {
        print(&serde_json::to_string_pretty(&made)?)?;
    } else {
        print(&format!("miner {}: {} → {}", text(&made, "key"), text(&made, "before"), text(&made, "status")))?;
        if let Some(note) = made["note"].as_str() {
            let _ = writeln!(std::io::stderr(), "but {note}");
        }
    }
    Ok(Exit::Done)
}

/// Sets labels, and takes others away.
///
/// # Errors
/// No validator answers on the socket, or it refuses.
pub fn label(config: &ValidatorConfig, args: &LabelArgs) -> anyhow::Result<Exit> {
    let (mut set, mut remove) = (std::collections::HashMap::new(), Vec::new());
    for edit in &args.edits {
        match edit.clone() {
            LabelEdit::Set(name, value) => drop(set.insert(name, value)),
            LabelEdit::Remove(name) => remove.push(name),
        }
    }
    let made = make(config, Change::Label(LabelChange { miner: args.miner.clone(), set, remove }))?;
    if args.common.json {
        print(&serde_json::to_string_pretty(&made)?)?;
    } else {
        print(&format!("miner {}: {}", text(&made, "key"), labels(&made)))?;
    }
    Ok(Exit::Done)
}
