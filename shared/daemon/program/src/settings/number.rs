//! Settings that are numbers: the error for other text says which numbers are expected.

use std::any::TypeId;
use std::str::FromStr;

use clap::Arg;

use crate::span::Span;

/// The same argument, where it is a number, with an error of its own for other text; a negative number is a value, too.
pub(super) fn with_words(argument: Arg) -> Arg {
    let of = argument.get_value_parser().type_id();
    let whole = |most: u64| format!("expected a whole number from 0 to {most}, such as 90");
    if of == TypeId::of::<u32>() {
        with::<u32>(argument, whole(u32::MAX.into()))
    } else if of == TypeId::of::<u64>() {
        with::<u64>(argument, whole(u64::MAX))
    } else if of == TypeId::of::<usize>() {
        with::<usize>(argument, whole(usize::MAX as u64))
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
