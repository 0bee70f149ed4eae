//! `assay-validator check-openings`.

use assay_program::exit::{Exit, Failure, print_document};
use assay_program::file;
use assay_program::render::units::counted;
use assay_work::probe_file::{ProbeFile, SweepFile, check_probe_file, check_sweep_file};
use assay_work::standalone::{StandaloneError, check_standalone};
use assay_work::{JsonError, JsonObject, PassOpenings, UncheckedChallenge};
use serde_json::{Value, json};

use crate::cli::files::CheckOpeningsArgs;

/// Checks the openings of a pass, a probe or a sweep: a pass against the committed roots where the file has them, else
/// against the roots that it states.
///
/// # Errors
/// A file that is unreadable or invalid.
pub fn execute(args: &CheckOpeningsArgs) -> anyhow::Result<Exit> {
    let openings = file::read(&args.file, Openings::parse)?;
    let result = openings.check();
    print_document(&openings.json(&result), args.json, || openings.sentence(&result))?;
    match result {
        Ok(()) => Ok(Exit::Done),
        Err(StandaloneError::Fault(_)) => Ok(Exit::Fail),
        Err(error) => {
            let path = args.file.display();
            Err(Failure::new(Exit::Data, format!("{path}: breaks rule {}: {error}", error.code())).into())
        }
    }
}

/// Kinds of openings in a file.
enum Openings {
    Pass(Box<PassOpenings>),
    Probe(Box<ProbeFile>),
    Sweep(Box<SweepFile>),
}

impl Openings {
    /// Parses a file; openings with a probe are those of a probe, with a sweep those of a sweep.
    fn parse(text: &str) -> Result<Self, JsonError> {
        let object = JsonObject::parse(text)?.held_under("openings");
        if object.has("probe") {
            object.read().map(Self::Probe)
        } else if object.has("sweep") {
            object.read().map(Self::Sweep)
        } else {
            object.read().map(Self::Pass)
        }
    }

    fn check(&self) -> Result<(), StandaloneError> {
        match self {
            Self::Pass(pass) => check_standalone(pass, None),
            Self::Probe(probe) => check_probe_file(probe),
            Self::Sweep(sweep) => check_sweep_file(sweep),
        }
    }

    fn json(&self, result: &Result<(), StandaloneError>) -> Value {
        let error = result.as_ref().err();
        let mut fields = json!({
            "outcome": if error.is_none() { "pass" } else { "fail" },
            "code": error.map(StandaloneError::code),
            "detail": error.map(ToString::to_string),
            "against": self.against(),
        });
        match self {
            Self::Pass(pass) => {
                fields["device_id"] = json!(pass.device_id);
                fields["iteration"] = json!(pass.iteration);
                fields["samples"] = json!(pass.samples.len());
            }
            Self::Probe(probe) => {
                fields["device_ids"] = device_ids(&probe.challenge);
                fields["segments"] = json!(probe.segments.len());
            }
            Self::Sweep(sweep) => {
                fields["device_ids"] = device_ids(&sweep.challenge);
                fields["samples"] = json!(sweep.samples.len());
            }
        }
        fields
    }

    fn against(&self) -> &'static str {
        match self {
            Self::Pass(pass) if pass.committed_roots.is_none() => "the roots in the file",
            Self::Pass(_) | Self::Probe(_) | Self::Sweep(_) => "committed_roots",
        }
    }

    fn sentence(&self, result: &Result<(), StandaloneError>) -> String {
        let (count, of) = match self {
            Self::Pass(pass) => {
                let of = format!("iteration {} of device {}", pass.iteration, pass.device_id);
                (counted(pass.samples.len() as u64, "sample"), of)
            }
            Self::Probe(probe) => {
                let of = format!("a probe of {}", counted(probe.challenge.shares.len() as u64, "device"));
                (counted(probe.segments.len() as u64, "segment"), of)
            }
            Self::Sweep(sweep) => {
                let of = format!("a sweep of {}", counted(sweep.challenge.shares.len() as u64, "device"));
                (counted(sweep.samples.len() as u64, "sample"), of)
            }
        };
        match result {
            Ok(()) => format!("pass: {count} of {of} hold, checked against {}", self.against()),
            Err(error) => format!("fail: {}: {of}: {error}", error.code()),
        }
    }
}

fn device_ids(challenge: &UncheckedChallenge) -> Value {
    json!(challenge.shares.iter().map(|share| share.device_id).collect::<Vec<_>>())
}
