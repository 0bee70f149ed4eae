//! `assay-validator check-openings`.

use assay_program::exit::{Exit, Failure, print};
use assay_program::file;
use assay_work::PassOpenings;
use assay_work::standalone::{StandaloneError, check_standalone};

use crate::cli::CheckOpeningsArgs;

/// Checks the openings of a pass: against the roots committed to where the file has them, else against those
/// that it names.
///
/// # Errors
/// A file that is unreadable or invalid.
pub fn execute(args: &CheckOpeningsArgs) -> anyhow::Result<Exit> {
    let openings: PassOpenings = file::read(&args.file, assay_work::from_json_under("openings"))?;
    let result = check_standalone(&openings, None);
    if args.json {
        print(&serde_json::to_string_pretty(&json(&openings, &result))?)?;
    } else {
        print(&sentence(&openings, &result))?;
    }
    match result {
        Ok(()) => Ok(Exit::Done),
        Err(StandaloneError::Fault(_)) => Ok(Exit::Fail),
        Err(error @ StandaloneError::Challenge(_)) => {
            let path = args.file.display();
            Err(Failure::new(Exit::Data, format!("{path}: breaks rule {}: {error}", error.code())).into())
        }
    }
}

fn json(openings: &PassOpenings, result: &Result<(), StandaloneError>) -> serde_json::Value {
    let error = result.as_ref().err();
    serde_json::json!({
        "outcome": if error.is_none() { "pass" } else { "fail" },
        "code": error.map(StandaloneError::code),
        "detail": error.map(ToString::to_string),
        "device_id": openings.device_id,
        "iteration": openings.iteration,
        "samples": openings.samples.len(),
        "against": against(openings),
    })
}

fn against(openings: &PassOpenings) -> &'static str {
    if openings.committed_roots.is_some() { "committed_roots" } else { "the roots in the file" }
}

fn sentence(openings: &PassOpenings, result: &Result<(), StandaloneError>) -> String {
    let of = format!("iteration {} of device {}", openings.iteration, openings.device_id);
    match result {
        Ok(()) => {
            let samples = openings.samples.len();
            format!("pass: {samples} sample(s) of {of} hold, checked against {}", against(openings))
        }
        Err(error) => format!("fail: {}: {of}: {error}", error.code()),
    }
}
