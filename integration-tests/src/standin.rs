//! The stand-in for NVIDIA's driver, for programs that a test starts (`scripts/standin`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The environment in which it is the driver, with settings of it, named without their `ASSAY_STANDIN_`. Float units
/// are off: their self-test at full length takes the emulation seconds for each start of a worker.
#[must_use]
pub fn environment(settings: &[(&str, &str)]) -> Vec<(String, OsString)> {
    let mut environment = vec![("LD_LIBRARY_PATH".to_owned(), folder().clone().into_os_string())];
    let off = ["ASSAY_MINER_CUDA_FLOAT_UNITS", "ASSAY_VALIDATOR_CUDA_FLOAT_UNITS"];
    environment.extend(off.map(|name| (name.to_owned(), "false".into())));
    environment.extend(settings.iter().map(|(name, value)| (format!("ASSAY_STANDIN_{name}"), (*value).into())));
    environment
}

/// The folder of the stand-in, built where it is not.
pub fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scripts/standin");
        let output = Command::new(script).stderr(Stdio::inherit()).output();
        let output = output.unwrap_or_else(|error| panic!("scripts/standin builds the stand-in driver: {error}"));
        assert!(output.status.success(), "scripts/standin, which builds the stand-in driver, failed: see above");
        PathBuf::from(String::from_utf8(output.stdout).expect("a path in UTF-8").trim())
    })
}
