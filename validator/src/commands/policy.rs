//! `assay-validator policy`.

use assay_fleet::{FileError, FleetPolicy, Group};
use assay_program::exit::{Exit, Failure, print};
use assay_program::render::{Screen, table};
use serde_json::json;

use crate::cli::settings::PolicyCheckArgs;
use crate::fleet::rules::{RulesError, read_policy};

/// Checks the policy file of a fleet: every problem in it, or what it has.
///
/// # Errors
/// The file cannot be read, has problems, or standard output.
pub fn check(args: &PolicyCheckArgs) -> anyhow::Result<Exit> {
    let policy = match read_policy(&args.file) {
        Ok(policy) => policy,
        Err(RulesError::File(error)) if args.json => {
            let FileError { file, problems } = &error;
            print(&serde_json::to_string_pretty(&json!({ "file": file, "problems": problems }))?)?;
            return Ok(Exit::Config);
        }
        Err(error) => return Err(Failure::new(Exit::Config, error.to_string()).into()),
    };
    if args.json {
        print(&serde_json::to_string_pretty(&policy)?)?;
    } else {
        print(&summary(&policy))?;
    }
    Ok(Exit::Done)
}

fn summary(policy: &FleetPolicy) -> String {
    let mut table = table::new(&Screen::stdout(), &["group", "takes", "mean wait", "heavy", "duty", "bands"]);
    for group in &policy.groups {
        table.add_row(row(policy, group));
    }
    table::text(&table)
}

fn row(policy: &FleetPolicy, group: &Group) -> Vec<String> {
    let labels = group.select.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let model = group.select.model.iter().map(|model| format!("model {model}"));
    let takes: Vec<_> = labels.chain(model).collect();
    let is_last = policy.groups.last().is_some_and(|last| last.name == group.name);
    vec![
        group.name.clone(),
        if is_last || takes.is_empty() { "all others".to_owned() } else { takes.join(", ") },
        group.cadence.mean.map_or_else(|| "as set".to_owned(), |mean| format!("{mean:?}")),
        group.heavy.as_ref().map_or_else(|| "-".to_owned(), |heavy| format!("{} %", heavy.share_percent)),
        group.duty_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent} %")),
        if group.bands.enforce_profile || group.bands.enforce_fleet { "enforced" } else { "recorded" }.to_owned(),
    ]
}
