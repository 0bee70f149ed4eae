//! Settings as a section of a document, written from their definition and held against the page by a test of each
//! program: the page cannot drift from the code.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use assay_program::settings::{Environment, Flags, Settings, SettingsError};
use clap::{Arg, Args, Command, FromArgMatches};

/// Write the page instead of comparing it, where this variable is set.
const WRITE: &str = "ASSAY_WRITE_DOCS";
const WIDTH: usize = 120;
/// Values beyond every bound, one for each type of setting: the refusal names the bound.
const EXTREMES: [&str; 5] = ["18446744073709551615", "4294967295", "1e300", "65535", "1B"];

/// A default that differs from machine to machine, with its words in a document.
#[derive(Debug)]
pub struct LocalDefault {
    /// The default on this machine.
    pub path: PathBuf,
    /// Its meaning on any machine, such as "`miner.key` in the state directory".
    pub meaning: &'static str,
}

/// The settings `R` of a program whose variables start with `prefix`, as Markdown: for each the names, the default, the
/// bound that `check` keeps, and the help.
///
/// # Panics
/// When `R` has no help for a setting.
pub fn markdown<R: Args>(
    prefix: &str,
    check: impl Fn(&Settings<R>) -> Result<(), SettingsError>,
    local: &[LocalDefault],
) -> String {
    let mut lines = Vec::new();
    let mut heading = String::new();
    let flags = Flags::<R>::augment_args(Command::new("settings"));
    // `--config` names the file of the others.
    for argument in flags.get_arguments().filter(|argument| argument.get_id() != "config") {
        let group = argument.get_help_heading().unwrap_or("Other").to_owned();
        if group != heading {
            lines.extend([String::new(), format!("### {group}"), String::new()]);
            heading = group;
        }
        entry(&mut lines, argument, prefix, bound(argument, prefix, &check).as_deref(), local);
    }
    lines.push(String::new());
    lines.join("\n") + "\n"
}

/// Holds the section `name` of a page against `expected`, or writes it where `ASSAY_WRITE_DOCS` is set. A section lies
/// between `<!-- name -->` and `<!-- /name -->`.
///
/// # Errors
/// The text that the section should have, when it differs; the file's error.
pub fn check_section(page: &Path, name: &str, expected: &str) -> Result<(), String> {
    let text = fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let missing = || format!("{} has no section {name}", page.display());
    let (before, rest) = text.split_once(&start).ok_or_else(missing)?;
    let (found, after) = rest.split_once(&end).ok_or_else(missing)?;
    if found == expected {
        return Ok(());
    }
    if env::var_os(WRITE).is_some() {
        let written = format!("{before}{start}{expected}{end}{after}");
        return fs::write(page, written).map_err(|error| format!("{}: {error}", page.display()));
    }
    let differs = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    let (found, expected) = differs.unwrap_or(("(its end)", "(other lines)"));
    Err(format!(
        "{}, section {name}, differs from the code: set {WRITE}=1 and run this test again to write it\n  \
         page: {found}\n  code: {expected}",
        page.display()
    ))
}

fn entry(lines: &mut Vec<String>, argument: &Arg, prefix: &str, bound: Option<&str>, local: &[LocalDefault]) {
    let key = argument.get_id().as_str();
    let variable = format!("{prefix}{}", key.to_uppercase());
    let value = argument.get_value_names().and_then(<[_]>::first).map_or("VALUE", |name| name.as_str());
    let bound = bound.map_or_else(String::new, |bound| format!("; {bound}"));
    lines.push(format!("- **`{key}`**: default {}{bound}\\", default(argument, local)));
    lines.push(format!("  `--{} {value}`, `{variable}`\\", argument.get_long().unwrap_or(key)));
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let help = help.unwrap_or_else(|| panic!("{key} has no help")).to_string();
    wrap(lines, "  ", &format!("{}.", help.trim_end_matches('.')));
    for possible in argument.get_possible_values().iter().filter(|value| value.get_help().is_some()) {
        let meaning = possible.get_help().map(ToString::to_string).unwrap_or_default();
        wrap(lines, "  - ", &format!("`{}`: {}.", possible.get_name(), meaning.trim_end_matches('.')));
    }
}

fn default(argument: &Arg, local: &[LocalDefault]) -> String {
    let values: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if values.is_empty() {
        return "none".to_owned();
    }
    let value = values.join(",");
    let known = local.iter().find(|known| known.path == Path::new(&value));
    known.map_or_else(|| format!("`{value}`"), |known| known.meaning.to_owned())
}

/// The refusal of `check` for a value beyond the bound, without the reason.
fn bound<R: Args>(
    argument: &Arg,
    prefix: &str,
    check: &impl Fn(&Settings<R>) -> Result<(), SettingsError>,
) -> Option<String> {
    let refused = |value: &&str| {
        let variable = (format!("{prefix}{}", argument.get_id().as_str().to_uppercase()), (*value).to_owned());
        let matches = Flags::<R>::augment_args(Command::new("settings")).get_matches_from(["settings"]);
        let flags = Flags::<R>::from_arg_matches(&matches).ok()?;
        let resolved = Settings::<R>::resolve(&flags, &Environment::new(prefix, [variable]));
        match resolved.and_then(|settings| check(&settings)) {
            Err(SettingsError::Value { reason, .. }) => {
                Some(reason.strip_prefix("must be ")?.split(": ").next()?.to_owned())
            }
            _ => None,
        }
    };
    EXTREMES.iter().find_map(refused)
}

/// Breaks a text into lines, the first after `bullet`, the others as far in.
fn wrap(lines: &mut Vec<String>, bullet: &str, text: &str) {
    let mut line = bullet.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::replace(&mut line, " ".repeat(bullet.len())));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
}
