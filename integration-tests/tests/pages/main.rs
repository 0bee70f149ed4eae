//! The pages in a real browser: headless Chromium, driven by `browser/*.mjs` over real daemons.

mod browser;
mod filled;
mod validator;

use assay_integration_tests::miner::TestMiner;
use assay_records::Role;
use serde_json::json;

use self::browser::Scenario;

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_finds_the_way_from_the_first_command_to_a_verdict() {
    let validator = validator::start().await;
    let sign_in = validator::login_url(&validator, Role::Admin).await;
    let token = validator::token(&validator, Role::Read).await;
    let mut scenario = Scenario::start("operator", &json!({ "signIn": sign_in, "token": token }));
    // The page of an empty fleet is open; the first miner comes.
    scenario.wait_for("empty");
    let miner = TestMiner::start(validator.address, 2, &[]);
    validator.wait_for_miner(miner.key, true).await;
    scenario.succeed();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_miners_and_hostile_names_fit_on_pages() {
    let validator = validator::start().await;
    filled::fill(&validator.file("validator.db")).await;
    let sign_in = validator::login_url(&validator, Role::Read).await;
    Scenario::start("crowd", &json!({ "signIn": sign_in, "miners": filled::MINERS, "hostile": filled::HOSTILE }))
        .succeed();
}
