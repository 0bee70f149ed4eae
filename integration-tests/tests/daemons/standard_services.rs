//! The service for any gRPC tool that says whether a validator serves.

use assay_integration_tests::validator::{Policy, TestValidator};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

const SERVICE: &str = "assay.v1.SessionService";

async fn channel(validator: &TestValidator) -> Channel {
    Endpoint::from_shared(format!("http://{}", validator.address)).unwrap().connect().await.unwrap()
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
