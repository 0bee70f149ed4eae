//! The miner.

use assay_miner::{cli, commands};
use assay_program::exit::{self, Exit};

fn main() -> Exit {
    match cli::Cli::from_process() {
        Err(error) => exit::report_usage(&error),
        Ok(cli) => commands::execute(cli).unwrap_or_else(|error| exit::report(error.as_ref())),
    }
}
