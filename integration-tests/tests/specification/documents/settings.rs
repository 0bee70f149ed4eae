//! docs/settings.md lists the settings of both programs as the code defines them.

use assay_integration_tests::document::{LocalDefault, check_section, markdown};
use assay_miner::config::{self as miner, MinerConfig};
use assay_program::paths;
use assay_validator::config::{self as validator, ValidatorConfig};

use super::source::workspace;

fn check(program: &str, expected: &str) {
    let page = workspace().join("docs/settings.md");
    check_section(&page, program, expected).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn the_page_lists_every_setting_of_the_miner_as_it_is() {
    let local = [LocalDefault { path: paths::state_file("miner.key"), meaning: "`miner.key` in the state directory" }];
    let valid = |settings: &_| MinerConfig::check(settings).map(|_| ());
    check("assay-miner", &markdown::<miner::RawConfig>(miner::ENV_PREFIX, valid, &local));
}

#[test]
fn the_page_lists_every_setting_of_the_validator_as_it_is() {
    let key =
        LocalDefault { path: paths::state_file("validator.key"), meaning: "`validator.key` in the state directory" };
    let socket = LocalDefault {
        path: paths::runtime_file("validator.sock"),
        meaning: "`validator.sock` in the runtime directory",
    };
    let valid = |settings: &_| ValidatorConfig::check(settings).map(|_| ());
    check("assay-validator", &markdown::<validator::RawConfig>(validator::ENV_PREFIX, valid, &[key, socket]));
}
