//! Settings of challenges and their verification: made from the table of fields.

use std::ffi::OsStr;
use std::time::Duration;

use assay_client::cli::possible;
use assay_policy::challenge::PROBE_DEADLINE_TARGETS;
use assay_policy::fields::{Bounds, FIELDS, Field, OutOfBounds, POLICY_FIELDS, Value};
use assay_policy::{Overrides, Policy};
use assay_program::settings::{Settings, SettingsError, Switch};
use assay_work::Precision;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

/// The policy as written.
#[derive(Debug, Clone)]
pub struct RawPolicy {
    /// Settings that differ from their defaults.
    values: Vec<(&'static Field, Value)>,
    /// Fields without a setting, as FIELD=VALUE; the last of a field counts.
    assignments: Vec<String>,
}

/// Takes FIELD=VALUE as text; the help lists the fields.
#[derive(Clone)]
struct AssignmentParser;

impl TypedValueParser for AssignmentParser {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let described = |field: &Field| {
            let default = if field.default.is_empty() { String::new() } else { format!("; default {}", field.default) };
            PossibleValue::new(field.name).help(format!("{} [{}{default}]", field.help(), field.bounds.expected()))
        };
        Some(Box::new(FIELDS.iter().filter(|field| field.setting.is_empty()).map(described)))
    }
}

/// A field without a setting of its own, with its value.
fn assignment(text: &str) -> Result<(&'static Field, Value), String> {
    let (name, value) = text.split_once('=').ok_or("expected FIELD=VALUE, such as probe_target=500ms")?;
    let field = Field::without_setting(name.trim())?;
    Ok((field, field.parse(value.trim()).map_err(|reason| format!("{name}: {reason}"))?))
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
        let help =
            "Fields of the policy without a setting of their own, as FIELD=VALUE, comma-separated; times have units";
        let others = Arg::new(POLICY_FIELDS).long(POLICY_FIELDS.replace('_', "-")).value_name("FIELD=VALUE").help(help);
        let others = others.value_parser(AssignmentParser).action(ArgAction::Append).value_delimiter(',');
        let own = FIELDS.iter().filter(|field| !field.setting.is_empty());
        command.next_help_heading("Policy").args(own.map(argument)).arg(others)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RawPolicy {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let own = FIELDS.iter().filter(|field| !field.setting.is_empty());
        let values = own.filter_map(|field| Some((field, typed(field, matches)?))).collect();
        Ok(Self { values, assignments: matches.get_many(POLICY_FIELDS).into_iter().flatten().cloned().collect() })
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
        let others = self.assignments.iter().map(|text| assignment(text));
        let others: Vec<_> =
            others.collect::<Result<_, _>>().map_err(|reason| settings.wrong(POLICY_FIELDS, reason))?;
        for (field, value) in self.values.iter().chain(&others) {
            field.set(&mut overrides, value).map_err(wrong)?;
        }
        if let Some(target) = overrides.probe_target {
            overrides.probe_deadline.get_or_insert(target * PROBE_DEADLINE_TARGETS);
        }
        Policy::default().checked(&overrides).map_err(wrong)
    }
}
