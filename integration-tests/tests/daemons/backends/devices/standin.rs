//! Tests of the CUDA backend, run where the stand-in driver is the driver (`scripts/standin`),
//! which is first on the library path of each scenario's process.

use std::ffi::OsString;
use std::time::Duration;

use assay_cuda::{CudaConfig, CudaDevice, CudaError, KernelChoice, detect, open};
use assay_work::DeviceId;

use assay_integration_tests::standin;

use super::scenario::{Environment, run, test_of_this_file};

/// Operands of a row in the self-test of a float unit.
const FLOAT_TEST_TERMS: u32 = 256;

/// One scenario of a test.
pub struct Scenario {
    test: String,
    name: String,
    library: Option<&'static str>,
    settings: Vec<(String, OsString)>,
}

impl Scenario {
    /// A scenario of the test function `test` of the file that calls this; names differ within a test.
    #[track_caller]
    pub fn new(test: &str, name: impl Into<String>) -> Self {
        Self { test: test_of_this_file(test), name: name.into(), library: Some(""), settings: Vec::new() }
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

    /// Another stand-in: one that lacks a function, or has a fault in a kernel.
    pub fn with_driver(mut self, folder: &'static str) -> Self {
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
            let library =
                self.library.map(|folder| ("LD_LIBRARY_PATH".to_owned(), standin::folder().join(folder).into()));
            self.settings.extend(library);
            Environment { absent, present: self.settings }
        };
        run(&self.test, &self.name, driver, body);
    }
}

/// Settings for tests: a hang is found soon. No float units: their test takes many launches.
pub fn config(kernel: KernelChoice) -> CudaConfig {
    CudaConfig { kernel, stall_limit: Duration::from_secs(3), float_units: false, ..CudaConfig::default() }
}

/// The same with float units, tested on rows that the emulation multiplies in a moment.
pub fn with_float_units(kernel: KernelChoice) -> CudaConfig {
    let stall_limit = Duration::from_secs(60);
    CudaConfig { float_units: true, float_test_terms: Some(FLOAT_TEST_TERMS), stall_limit, ..config(kernel) }
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

pub fn all() -> Vec<CudaDevice> {
    let found = detect().unwrap();
    found.iter().map(|device| open(device.id, config(KernelChoice::Auto), &mut |_| ()).unwrap()).collect()
}
