//! Commands, flags and settings in the examples of `deploy/` and the units of `packaging/` exist in the programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory, Parser};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let below = entries
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    below.collect()
}

/// The examples and the units, with their names.
fn texts() -> Vec<(PathBuf, String)> {
    let folders = ["deploy", "packaging/systemd"].map(|folder| workspace().join(folder));
    let files = folders.iter().flat_map(|folder| files(folder));
    files.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The commands of our programs in a text: `[assay-…, …]` of YAML and Dockerfiles, lines of units and scripts, and the
/// remedies of alerts.
fn commands(text: &str) -> Vec<Vec<String>> {
    // Values of the chart stand for a number and a time.
    let joined = text.replace("{{ .Values.miner.gpus | quote }}", "8");
    let joined = joined.replace("{{ .Values.miner.passWithin | quote }}", "24h").replace("\\\n", " ");
    let words = |line: &str| -> Vec<String> {
        let words = line.split_whitespace().map(|word| word.trim_matches(['"', ',', '\'']).to_owned());
        words.filter(|word| !word.is_empty()).collect()
    };
    let mut found = Vec::new();
    for line in joined.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if let Some((_, list)) = line.split_once('[').filter(|(_, rest)| rest.trim_matches('"').starts_with("assay-")) {
            found.push(words(list.trim_end().trim_end_matches(']')));
        }
        let quoted = line.split('`').skip(1).step_by(2);
        found.extend(quoted.filter(|command| command.starts_with("assay-")).map(words));
        for start in ["ExecStart=/usr/bin/", "$("] {
            if let Some((_, command)) = line.split_once(start).filter(|(_, rest)| rest.starts_with("assay-")) {
                found.push(words(command.trim_end().trim_end_matches(')')));
            }
        }
    }
    found
}

#[test]
fn every_command_is_one_that_the_programs_take() {
    let mut seen = BTreeSet::new();
    for (path, text) in texts() {
        for words in commands(&text) {
            // A variable of a script stands for a number or a size.
            let values = words.iter().map(|word| match word.as_str() {
                "$devices" => "8",
                "$min_memory" => "1GiB",
                "$verdict_within" => "24h",
                "ID" => "1894846d",
                "KEY" => "7b41c09e",
                word => word,
            });
            let values: Vec<_> = values.collect();
            // The image's entry point, or with a command of its own.
            let has_command = values.len() > 1;
            let error = match values[0] {
                "assay-miner" if has_command => assay_miner::cli::Cli::try_parse_from(&values).err(),
                "assay-validator" if has_command => assay_validator::cli::Cli::try_parse_from(&values).err(),
                "assay-miner" | "assay-validator" => None,
                other => panic!("{}: no program {other}", path.display()),
            };
            assert!(error.is_none(), "{}: {words:?}: {}", path.display(), error.unwrap());
            seen.insert(values.join(" "));
        }
    }
    for part in [
        "assay-miner run --config",
        "assay-validator serve --config",
        "assay-miner check --timeout 45s",
        "assay-miner status",
        "assay-validator verdicts --outcome fail",
    ] {
        assert!(seen.iter().any(|command| command.starts_with(part)), "{part} in {seen:#?}");
    }
}

/// The examples in the help of a command and of those below it.
fn examples(command: &Command, found: &mut Vec<String>) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    found.extend(help.lines().map(str::trim).filter(|line| line.starts_with("assay-")).map(str::to_owned));
    command.get_subcommands().for_each(|command| examples(command, found));
}

#[test]
fn every_example_of_the_help_is_one_that_the_programs_take() {
    let (mut lines, key, id) = (Vec::new(), "7b41c09e".repeat(8), "1894846d".repeat(4));
    examples(&assay_miner::cli::Cli::command(), &mut lines);
    examples(&assay_validator::cli::Cli::command(), &mut lines);
    assert!(lines.len() > 60, "{lines:#?}");
    for line in lines {
        // Up to what the shell does with it.
        let own = line.replace("\"$(assay-validator address)\"", "assay://127.0.0.1:7400#KEY");
        let own = own.replace("VKEY", "witness.example.com/w1+9ed3c472+BOkyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k");
        let own = own.replace("KEY", &key).replace("ID:", &format!("{id}:"));
        let own = [" | ", " > ", " >> ", " < ", " && ", " || ", " >/"]
            .iter()
            .fold(own.as_str(), |own, sign| own.split(sign).next().unwrap());
        let words: Vec<_> = own.split_whitespace().collect();
        let error = match words[0] {
            "assay-miner" => assay_miner::cli::Cli::try_parse_from(&words).err(),
            _ => assay_validator::cli::Cli::try_parse_from(&words).err(),
        };
        assert!(error.is_none(), "{line}: {}", error.unwrap());
    }
}

#[test]
fn every_variable_is_a_setting() {
    let names = |prefix: &str, command: Command| -> Vec<String> {
        let names = command.get_arguments().map(|argument| argument.get_id().to_string().to_uppercase());
        names.map(|name| format!("{prefix}{name}")).collect()
    };
    let mut known = names("ASSAY_MINER_", assay_miner::config::RawConfig::augment_args(Command::new("miner")));
    known
        .extend(names("ASSAY_VALIDATOR_", assay_validator::config::RawConfig::augment_args(Command::new("validator"))));
    let mut count = 0;
    for (path, text) in texts() {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with("ASSAY_")) {
            assert!(known.iter().any(|name| name == word), "{}: {word} is no setting", path.display());
            count += 1;
        }
    }
    assert!(count >= 8, "{count} variables");
}

/// The settings that a package puts into `/etc/assay` are valid, and so is each line in them that can be uncommented.
#[test]
fn the_packaged_settings_are_settings() {
    let programs = [
        ("miner", assay_miner::config::RawConfig::augment_args(Command::new("miner"))),
        ("validator", assay_validator::config::RawConfig::augment_args(Command::new("validator"))),
    ];
    for (name, command) in programs {
        let path = workspace().join(format!("packaging/etc/{name}.toml"));
        let text = fs::read_to_string(path).unwrap();
        let known: Vec<_> = command.get_arguments().map(|argument| argument.get_id().to_string()).collect();
        let lines = text.lines().map(|line| line.trim_start_matches("# "));
        let keys: Vec<_> = lines.filter_map(|line| line.split_once(" = ")).map(|(key, _)| key).collect();
        assert!(keys.len() > 3, "{keys:?}");
        for key in keys {
            assert!(known.iter().any(|name| name == key), "{name}.toml: {key} is no setting");
        }
    }
}
