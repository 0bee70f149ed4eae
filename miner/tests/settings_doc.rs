//! docs/settings.md lists the miner's settings as the code defines them.
#![cfg(all(unix, feature = "cuda", feature = "wgpu"))]

use std::path::Path;

use assay_miner::config::{ENV_PREFIX, MinerConfig, RawConfig};
use assay_program::paths;
use assay_program::settings::document::{LocalDefault, check_section, markdown};

#[test]
fn the_page_lists_every_setting_as_it_is() {
    let local = [LocalDefault { path: paths::state_file("miner.key"), meaning: "`miner.key` in the state directory" }];
    let expected = markdown::<RawConfig>(ENV_PREFIX, |settings| MinerConfig::check(settings).map(|_| ()), &local);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
    check_section(&page, "assay-miner", &expected).unwrap_or_else(|error| panic!("{error}"));
}
