//! Tests of the CUDA backend, run where the stand-in driver is the driver (`scripts/standin`),
//! which is first on the library path of each scenario's process.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use assay_cuda::{CudaConfig, CudaDevice, CudaError, KernelChoice, detect, open};
use assay_work::DeviceId;

use super::scenario::{Environment, run};

/// One scenario of a test.
pub struct Scenario {
    test: &'static str,
    name: String,
    library: Option<&'static str>,
    settings: Vec<(String, OsString)>,
}

impl Scenario {
    /// A scenario of the test function `test`; names differ within a test.
    pub fn new(test: &'static str, name: impl Into<String>) -> Self {
        Self { test, name: name.into(), library: Some(""), settings: Vec::new() }
    }

    /// A setting of the stand-in, without its `ASSAY_STANDIN_`.
    pub fn with(self, setting: &str, value: impl Into<OsString>) -> Self {
        self.with_variable(&format!("ASSAY_STANDIN_{setting}"), value)
    }

    /// Any variable of the environment.
    pub fn with_variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// A stand-in that lacks a function.
    pub fn lacking(mut self, folder: &'static str) -> Self {
        self.library = Some(folder);
        self
    }

    /// No driver at all.
    pub fn without_driver(mut self) -> Self {
        self.library = None;
        self
    }

    /// Runs `body` in a process with this scenario's driver.
    pub fn run(mut self, body: impl FnOnce()) {
        let driver = || {
            let mut absent = vec!["LD_LIBRARY_PATH"];
            if self.settings.iter().all(|(name, _)| name != "CUDA_VISIBLE_DEVICES") {
                absent.push("CUDA_VISIBLE_DEVICES");
            }
            let library = self.library.map(|folder| ("LD_LIBRARY_PATH".to_owned(), standin().join(folder).into()));
            self.settings.extend(library);
            Environment { absent, present: self.settings }
        };
        run(self.test, &self.name, driver, body);
    }
}

/// The folder of the stand-in, built where it is not.
fn standin() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let output = Command::new(root.join("scripts/standin")).stderr(Stdio::inherit()).output();
        let output = output.unwrap_or_else(|error| panic!("scripts/standin builds the stand-in driver: {error}"));
        assert!(output.status.success(), "scripts/standin, which builds the stand-in driver, failed: see above");
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    })
}

/// Settings for tests: what hangs is found out soon.
pub fn config(kernel: KernelChoice) -> CudaConfig {
    CudaConfig { kernel, stall_limit: Duration::from_secs(3), ..CudaConfig::default() }
}

/// The id of the stand-in's device of that number.
pub fn id(device: u8) -> DeviceId {
    let mut id = *b"stand-in driver\0";
    id[15] = device;
    DeviceId(id)
}

/// Opens a device with any settings.
pub fn try_open(device: u8, config: CudaConfig) -> Result<CudaDevice, CudaError> {
    open(id(device), config, &mut |_| ())
}

/// Opens the first device with the fastest kernel.
pub fn first() -> CudaDevice {
    try_open(0, config(KernelChoice::Auto)).unwrap()
}

/// Opens all devices.
pub fn all() -> Vec<CudaDevice> {
    let found = detect().unwrap();
    found.iter().map(|device| open(device.id, config(KernelChoice::Auto), &mut |_| ()).unwrap()).collect()
}
