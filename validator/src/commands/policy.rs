//! `assay-validator policy`.

use assay_keeper::fleet::rules::{self, RulesError};
use assay_policy::schedule::budget;
use assay_policy::text::short;
use assay_policy::{FileError, FleetPolicy, Group};
use assay_program::exit::{Exit, Failure, print, print_document};
use assay_program::render::units::figures;
use assay_program::render::{Screen, table};
use serde_json::json;

use crate::cli::settings::PolicyCheckArgs;
use crate::config::{ValidatorConfig, resolve};

/// Checks a fleet's policy file beside the settings: prints every problem in it, or its groups.
///
/// # Errors
/// Unreadable or invalid settings or file, or standard output.
pub fn check(args: &PolicyCheckArgs) -> anyhow::Result<Exit> {
    let settings = ValidatorConfig::check(&resolve(&args.settings)?)?.policy;
    let policy = match rules::read(Some(&args.file), Some(&settings)) {
        Ok(rules) => rules.policy,
        Err(RulesError::File(error)) if args.json => {
            let FileError { file, problems } = &error;
            print(&serde_json::to_string_pretty(&json!({ "file": file, "problems": problems }))?)?;
            return Ok(Exit::Config);
        }
        Err(error) => return Err(Failure::new(Exit::Config, error.to_string()).into()),
    };
    Ok(print_document(&policy, args.json, || summary(&policy))?)
}

fn summary(policy: &FleetPolicy) -> String {
    let mut table = table::new(&Screen::stdout(), &["group", "takes", "mean wait", "heavy", "duty", "bands"]);
    for group in &policy.groups {
        table.add_row(row(policy, group));
    }
    table::text(&table)
}

/// A percentage of a day, with the device time in seconds.
fn duty(percent: f64) -> String {
    format!("{percent} %: {} s a day", figures(budget(percent).as_secs_f64()))
}

fn row(policy: &FleetPolicy, group: &Group) -> Vec<String> {
    let labels = group.select.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let model = group.select.model.iter().map(|model| format!("model {model}"));
    let takes: Vec<_> = labels.chain(model).collect();
    let is_last = policy.groups.last().is_some_and(|last| last.name == group.name);
    vec![
        group.name.clone(),
        if is_last || takes.is_empty() { "all others".to_owned() } else { takes.join(", ") },
        group.cadence.mean.map_or_else(|| "as set".to_owned(), short),
        group.heavy.as_ref().map_or_else(|| "-".to_owned(), |heavy| format!("{} %", heavy.share_percent)),
        group.duty_percent.map_or_else(|| "-".to_owned(), duty),
        if group.bands.enforce_profile || group.bands.enforce_fleet { "enforced" } else { "recorded" }.to_owned(),
    ]
}
