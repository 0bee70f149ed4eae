//! Settings of challenges and their verification: made from the table of fields.

use std::path::PathBuf;
use std::time::Duration;

use assay_client::cli::possible;
use assay_policy::challenge::PROBE_DEADLINE_TARGETS;
use assay_policy::fields::{Bounds, FIELDS, Field, OutOfBounds, Value};
use assay_policy::{Overrides, Policy};
use assay_program::settings::{Settings, SettingsError, Switch};
use assay_work::Precision;
use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

/// Setting with the file of expectations.
pub const EXPECTATIONS: &str = "expectations";

/// The policy as written.
#[derive(Debug, Clone)]
pub struct RawPolicy {
    /// Fields that differ from their defaults.
    values: Vec<(&'static Field, Value)>,
    /// File with the expectations of miners' hosts.
    pub expectations: Option<PathBuf>,
}

fn argument(field: &'static Field) -> Arg {
    let argument = Arg::new(field.setting).long(field.setting.replace('_', "-")).value_name(field.unit);
    let argument = argument.help(field.help()).action(ArgAction::Set).value_parser(parser(field.bounds));
    let argument = match field.bounds {
        Bounds::Kinds => argument.action(ArgAction::Append).value_delimiter(','),
        _ => argument,
    };
    if field.default.is_empty() { argument } else { argument.default_value(field.default) }
}

fn parser(bounds: Bounds) -> ValueParser {
    match bounds {
        Bounds::Whole(..) | Bounds::Power(..) => value_parser!(u32).into(),
        Bounds::Number(..) => value_parser!(f64).into(),
        Bounds::Seconds(..) | Bounds::Millis(..) => value_parser!(u64).into(),
        Bounds::Switch => value_parser!(Switch),
        Bounds::Word(words) => possible(words).into(),
        Bounds::Kinds => value_parser!(Precision).into(),
    }
}

/// The typed value; `None` for the default.
fn typed(field: &Field, matches: &ArgMatches) -> Option<Value> {
    let id = field.setting;
    matches.value_source(id).filter(|source| *source != ValueSource::DefaultValue)?;
    Some(match field.bounds {
        Bounds::Whole(..) | Bounds::Power(..) => Value::Whole(*matches.get_one(id)?),
        Bounds::Number(..) => Value::Number(*matches.get_one(id)?),
        Bounds::Seconds(..) => Value::Time(Duration::from_secs(*matches.get_one(id)?)),
        Bounds::Millis(..) => Value::Time(Duration::from_millis(*matches.get_one(id)?)),
        Bounds::Switch => Value::Switch(matches.get_one::<Switch>(id)?.0),
        Bounds::Word(_) => Value::Word(matches.get_one::<String>(id)?.clone()),
        Bounds::Kinds => Value::Kinds(matches.get_many(id)?.copied().collect()),
    })
}

impl Args for RawPolicy {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(EXPECTATIONS).long(EXPECTATIONS).value_name("FILE").value_parser(value_parser!(PathBuf));
        let help =
            "File with what is expected of the hosts of miners: devices, models, least TOPS, memory and bandwidth";
        command.next_help_heading("Policy").args(FIELDS.iter().map(argument)).arg(file.help(help))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RawPolicy {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = FIELDS.iter().filter_map(|field| Some((field, typed(field, matches)?))).collect();
        Ok(Self { values, expectations: matches.get_one(EXPECTATIONS).cloned() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl RawPolicy {
    /// Checks the values.
    ///
    /// # Errors
    /// [`SettingsError::Value`] for the first value out of bounds, with the bound and its reason.
    pub fn check<R: Args>(&self, settings: &Settings<R>) -> Result<Policy, SettingsError> {
        let wrong = |error: OutOfBounds| settings.wrong(error.setting, error.to_string());
        let mut overrides = Overrides::default();
        for (field, value) in &self.values {
            field.set(&mut overrides, value).map_err(wrong)?;
        }
        if let Some(target) = overrides.probe_target {
            overrides.probe_deadline.get_or_insert(target * PROBE_DEADLINE_TARGETS);
        }
        Policy::default().checked(&overrides).map_err(wrong)
    }
}
