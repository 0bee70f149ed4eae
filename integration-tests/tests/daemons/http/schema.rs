//! The OpenAPI document against the daemon: schemathesis makes requests of it, sound ones and others, and holds each
//! answer against it.

use std::path::PathBuf;
use std::process::Command;

use assay_api::Role;
use assay_integration_tests::validator::Policy;
use assay_integration_tests::web::Caller;

use super::{miner_of, serving_by};

/// Examples of each operation: with these all checks take some 20 s.
const EXAMPLES: u32 = 12;

/// schemathesis as a command. Without its package it fails: a skipped test would go unnoticed.
fn schemathesis() -> Command {
    let python = std::env::var_os("ASSAY_SCHEMATHESIS").expect(
        "ASSAY_SCHEMATHESIS is not set: run scripts/test, or set it to a Python that has \
         integration-tests/tests/daemons/http/requirements.txt installed",
    );
    let mut command = Command::new(python);
    command.args(["-m", "schemathesis.cli"]).env("PYTHONDONTWRITEBYTECODE", "1").env("NO_COLOR", "1");
    command
}

#[tokio::test]
async fn every_answer_is_as_the_document_describes_it() {
    let policy = Policy { keeps_passes_percent: Some(100), ..Policy::default() };
    let (validator, address) = serving_by(policy, &[]).await;
    let miner = miner_of(&validator).await;
    for _ in 0..2 {
        validator.challenge(miner.key, None).await.unwrap().expect_pass();
    }
    let admin = Caller::make_token(&validator, Role::Admin).await.token;
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/daemons/http");
    let mut command = schemathesis();
    command
        .arg(format!("--config-file={}", folder.join("schemathesis.toml").display()))
        .args(["run", &format!("http://{address}/api/v1/openapi.json")])
        .arg(format!("--header=Authorization: Bearer {admin}"))
        .arg(format!("--max-examples={EXAMPLES}"))
        .args(["--checks=all", "--workers=1", "--seed=1", "--phases=examples,coverage,fuzzing", "--no-shrink"])
        .current_dir(validator.file("."));
    let output = tokio::task::spawn_blocking(move || command.output().expect("schemathesis starts")).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let _: assay_api::ServerStatus = Caller::at_socket(&validator).read("/api/v1/status").await;
}
