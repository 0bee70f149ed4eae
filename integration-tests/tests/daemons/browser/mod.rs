//! The pages in a real browser: headless Chromium, driven by `scenarios/*.mjs` over real daemons.

mod filled;
mod scenario;

use assay_api::{ApiToken, CreateApiToken, CreateLoginCode, LoginCode, Role};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use serde_json::json;

use self::scenario::Scenario;

/// Starts a validator that serves pages on a port that the system chooses.
async fn validator() -> TestValidator {
    let flags = vec!["--http-listen=127.0.0.1:0".to_owned()];
    TestValidator::start(&Policy { flags, ..Policy::default() }).await
}

/// An address that signs a browser in, once.
async fn login_url(validator: &TestValidator, role: Role) -> String {
    let made: LoginCode = validator.operator().post("/login-codes", &CreateLoginCode { role }).await.expect("a code");
    made.url.expect("pages are served")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_finds_the_way_from_the_first_command_to_a_verdict() {
    let validator = validator().await;
    let sign_in = login_url(&validator, Role::Admin).await;
    let asked = CreateApiToken { role: Role::Read, name: "browser".to_owned(), expires_s: 600 };
    let ApiToken { token, .. } = validator.operator().post("/tokens", &asked).await.expect("a token");
    let mut scenario = Scenario::start("operator", &json!({ "signIn": sign_in, "token": token }));
    // The page of an empty fleet is open; the first miner comes.
    scenario.wait_for("empty");
    let miner = TestMiner::start(validator.address, 2, &[]);
    validator.wait_for_miner(miner.key, true).await;
    scenario.succeed();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_miners_and_hostile_names_fit_on_pages() {
    let validator = validator().await;
    filled::fill(&validator.file("validator.db")).await;
    let sign_in = login_url(&validator, Role::Read).await;
    let known = json!({ "signIn": sign_in, "miners": filled::MINERS });
    Scenario::start("crowd", &known).succeed();
}
