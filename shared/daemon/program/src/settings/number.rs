//! Settings that are numbers: the error for other text says which numbers are expected.

use std::any::TypeId;
use std::str::FromStr;

use clap::Arg;

use crate::span::Span;

/// The same argument, where it is a number, with an error of its own for other text; a negative number is a value, too.
pub(super) fn with_words(argument: Arg) -> Arg {
    let of = argument.get_value_parser().type_id();
    // The bounds of a setting say more than those of 64 bits, and are checked once it is a number.
    let whole = || "expected a whole number, such as 90".to_owned();
    if of == TypeId::of::<u32>() {
        with::<u32>(argument, format!("expected a whole number from 0 to {}, such as 90", u32::MAX))
    } else if of == TypeId::of::<u64>() {
        with::<u64>(argument, whole())
    } else if of == TypeId::of::<usize>() {
        with::<usize>(argument, whole())
    } else if of == TypeId::of::<f64>() {
        with::<f64>(argument, "expected a number, such as 1.5".to_owned())
    } else {
        argument
    }
}

fn with<T: FromStr + Clone + Send + Sync + 'static>(argument: Arg, expected: String) -> Arg {
    let is_seconds = argument.get_id().as_str().ends_with("_s");
    argument.allow_negative_numbers(true).value_parser(move |text: &str| {
        text.parse::<T>().map_err(|_| match text.parse::<Span>() {
            Ok(span) if is_seconds => format!("expected seconds without a unit: {}", span.seconds),
            _ => expected.clone(),
        })
    })
}
