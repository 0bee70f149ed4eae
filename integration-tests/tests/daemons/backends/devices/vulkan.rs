//! Tests over lavapipe, which is Vulkan without a GPU, through the layer that makes trouble on demand
//! (`scripts/vulkan-layer`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, fs};

use assay_integration_tests::vulkan as driver;
use tempfile::TempDir;

use super::scenario::{self, Environment, test_of_this_file};

/// One scenario of a test.
pub struct Scenario {
    test: String,
    name: String,
    driver: Driver,
    settings: Vec<(String, OsString)>,
    /// Where files that settings name lie.
    folder: Option<TempDir>,
}

enum Driver {
    Lavapipe { devices: usize },
    None,
    NoLoader,
}

impl Scenario {
    /// A scenario of the test function `test` of the file that calls this; names differ within a test.
    #[track_caller]
    pub fn new(test: &str, name: impl Into<String>) -> Self {
        Self {
            test: test_of_this_file(test),
            name: name.into(),
            driver: Driver::Lavapipe { devices: 1 },
            settings: Vec::new(),
            folder: None,
        }
    }

    /// A setting of the layer, without its `ASSAY_VULKAN_`.
    pub fn with(self, setting: &str, value: impl Into<OsString>) -> Self {
        self.with_variable(&format!("ASSAY_VULKAN_{setting}"), value)
    }

    /// A fault whose calls are counted from [`from_now`] on.
    pub fn with_later(self, fault: &str) -> Self {
        self.with("FAULT", fault).with_file("WHEN")
    }

    /// A setting of the layer that names a file, which is not there yet.
    pub fn with_file(mut self, setting: &str) -> Self {
        let folder = self.folder.take().unwrap_or_else(|| tempfile::tempdir().unwrap());
        let path = folder.path().join(setting);
        self.folder = Some(folder);
        self.with(setting, path)
    }

    /// Any variable of the environment.
    pub fn with_variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Lavapipe, `devices` times.
    pub fn devices(mut self, devices: usize) -> Self {
        self.driver = Driver::Lavapipe { devices };
        self
    }

    /// Vulkan's loader without a driver.
    pub fn without_driver(mut self) -> Self {
        self.driver = Driver::None;
        self
    }

    /// Not even Vulkan's loader.
    pub fn without_loader(mut self) -> Self {
        self.driver = Driver::NoLoader;
        self
    }

    /// Runs `body` in a process with this scenario's driver.
    pub fn run(self, body: impl FnOnce()) {
        scenario::run(&self.test, &self.name, || self.environment(), body);
    }

    /// The same, where the process is to end before `body` is done, and to say so, or with such a status.
    pub fn run_to_failure(self, says: &str, body: impl FnOnce()) {
        scenario::run_to_failure(&self.test, &self.name, says, || self.environment(), body);
    }

    fn environment(&self) -> Environment {
        let mut present = match self.driver {
            Driver::Lavapipe { devices } => driver::environment(&[("DEVICES", &devices.to_string())]),
            Driver::None => driver::no_driver(),
            Driver::NoLoader => driver::no_loader(),
        };
        present.extend(self.settings.iter().cloned());
        Environment { absent: Vec::new(), present }
    }
}

/// The file that a setting of this scenario names.
pub fn file(setting: &str) -> PathBuf {
    env::var_os(format!("ASSAY_VULKAN_{setting}")).expect("a setting of this scenario").into()
}

/// From here on calls count for faults.
pub fn from_now() {
    fs::write(file("WHEN"), "").unwrap();
}
