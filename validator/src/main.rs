//! The validator.

use assay_program::exit::{self, Exit};
use assay_validator::{cli, commands};

fn main() -> Exit {
    match cli::Cli::from_process() {
        Err(error) => exit::report_usage(&error),
        Ok(cli) => commands::execute(cli).unwrap_or_else(|error| exit::report(error.as_ref())),
    }
}
