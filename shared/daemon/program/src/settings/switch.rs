//! Settings that are true or false.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;

use clap::builder::{BoolValueParser, TypedValueParser, ValueParser, ValueParserFactory};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Parser};

use super::AbsenceReason;

/// A setting that is true or false. Unlike a flag of clap's, it can be set back by a higher layer: on the command line
/// `--name` means `--name=true`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch(pub bool);

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ValueParserFactory for Switch {
    type Parser = ValueParser;

    fn value_parser() -> ValueParser {
        ValueParser::new(BoolValueParser::new().map(Self))
    }
}

pub(super) fn is_switch(argument: &Arg) -> bool {
    argument.get_value_parser().type_id() == TypeId::of::<Switch>()
}

/// The same command, whose switches may be typed without a value: a type cannot say so of its argument. A value is
/// behind an `=`, so that no other argument is taken for it; [`parse`] puts it there.
pub(super) fn with_switches(command: Command) -> Command {
    command.mut_args(|argument| {
        if is_switch(&argument) {
            argument.value_name("BOOL").num_args(0..=1).require_equals(true).default_missing_value("true")
        } else {
            argument
        }
    })
}

/// Parses a command line, the program's name first. The value of a switch may stand behind a blank: `--name false`
/// means `--name=false`. `absence` explains arguments as it does keys; those of one command as `command --name`.
///
/// # Errors
/// Clap's, which also stand for help and version.
pub fn parse<C: Parser>(line: impl IntoIterator<Item = OsString>, absence: AbsenceReason) -> Result<C, clap::Error> {
    let mut switches = BTreeSet::new();
    collect(&C::command(), &mut switches);
    let line = joined(line, &switches);
    C::try_parse_from(&line).map_err(|error| match wrong_value(&error, &line, &switches) {
        None => match absent(&error, &line, absence) {
            Some(message) => C::command().error(ErrorKind::UnknownArgument, message),
            None => error,
        },
        Some((switch, value)) => {
            let message = format!(
                "invalid value '{value}' for '{switch}': expected true or false, as in {switch}, {switch}=false or \
                 {switch} false"
            );
            C::command().error(ErrorKind::InvalidValue, message)
        }
    })
}

/// The flags of all switches of a command and the commands below it.
fn collect(command: &Command, switches: &mut BTreeSet<String>) {
    let flags = command.get_arguments().filter(|argument| is_switch(argument)).filter_map(Arg::get_long);
    switches.extend(flags.map(|flag| format!("--{flag}")));
    command.get_subcommands().for_each(|command| collect(command, switches));
}

/// The line with each `--name true` and `--name false` as one word.
fn joined(line: impl IntoIterator<Item = OsString>, switches: &BTreeSet<String>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    let mut all_are_values = false;
    for word in line {
        let is_value = word.to_str().is_some_and(|word| word.parse::<bool>().is_ok());
        match joined.last_mut() {
            Some(last) if is_value && !all_are_values && is_one_of(switches, last) => {
                last.push("=");
                last.push(word);
            }
            _ => {
                all_are_values |= word == "--";
                joined.push(word);
            }
        }
    }
    joined
}

fn is_one_of(switches: &BTreeSet<String>, word: &OsStr) -> bool {
    word.to_str().is_some_and(|word| switches.contains(word))
}

/// The switch whose value an error is about, and that value.
fn wrong_value(error: &clap::Error, line: &[OsString], switches: &BTreeSet<String>) -> Option<(String, String)> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    if error.kind() == ErrorKind::InvalidValue {
        let flag = text(ContextKind::InvalidArg)?.split(['[', '=', ' ']).next()?;
        let switch = switches.get(flag)?.clone();
        return Some((switch, text(ContextKind::InvalidValue)?.to_owned()));
    }
    // A word behind a switch that nothing else takes was meant as its value.
    let unknown = text(ContextKind::InvalidArg).or_else(|| text(ContextKind::InvalidSubcommand))?;
    let pair = line.windows(2).find(|pair| is_one_of(switches, &pair[0]) && pair[1] == *unknown)?;
    (!unknown.starts_with('-')).then(|| (pair[0].to_string_lossy().into_owned(), unknown.to_owned()))
}

/// Why there is no such argument any more, or not in this build.
fn absent(error: &clap::Error, line: &[OsString], absence: AbsenceReason) -> Option<String> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = flag.strip_prefix("--").filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let of_command = format!("{} {flag}", line.get(1)?.to_string_lossy());
    let why = absence(&of_command).or_else(|| absence(&name.replace('-', "_")))?;
    Some(format!("unexpected argument '{flag}': {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(subcommand)]
        command: Action,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Action {
        Serve(Serve),
        Check(Check),
    }

    #[derive(Debug, clap::Args)]
    struct Serve {
        #[command(flatten)]
        raw: crate::settings::Flags<Raw>,
    }

    #[derive(Debug, clap::Args)]
    struct Check {
        file: String,
        #[command(flatten)]
        raw: crate::settings::Flags<Raw>,
    }

    #[derive(Debug, Clone, clap::Args)]
    struct Raw {
        /// A switch
        #[arg(long, default_value_t = Switch(true))]
        loud_voice: Switch,
        /// A text
        #[arg(long)]
        name: Option<String>,
    }

    fn parsed(line: &str) -> Result<(bool, Option<String>, Option<String>), clap::Error> {
        let absence = |key: &str| match key {
            "check --times" => Some("a loop does it".to_owned()),
            "soft_voice" => Some("a whisper does it".to_owned()),
            _ => None,
        };
        let cli: Cli = parse(["test"].into_iter().chain(line.split(' ')).map(OsString::from), absence)?;
        let (raw, file) = match cli.command {
            Action::Serve(serve) => (serve.raw, None),
            Action::Check(check) => (check.raw, Some(check.file)),
        };
        let settings = crate::settings::Settings::<Raw>::resolve(&raw, &crate::settings::Environment::default());
        let raw = settings.unwrap().raw;
        Ok((raw.loud_voice.0, raw.name, file))
    }

    #[test]
    fn a_switch_is_typed_in_three_ways() {
        for (line, on) in [
            ("serve", true),
            ("serve --loud-voice", true),
            ("serve --loud-voice=false", false),
            ("serve --loud-voice false", false),
            ("serve --loud-voice true", true),
        ] {
            assert_eq!(parsed(line).unwrap(), (on, None, None), "{line}");
        }
    }

    #[test]
    fn a_switch_takes_no_other_argument_for_its_value() {
        let file = |name: &str| Some(name.to_owned());
        assert_eq!(parsed("check --loud-voice a.json").unwrap(), (true, None, file("a.json")));
        assert_eq!(parsed("check --loud-voice false a.json").unwrap(), (false, None, file("a.json")));
        assert_eq!(parsed("check --loud-voice -- false").unwrap(), (true, None, file("false")));
        assert_eq!(parsed("check --name false a.json").unwrap(), (true, file("false"), file("a.json")));
    }

    #[test]
    fn an_argument_that_is_gone_says_what_takes_its_place() {
        for (line, said) in [
            ("check --times 3 a.json", "unexpected argument '--times': a loop does it"),
            ("check --times=3 a.json", "unexpected argument '--times': a loop does it"),
            ("serve --times 3", "unexpected argument '--times' found"),
            ("serve --soft-voice", "unexpected argument '--soft-voice': a whisper does it"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.kind() == ErrorKind::UnknownArgument && error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn a_wrong_value_names_the_switch_and_how_it_is_typed() {
        for line in ["serve --loud-voice flase", "serve --loud-voice=flase"] {
            let error = parsed(line).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidValue);
            let forms = "invalid value 'flase' for '--loud-voice': expected true or false, as in --loud-voice, \
                 --loud-voice=false or --loud-voice false";
            assert!(error.to_string().contains(forms), "{error}");
        }
        let error = parsed("serve --laud-voice false").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownArgument);
        assert!(error.to_string().contains("--loud-voice"), "{error}");
    }
}
