//! Files of operators: the policy with its expectations and profiles, and settings.

use std::io::Write;

use assay_listen::tls::RawTls;
use assay_policy::{FileError, FleetRules, Policy};
use assay_program::settings::{Environment, Flags, Settings};
use clap::FromArgMatches;

use crate::text;

/// A policy file. Its problems are on its lines; its groups give challenges within the bounds of their fields.
pub fn policy_file(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let settings = Policy::default();
    match FleetRules::parse(text, "a file", Some(&settings)) {
        Ok(rules) => {
            let group = rules.policy.group_of(&Default::default(), &["a model"]);
            assert!(rules.policy.group(&group.name).is_some());
            let policy = group.over(&settings, &group.light);
            assert!(policy.iterations > 0 && policy.samples > 0 && policy.segments > 0);
        }
        Err(FileError { problems, .. }) => {
            let lines = 1 + text.bytes().filter(|byte| *byte == b'\n').count();
            assert!(!problems.is_empty() && problems.iter().all(|problem| (1..=lines).contains(&problem.line)));
            assert!(problems.is_sorted_by_key(|problem| problem.line));
        }
    }
}

/// A file of settings.
pub fn settings_file(data: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().expect("the system has a folder for temporary files");
    file.write_all(data).expect("a temporary file is written");
    let path = file.path().to_string_lossy().into_owned();
    let command = <Flags<RawTls> as clap::Args>::augment_args(clap::Command::new("settings"));
    let flags = Flags::<RawTls>::from_arg_matches(&command.get_matches_from(["settings"])).expect("no flag is typed");
    let environment = Environment::new("A_", [("A_CONFIG".to_owned(), path)]);
    match Settings::<RawTls>::resolve(&flags, &environment) {
        Ok(settings) => assert!(!settings.settings().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
