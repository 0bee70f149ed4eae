//! The client of a validator's control socket.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use assay_program::exit::{Exit, Failure};
use assay_protocol::wire::codec::control_client;
use assay_protocol::wire::v1::control_service_client::ControlServiceClient;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Response, Status};

/// How long a validator may take to answer, which is a matter of milliseconds: what is silent for longer is none.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// The methods of a validator.
pub type Rpc = ControlServiceClient<Channel>;

/// A client of the validator behind a socket.
#[derive(Debug, Clone)]
pub struct Client {
    rpc: Rpc,
    socket: PathBuf,
}

/// Runs requests to a validator to their end.
///
/// # Errors
/// Those of the runtime or of the requests.
pub fn block_on<T>(conversation: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(conversation)
}

/// Connects to the validator behind a socket.
///
/// # Errors
/// [`Failure`] when nobody serves it, with what to do about it.
pub async fn connect(socket: &Path) -> Result<Client, Failure> {
    let stream = UnixStream::connect(socket).await.map_err(|error| unreachable_socket(socket, error))?;
    // There is one connection: when it breaks, the validator has ended.
    let stream = Mutex::new(Some(TokioIo::new(stream)));
    let hand_over = move |_: Uri| {
        let stream = stream.lock().ok().and_then(|mut stream| stream.take());
        async move { stream.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionAborted)) }
    };
    // The address is only a name: the connection stands already.
    let channel = Endpoint::from_static("http://validator").connect_with_connector(tower::service_fn(hand_over)).await;
    let channel = channel.map_err(|error| Failure::because(Exit::Io, not_a_validator(socket), error))?;
    Ok(Client { rpc: control_client(channel), socket: socket.into() })
}

impl Client {
    /// The answer to a request.
    ///
    /// # Errors
    /// [`Failure`]: the validator refused, or what serves the socket is none.
    pub async fn ask<T, F>(&self, request: impl FnOnce(Rpc) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.try_ask(request).await.map_err(|status| self.failure(&status))
    }

    /// As [`Client::ask`], for a caller that tells refusals apart.
    ///
    /// # Errors
    /// What the validator answered.
    pub async fn try_ask<T, F>(&self, request: impl FnOnce(Rpc) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        match tokio::time::timeout(ANSWER_LIMIT, request(self.rpc.clone())).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(format!("no answer within {ANSWER_LIMIT:?}"))),
        }
    }

    /// The methods, for a request that may take its time.
    #[must_use]
    pub fn rpc(&self) -> Rpc {
        self.rpc.clone()
    }

    /// The failure of a command whose request had this answer.
    #[must_use]
    pub fn failure(&self, status: &Status) -> Failure {
        // What the validator says itself has no cause on this side.
        if std::error::Error::source(status).is_some() {
            return Failure::new(Exit::Io, format!("{} ({})", not_a_validator(&self.socket), status.message()));
        }
        let exit = match status.code() {
            Code::InvalidArgument => Exit::Usage,
            Code::NotFound | Code::FailedPrecondition | Code::Unavailable => Exit::Inconclusive,
            Code::Unimplemented | Code::DeadlineExceeded => {
                return Failure::new(Exit::Io, format!("{}: {}", not_a_validator(&self.socket), status.message()));
            }
            _ => Exit::Io,
        };
        Failure::new(exit, format!("the validator refused: {}", status.message()))
    }

    /// The failure of a command whose stream of answers broke off.
    #[must_use]
    pub fn broken(&self, status: &Status) -> Failure {
        let message = format!(
            "the validator ended the conversation before the verdict: it was stopped or killed; see its log ({})",
            status.message()
        );
        Failure::new(Exit::Inconclusive, message)
    }
}

fn not_a_validator(socket: &Path) -> String {
    format!(
        "what serves {} does not answer as a validator of this version: give the validator's --control-socket, or \
         restart it after an update",
        socket.display()
    )
}

/// Why a socket cannot be connected to, and what to do about it.
fn unreachable_socket(socket: &Path, error: io::Error) -> Failure {
    let path = socket.display();
    let file = std::fs::symlink_metadata(socket);
    let remedy = "start one with `assay-validator serve`, or give its --control-socket, which it logs when it starts";
    let message = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let owner = owner(socket).map_or_else(String::new, |id| format!(", user id {id} (sudo -u '#{id}' …)"));
            format!("no permission to open the control socket {path}: run the command as the validator's user{owner}")
        }
        _ if file.is_ok_and(|file| !file.file_type().is_socket() && !file.file_type().is_symlink()) => {
            format!("{path} is not a socket: give the validator's --control-socket")
        }
        io::ErrorKind::NotFound => format!("no validator runs at the control socket {path}: {remedy}"),
        io::ErrorKind::ConnectionRefused => {
            format!("the validator of the control socket {path} has ended without removing it: {remedy}")
        }
        _ => format!("cannot connect to the control socket {path}"),
    };
    Failure::because(Exit::Io, message, error)
}

/// The user that a file belongs to, or the folder where it can be seen no more.
fn owner(path: &Path) -> Option<u32> {
    path.ancestors().find_map(|path| Some(std::fs::metadata(path).ok()?.uid()))
}
