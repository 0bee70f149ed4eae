//! Clients and servers with the bound of messages set in both directions; tonic by default bounds receiving only.

use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::{Body as HttpBody, Bytes, StdError};

use super::limits::MAX_MESSAGE_BYTES;
use super::v1::control_service_client::ControlServiceClient;
use super::v1::control_service_server::{ControlService, ControlServiceServer};
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

/// An operator's client of the control socket over a connection.
pub fn control_client<T>(connection: T) -> ControlServiceClient<T>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    ControlServiceClient::new(connection)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// A validator's server of the control socket.
pub fn control_server<T: ControlService>(service: T) -> ControlServiceServer<T> {
    ControlServiceServer::new(service)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}
