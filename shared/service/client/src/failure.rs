//! Failures between a command and a validator, in sentences with a remedy.

use std::error::Error;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use assay_api::{ProblemCode, ProblemDetails};
use assay_program::exit::{Exit, Failure, causes, chain};
use assay_transport::dial::DialError;
use assay_transport::failure::TlsFailure;
use assay_work::text::printable;

use super::ANSWER_LIMIT;
use super::place::{ApiLocation, Server};
use super::reach::ConnectError;

/// The most bytes shown of a validator's sentence.
const MAX_SENTENCE_BYTES: usize = 4096;

/// The result of a request.
pub type Result<T, E = ClientError> = std::result::Result<T, E>;

/// Reasons why a request has no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the validator refused: {}", .0.detail)]
    Refused(Box<ProblemDetails>),
    /// The validator cannot be reached, or is of another version.
    #[error("{0}")]
    Failed(Failure),
    #[error("{0}")]
    Broken(String),
}

impl ClientError {
    /// The code of a refusal, for callers that distinguish them.
    pub fn code(&self) -> Option<ProblemCode> {
        match self {
            Self::Refused(problem) => Some(problem.code),
            Self::Failed(_) | Self::Broken(_) => None,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(problem) => refused(&problem),
            ClientError::Failed(failure) => failure,
            ClientError::Broken(why) => {
                Self::new(Exit::Io, format!("the validator ended the conversation: it was stopped or killed ({why})"))
            }
        }
    }
}

/// The exit of a command whose request was refused.
fn refused(problem: &ProblemDetails) -> Failure {
    use ProblemCode as Code;
    let exit = match problem.code {
        Code::SeveralMiners | Code::Invalid | Code::Malformed | Code::LocalOnly | Code::TooLarge => Exit::Usage,
        Code::Unauthorized | Code::Forbidden | Code::WrongHost => Exit::Config,
        Code::NoMiner
        | Code::Busy
        | Code::Draining
        | Code::MinerLeft
        | Code::NotPossible
        | Code::NoChallenge
        | Code::Configuration
        | Code::NotFound
        | Code::Records
        | Code::Gone
        | Code::TooManyRequests => Exit::Inconclusive,
        _ => Exit::Io,
    };
    // Text from another machine's program.
    let mut said = printable(&problem.detail, MAX_SENTENCE_BYTES);
    if let Some(remedy) = remedy(problem) {
        said = format!("{said}: {remedy}");
    }
    Failure::new(exit, format!("the validator refused: {said}"))
}

fn remedy(problem: &ProblemDetails) -> Option<String> {
    Some(match problem.code {
        ProblemCode::Unauthorized => "give a token that counts, with --token-file or ASSAY_VALIDATOR_TOKEN; \
                                      `assay-validator token create` on the validator's machine makes one"
            .to_owned(),
        ProblemCode::Forbidden => {
            "`assay-validator token create --role ROLE` on the validator's machine makes a token of another role"
                .to_owned()
        }
        ProblemCode::TooManyRequests => format!("try again in {} s", problem.retry_after_s.unwrap_or(1)),
        _ => return None,
    })
}

/// The failure when the server is not a validator, or of another version.
pub fn not_a_validator(place: &ApiLocation) -> String {
    let remedy = match place {
        ApiLocation::Socket(_) => "give the validator's --control-socket",
        ApiLocation::Server(server) if server.trust.is_none() => {
            "give the address in its http_listen, with https:// where it speaks TLS"
        }
        ApiLocation::Server(_) => "give the address in its http_listen",
    };
    format!(
        "what serves {place} does not answer as a validator of this version: {remedy}, or restart it after an update"
    )
}

/// The failure when an answer cannot be a validator's.
pub fn no_answer(place: &ApiLocation, why: impl std::fmt::Display) -> ClientError {
    let why = printable(&why.to_string(), MAX_SENTENCE_BYTES);
    ClientError::Failed(Failure::new(Exit::Io, format!("{} ({why})", not_a_validator(place))))
}

/// The failure when a validator takes too long.
pub fn slow(place: &ApiLocation) -> ClientError {
    no_answer(place, format!("no answer within {ANSWER_LIMIT:?}"))
}

/// Whether an established connection broke.
fn is_lost(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    causes(error).any(|cause| {
        let http = cause.downcast_ref::<hyper::Error>();
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        http.is_some_and(|error| error.is_incomplete_message() || error.is_closed() || error.is_canceled())
            || matches!(io, Some(BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof))
    })
}

/// The failure when a request got no answer.
pub fn unreachable(place: &ApiLocation, error: &(dyn Error + 'static)) -> ClientError {
    let Some(reach) = causes(error).find_map(|cause| cause.downcast_ref::<ConnectError>()) else {
        // TLS has proved the peer's identity; any other peer that closes may be another program.
        let is_validator = matches!(place, ApiLocation::Server(server) if server.trust.is_some());
        return if is_validator && is_lost(error) {
            ClientError::Broken(printable(&chain(error), MAX_SENTENCE_BYTES))
        } else {
            no_answer(place, chain(error))
        };
    };
    ClientError::Failed(match (reach, place) {
        (ConnectError::Socket { path, source }, _) => unreachable_socket(path, source),
        (ConnectError::Tls(failure), ApiLocation::Server(server)) => no_tls(server, failure),
        (ConnectError::Dial(DialError::Unreachable { problem, .. }), _) => {
            let remedy = "check the address, and that the validator runs with http_listen set to it";
            Failure::new(Exit::Io, format!("no connection to {place}: {problem}: {remedy}"))
        }
        (other, _) => Failure::new(Exit::Io, format!("no connection to {place}: {other}")),
    })
}

fn no_tls(server: &Server, failure: &TlsFailure) -> Failure {
    let why = match failure {
        TlsFailure::NotOwn => {
            "the server presents no certificate of a validator's own key: where an authority issued its \
                               certificate, or a proxy ends TLS, leave out the key behind #"
                .to_owned()
        }
        TlsFailure::UnknownIssuer => format!(
            "no authority {} issued the server's certificate: give its authority's certificates with --server-ca, or the \
             validator's key behind #, as `assay-validator key` prints it",
            server.authorities
        ),
        TlsFailure::NotTls => "the server does not speak TLS: check the address and the port; one that listens on \
                               loopback alone is reached as http://HOST:PORT"
            .to_owned(),
        other => other.to_string(),
    };
    let exit = if failure.needs_operator() { Exit::Config } else { Exit::Io };
    Failure::new(exit, format!("no TLS connection to {}: {why}", server.url))
}

/// The failure when a socket cannot be connected to, with the remedy.
fn unreachable_socket(socket: &Path, error: &io::Error) -> Failure {
    let path = socket.display();
    let file = std::fs::symlink_metadata(socket);
    let remedy = "start one with `assay-validator serve`, give its --control-socket, which it logs when it starts, or \
                  --server for one on another machine";
    let message = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let owner = owner(socket).map_or_else(String::new, |id| format!(", user id {id} (sudo -u '#{id}' …)"));
            format!("no permission to open the control socket {path}: run the command as the validator's user{owner}")
        }
        _ if file.is_ok_and(|file| !file.file_type().is_socket() && !file.file_type().is_symlink()) => {
            format!("{path} is not a socket: give the validator's --control-socket")
        }
        io::ErrorKind::NotFound => format!(
            "there is no control socket {path}: no validator with it runs, or the file was removed, which a restart \
             makes again: {remedy}"
        ),
        io::ErrorKind::ConnectionRefused => {
            format!("the validator of the control socket {path} has ended without removing it: {remedy}")
        }
        _ => format!("cannot connect to the control socket {path}"),
    };
    Failure::new(Exit::Io, format!("{message}: {error}"))
}

/// Owner of a file, or of its nearest visible folder.
fn owner(path: &Path) -> Option<u32> {
    path.ancestors().find_map(|path| Some(std::fs::metadata(path).ok()?.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_end_as_they_did_before_there_was_http() {
        let exit = |code| refused(&ProblemDetails::new(code, "why")).exit;
        for (code, expected) in [
            (ProblemCode::NoMiner, Exit::Inconclusive),
            (ProblemCode::SeveralMiners, Exit::Usage),
            (ProblemCode::Busy, Exit::Inconclusive),
            (ProblemCode::Draining, Exit::Inconclusive),
            (ProblemCode::Invalid, Exit::Usage),
            (ProblemCode::Overloaded, Exit::Io),
            (ProblemCode::NotFound, Exit::Inconclusive),
            (ProblemCode::Records, Exit::Inconclusive),
            (ProblemCode::Forbidden, Exit::Config),
            (ProblemCode::Internal, Exit::Io),
        ] {
            assert_eq!(exit(code), expected, "{code:?}");
        }
    }

    #[test]
    fn a_missing_socket_does_not_deny_that_its_validator_runs() {
        let said = unreachable_socket(Path::new("/gone"), &io::Error::from(io::ErrorKind::NotFound)).message;
        assert!(said.contains("/gone") && said.contains("or the file was removed"), "{said}");
    }

    #[test]
    fn a_refusal_says_what_to_do_and_draws_nothing() {
        let said = |problem: ProblemDetails| refused(&problem).message;
        assert!(said(ProblemDetails::new(ProblemCode::Unauthorized, "no token")).contains("--token-file"));
        assert!(
            said(ProblemDetails::new(ProblemCode::TooManyRequests, "slow down").after(7)).ends_with("try again in 7 s")
        );
        assert!(!said(ProblemDetails::new(ProblemCode::Internal, "\u{1b}[2J")).contains('\u{1b}'));
    }
}
