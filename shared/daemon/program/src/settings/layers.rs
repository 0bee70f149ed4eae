//! The layers, merged.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Args, Command};

use super::file::{self, SettingEntry};
use super::flags::{CONFIG, Flags, definitions, flag_name};
use super::switch::is_switch;
use super::{AbsenceReason, Origin, SettingsError};

/// How similar an unknown name must be to a known one for that to be proposed (Jaro-Winkler, 0 to 1).
const SIMILAR: f64 = 0.8;

#[derive(Debug, Clone, Default)]
pub struct Environment {
    prefix: String,
    values: BTreeMap<String, String>,
    absence: Option<AbsenceReason>,
    /// Where the configuration file of this machine is, if there is one.
    system_file: Option<PathBuf>,
}

impl Environment {
    /// The variables of this process that start with `prefix`, such as `ASSAY_MINER_`.
    ///
    /// # Errors
    /// [`SettingsError::Value`] when one of them is not UTF-8.
    pub fn of_process(prefix: &str) -> Result<Self, SettingsError> {
        let mut values = Vec::new();
        for (name, value) in std::env::vars_os() {
            let Ok(name) = name.into_string() else { continue };
            if !name.starts_with(prefix) {
                continue;
            }
            let value = value.into_string().map_err(|raw| SettingsError::Value {
                key: name.clone(),
                value: raw.to_string_lossy().into_owned(),
                origin: Origin::Environment(name.clone()),
                reason: "not UTF-8".to_owned(),
            })?;
            values.push((name, value));
        }
        Ok(Self::new(prefix, values))
    }

    /// The variables among these that start with `prefix`. An empty one counts as not set, as service managers and
    /// containers leave them.
    pub fn new(prefix: &str, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let is_set = |(name, value): &(String, String)| name.starts_with(prefix) && !value.is_empty();
        let values = variables.into_iter().filter(is_set).collect();
        Self { prefix: prefix.to_owned(), values, absence: None, system_file: None }
    }

    /// Adds the explanation of keys that this build lacks.
    pub fn with_absence(self, absence: AbsenceReason) -> Self {
        Self { absence: Some(absence), ..self }
    }

    /// Adds the configuration file that is read where no file is named: `NAME.toml` of the machine's settings
    /// ([`crate::paths::system_file`]), if it exists.
    pub fn with_system_file(self, path: Option<PathBuf>) -> Self {
        Self { system_file: path, ..self }
    }

    /// The same, without a variable that is not a setting: a secret.
    pub fn without(mut self, name: &str) -> Self {
        self.values.remove(name);
        self
    }

    fn config_file(&self) -> Option<PathBuf> {
        let named = self.values.get(&self.name(CONFIG)).map(PathBuf::from);
        // One that cannot be looked at is an error when it is read: settings are not left out in silence.
        let is_there = |path: &&PathBuf| !matches!(path.try_exists(), Ok(false));
        named.or_else(|| self.system_file.as_ref().filter(is_there).cloned())
    }

    fn name(&self, key: &str) -> String {
        format!("{}{}", self.prefix, key.to_uppercase())
    }

    /// Each variable as the setting that it means, the one for the configuration file aside.
    fn entries(&self) -> BTreeMap<String, SettingEntry> {
        let key = |name: &str| name[self.prefix.len()..].to_lowercase();
        let entry = |(name, value): (&String, &String)| {
            // An upper-case key is the only spelling: others are kept as they are, and so are unknown.
            let exact = self.name(&key(name)) == *name;
            let key = if exact { key(name) } else { name[self.prefix.len()..].to_owned() };
            (key, SettingEntry::new(vec![value.clone()], Origin::Environment(name.clone())))
        };
        self.values.iter().filter(|(name, _)| **name != self.name(CONFIG)).map(entry).collect()
    }
}

/// The value of one setting, as text, and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The name in a file.
    pub key: String,
    /// Empty when the setting is not given and has no default; one value, or any count for a list.
    pub values: Vec<String>,
    pub is_list: bool,
    /// Whether its values are numbers or true and false, rather than texts.
    pub is_plain: bool,
    pub origin: Origin,
}

/// All settings `R`, each value from the highest layer that names it.
#[derive(Debug, Clone)]
pub struct Settings<R> {
    pub raw: R,
    pub(super) settings: Vec<Setting>,
}

impl<R: Args> Settings<R> {
    /// Lays the layers over one another. A command may have flags for some of the settings only (`F`).
    ///
    /// # Errors
    /// [`SettingsError`] for a file that cannot be read or parsed, an unknown key in the file or the
    /// environment, or a value that does not parse.
    pub fn resolve<F: Args>(flags: &Flags<F>, environment: &Environment) -> Result<Self, SettingsError> {
        let definitions = definitions::<R>();
        let path = flags.config_file().or_else(|| environment.config_file());
        let mut from_file = path.as_deref().map(file::read).transpose()?.unwrap_or_default();
        let mut from_environment = environment.entries();
        for (key, entry) in from_file.iter().chain(&from_environment) {
            check_known(&definitions, key, &entry.origin, environment.absence)?;
        }
        let mut settings = Vec::new();
        for argument in definitions.get_arguments() {
            let key = argument.get_id().as_str();
            let typed = flags.typed(argument)?;
            let typed = typed.map(|values| SettingEntry::new(values, Origin::Flag(flag_name(argument))));
            // Lower layers are parsed too: a mistake does not hide behind a higher layer.
            let lower = [from_file.remove(key), from_environment.remove(key)];
            let mut chosen = default_of(argument);
            for entry in lower.into_iter().flatten() {
                check_parses(&definitions, argument, &entry)?;
                chosen = entry;
            }
            settings.push(setting(argument, typed.unwrap_or(chosen)));
        }
        Ok(Self { raw: parse(definitions, &settings)?, settings })
    }

    /// Every setting, in the order of their definition.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The setting of this name.
    ///
    /// # Panics
    /// When `R` has no such setting.
    pub fn setting(&self, key: &str) -> &Setting {
        let found = self.settings.iter().find(|s| s.key == key);
        found.unwrap_or_else(|| panic!("{key} is not a setting"))
    }
}

fn default_of(argument: &Arg) -> SettingEntry {
    let values = argument.get_default_values().iter().map(|v| v.to_string_lossy().into_owned()).collect();
    SettingEntry::new(values, Origin::Default)
}

fn setting(argument: &Arg, entry: SettingEntry) -> Setting {
    use std::any::TypeId;
    let parsed = argument.get_value_parser().type_id();
    let numbers = [TypeId::of::<u32>(), TypeId::of::<u64>(), TypeId::of::<usize>(), TypeId::of::<f64>()];
    let (is_list, values) = (is_list(argument), values_of(argument, &entry));
    let is_plain = is_switch(argument) || numbers.into_iter().any(|id| parsed == id);
    Setting { key: argument.get_id().as_str().to_owned(), values, is_list, is_plain, origin: entry.origin }
}

fn is_list(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append)
}

/// The values to parse.
fn values_of(argument: &Arg, entry: &SettingEntry) -> Vec<String> {
    if !is_list(argument) {
        return entry.values.clone();
    }
    let values = entry.values.iter().flat_map(|v| v.split(',')).filter(|v| !v.is_empty());
    let mut values: Vec<_> = values.map(str::to_owned).collect();
    if values.is_empty() && !argument.get_default_values().is_empty() {
        // The parser would take the default.
        values.push(String::new());
    }
    values
}

fn check_known(
    definitions: &Command,
    key: &str,
    origin: &Origin,
    absence: Option<AbsenceReason>,
) -> Result<(), SettingsError> {
    let known = || definitions.get_arguments().map(|a| a.get_id().as_str());
    if known().any(|k| k == key) {
        return Ok(());
    }
    let wanted = key.to_lowercase().replace('-', "_");
    if let Some(why) = absence.and_then(|absence| absence(&wanted)) {
        let (key, origin) = (key.to_owned(), origin.clone());
        return Err(SettingsError::Absent { key, origin, why });
    }
    let similarity = |candidate: &str| strsim::jaro_winkler(&wanted, candidate);
    let nearest = known().max_by(|a, b| similarity(a).total_cmp(&similarity(b))).filter(|k| similarity(k) >= SIMILAR);
    Err(SettingsError::Unknown { key: key.to_owned(), origin: origin.clone(), nearest: nearest.map(str::to_owned) })
}

fn check_parses(definitions: &Command, argument: &Arg, entry: &SettingEntry) -> Result<(), SettingsError> {
    let wrong = |reason: String| SettingsError::Value {
        key: argument.get_id().as_str().to_owned(),
        value: format!("{:?}", entry.values.join(",")),
        origin: entry.origin.clone(),
        reason,
    };
    if entry.is_bare_bool && !is_switch(argument) {
        return Err(wrong("expected a text in quotes or a number, not true or false".to_owned()));
    }
    let values = values_of(argument, entry);
    if !is_list(argument) && values.len() != 1 {
        return Err(wrong("expected one value, not a list".to_owned()));
    }
    let line = std::iter::once("settings".to_owned()).chain(values.iter().map(|v| typed_as(argument, v)));
    match definitions.clone().try_get_matches_from(line) {
        Ok(_) => Ok(()),
        Err(error) => Err(wrong(reason_of(&error))),
    }
}

fn typed_as(argument: &Arg, value: &str) -> String {
    format!("--{}={value}", flag_name(argument))
}

/// Clap's reason against a value, without its mention of flags.
fn reason_of(error: &clap::Error) -> String {
    if let Some(ContextValue::Strings(possible)) = error.get(ContextKind::ValidValue) {
        let possible: Vec<_> = possible.iter().filter(|p| !p.is_empty()).map(String::as_str).collect();
        if !possible.is_empty() {
            return format!("expected one of {}", possible.join(", "));
        }
    }
    std::error::Error::source(error).map_or_else(|| "expected a value".to_owned(), ToString::to_string)
}

/// Parses the chosen values, one setting for each definition, in their order.
fn parse<R: Args>(definitions: Command, settings: &[Setting]) -> Result<R, SettingsError> {
    let mut line = vec!["settings".to_owned()];
    for (argument, setting) in definitions.get_arguments().zip(settings) {
        // Clap has its defaults itself.
        if setting.origin != Origin::Default {
            line.extend(setting.values.iter().map(|value| typed_as(argument, value)));
        }
    }
    // Each value has been parsed once before: the errors left are arguments at odds with each other.
    let wrong = |error: clap::Error| SettingsError::Together(error.to_string());
    let matches = definitions.try_get_matches_from(line).map_err(wrong)?;
    R::from_arg_matches(&matches).map_err(wrong)
}
