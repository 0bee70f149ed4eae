//! The examples of docs/api.md, run as they stand there.

use std::path::PathBuf;
use std::process::Command;

use assay_integration_tests::daemon::program;
use assay_integration_tests::validator::Policy;

use super::{miner_of, serving_by};

/// The commands of a document, one after another.
fn commands(document: &str) -> String {
    let blocks = document.split("```sh\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0));
    blocks.collect()
}

#[tokio::test]
async fn the_examples_of_the_documentation_do_what_they_say() {
    let (validator, address) = serving_by(Policy::showing_memory(), &[]).await;
    let _miner = miner_of(&validator).await;
    let document = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/api.md");
    let script = commands(&std::fs::read_to_string(document).unwrap());
    assert!(script.contains("events?after=0"), "{script}");
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    let programs = program("assay-validator").parent().unwrap().to_path_buf();
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .args(["-e", "-u", "-c", &script])
        .current_dir(folder.path())
        .env("SOCKET", &validator.socket)
        .env("API", format!("http://{address}"))
        .env("PATH", format!("{}:{path}", programs.display()));
    let output = tokio::task::spawn_blocking(move || command.output().expect("a shell")).await.unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{wrong}");
    for part in ["serving\n", "event: running", "event: verdict", "\"outcome\":\"pass\"", "challenge_started"] {
        assert!(said.contains(part), "{part} in {said}\n{wrong}");
    }
}
