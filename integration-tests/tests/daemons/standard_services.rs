//! Services for any gRPC tool: whether a validator serves, and, on a switch, its services.

use assay_integration_tests::validator::{Policy, TestValidator};
use tokio_stream::StreamExt;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

const SERVICE: &str = "assay.v1.SessionService";

async fn channel(validator: &TestValidator) -> Channel {
    Endpoint::from_shared(format!("http://{}", validator.address)).unwrap().connect().await.unwrap()
}

/// The services that reflection lists, or the code that it is refused with.
async fn listed(validator: &TestValidator) -> Result<Vec<String>, Code> {
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let request = tokio_stream::once(ServerReflectionRequest { host: String::new(), message_request });
    let mut client = ServerReflectionClient::new(channel(validator).await);
    let mut responses = client.server_reflection_info(request).await.map_err(|status| status.code())?.into_inner();
    let response = responses.next().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = response.message_response else { panic!("{response:?}") };
    Ok(list.service.into_iter().map(|service| service.name).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validator_says_that_it_serves() {
    let validator = TestValidator::start(&Policy::default()).await;
    let mut client = HealthClient::new(channel(&validator).await);
    let known = client.check(HealthCheckRequest { service: SERVICE.into() }).await.unwrap().into_inner();
    assert_eq!(known.status(), ServingStatus::Serving);
    let unknown = client.check(HealthCheckRequest { service: "assay.v1.NoService".into() }).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_is_there_on_a_switch_only() {
    let without = TestValidator::start(&Policy::default()).await;
    assert_eq!(listed(&without).await, Err(Code::Unimplemented));
    let with = TestValidator::start(&Policy { flags: vec!["--reflection".into()], ..Policy::default() }).await;
    assert!(listed(&with).await.unwrap().contains(&SERVICE.to_owned()));
}
