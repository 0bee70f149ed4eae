//! docs/settings.md lists the validator's settings as the code defines them.
#![cfg(all(unix, feature = "cuda", feature = "wgpu"))]

use std::path::Path;

use assay_program::paths;
use assay_program::settings::document::{LocalDefault, check_section, markdown};
use assay_validator::config::{ENV_PREFIX, RawConfig, ValidatorConfig};

#[test]
fn the_page_lists_every_setting_as_it_is() {
    let key =
        LocalDefault { path: paths::state_file("validator.key"), meaning: "`validator.key` in the state directory" };
    let socket = LocalDefault {
        path: paths::runtime_file("validator.sock"),
        meaning: "`validator.sock` in the runtime directory",
    };
    let check = |settings: &_| ValidatorConfig::check(settings).map(|_| ());
    let expected = markdown::<RawConfig>(ENV_PREFIX, check, &[key, socket]);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
    check_section(&page, "assay-validator", &expected).unwrap_or_else(|error| panic!("{error}"));
}
