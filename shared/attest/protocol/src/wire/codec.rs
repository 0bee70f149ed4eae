//! Client and server with the bound of messages set in both directions; tonic by default bounds receiving only.

use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::{Body as HttpBody, Bytes, StdError};

use super::limits::MAX_MESSAGE_BYTES;
use super::v1::session_service_client::SessionServiceClient;
use super::v1::session_service_server::{SessionService, SessionServiceServer};

/// A miner's client of sessions over a connection.
pub fn session_client<T>(connection: T) -> SessionServiceClient<T>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    SessionServiceClient::new(connection)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// A validator's server of sessions.
pub fn session_server<T: SessionService>(service: T) -> SessionServiceServer<T> {
    SessionServiceServer::new(service)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}
