//! The `worker` command of both programs: drives one device for another process of the same program.

use std::io::{self, IsTerminal};

use clap::Args;

use assay_program::exit::{Exit, Failure};
use assay_program::logging;
use assay_worker::{serve, stdio};

use crate::registry;

/// Arguments of `worker`.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Log level (error, warn, info, debug, trace)
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

/// Drives a device until standard input ends.
///
/// # Errors
/// A pipe that breaks; a terminal in place of one.
pub fn execute(args: &WorkerArgs) -> Result<Exit, Failure> {
    if io::stdin().is_terminal() {
        let message = "`worker` is started by the program itself, over a pipe; it takes no input from a terminal";
        return Err(Failure::new(Exit::Usage, message));
    }
    let _log =
        logging::start_worker(&args.log).map_err(|reason| Failure::new(Exit::Usage, format!("--log: {reason}")))?;
    stdio::leave_signals_to_the_program();
    let io = |error: io::Error| Failure::because(Exit::Io, "the pipe to the program", error);
    let (input, output) = stdio::take().map_err(io)?;
    let gone = || {
        logging::flush();
        stdio::end();
    };
    serve(registry::load, input, output, gone).map_err(io)?;
    Ok(Exit::Done)
}
