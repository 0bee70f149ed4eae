//! The client of a validator's control socket.

use std::path::{Path, PathBuf};

use assay_program::exit::{Exit, Failure};
use assay_protocol::wire::codec::control_client;
use assay_protocol::wire::v1::control_service_client::ControlServiceClient;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};

/// A client of the validator behind a socket.
pub type Client = ControlServiceClient<Channel>;

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
/// [`Failure`] when no validator answers on it.
pub async fn connect(socket: &Path) -> Result<Client, Failure> {
    let path: PathBuf = socket.into();
    let dial = move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    };
    // The address is only a name: the connector dials the socket.
    let connected = Endpoint::from_static("http://validator").connect_with_connector(tower::service_fn(dial)).await;
    let channel = connected.map_err(|error| {
        let message = format!(
            "no validator answers on {}: start one with `assay-validator serve`, or give its --control-socket",
            socket.display()
        );
        Failure::because(Exit::Io, message, error)
    })?;
    Ok(control_client(channel))
}

/// The failure of a command whose request the validator refused.
#[must_use]
pub fn failure(status: &Status) -> Failure {
    let exit = match status.code() {
        Code::InvalidArgument => Exit::Usage,
        Code::NotFound | Code::FailedPrecondition | Code::Unavailable => Exit::Inconclusive,
        _ => Exit::Io,
    };
    Failure::new(exit, format!("the validator refused: {}", status.message()))
}
