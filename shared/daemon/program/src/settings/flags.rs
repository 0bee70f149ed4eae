//! Settings as they were typed on the command line.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueHint};

use super::number::with_words;
use super::switch::with_switches;
use super::{Origin, SettingsError};

/// The argument that names the configuration file. It has no key of its own in that file.
pub(super) const CONFIG: &str = "config";

/// The flags of the settings `R`, and `--config FILE`, as typed: their values are known only together with the other
/// layers, so they can be read only by [`super::Settings::resolve`].
pub struct Flags<R> {
    matches: ArgMatches,
    of: PhantomData<fn() -> R>,
}

impl<R> Clone for Flags<R> {
    fn clone(&self) -> Self {
        Self { matches: self.matches.clone(), of: PhantomData }
    }
}

impl<R> fmt::Debug for Flags<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flags").field("matches", &self.matches).finish()
    }
}

/// The command that has the arguments of `R` and nothing else.
pub(super) fn definitions<R: Args>() -> Command {
    with_switches(R::augment_args(Command::new("settings"))).mut_args(with_words).disable_help_flag(true)
}

impl<R: Args> Flags<R> {
    /// `--config`, when it was typed.
    pub(super) fn config_file(&self) -> Option<PathBuf> {
        self.matches.get_one::<PathBuf>(CONFIG).cloned()
    }

    /// The values of one setting, when its flag was typed.
    pub(super) fn typed(&self, argument: &Arg) -> Result<Option<Vec<String>>, SettingsError> {
        let id = argument.get_id().as_str();
        let known = definitions::<R>().get_arguments().any(|a| a.get_id() == argument.get_id());
        if !known || self.matches.value_source(id) != Some(ValueSource::CommandLine) {
            return Ok(None);
        }
        let values = self.matches.get_raw(id).into_iter().flatten();
        let text = |value: &std::ffi::OsStr| {
            value.to_str().map(str::to_owned).ok_or_else(|| SettingsError::Value {
                key: id.to_owned(),
                value: value.to_string_lossy().into_owned(),
                origin: Origin::Flag(flag_name(argument)),
                reason: "not UTF-8".to_owned(),
            })
        };
        values.map(text).collect::<Result<_, _>>().map(Some)
    }
}

/// The flag's name without dashes.
pub(super) fn flag_name(argument: &Arg) -> String {
    argument.get_long().unwrap_or(argument.get_id().as_str()).to_owned()
}

impl<R: Args> FromArgMatches for Flags<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { matches: matches.clone(), of: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.matches = matches.clone();
        Ok(())
    }
}

impl<R: Args> Args for Flags<R> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_hint(ValueHint::FilePath)
            .value_parser(clap::value_parser!(PathBuf))
            .help_heading("Configuration")
            .help("TOML file with settings, named as their flags with _ for -");
        let ids: Vec<_> = definitions::<R>().get_arguments().map(|argument| argument.get_id().clone()).collect();
        // Every command has some of them: `-h` shows the command's own options alone.
        with_switches(R::augment_args(command.arg(config))).mut_args(|argument| {
            let is_setting = argument.get_id() == CONFIG || ids.contains(argument.get_id());
            if is_setting { with_words(argument.hide_short_help(true)) } else { argument }
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
