//! Settings that are true or false.

use std::any::TypeId;
use std::fmt;

use clap::builder::{BoolValueParser, TypedValueParser, ValueParser, ValueParserFactory};
use clap::{Arg, Command};

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

/// Whether an argument is a [`Switch`].
pub(super) fn is_switch(argument: &Arg) -> bool {
    argument.get_value_parser().type_id() == TypeId::of::<Switch>()
}

/// The same command, whose switches may be typed without a value: a type cannot say so of its argument.
pub(super) fn with_switches(command: Command) -> Command {
    command.mut_args(|argument| {
        if is_switch(&argument) {
            argument.value_name("BOOL").num_args(0..=1).require_equals(true).default_missing_value("true")
        } else {
            argument
        }
    })
}
