//! Tests of the CUDA backend, run where the stand-in driver is the driver (`scripts/standin`).
//!
//! A process loads its driver once, so each scenario is a process of its own: the test's own program again, with that
//! test alone, the scenario's name and settings in its environment, and the stand-in first on the library path.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use assay_shared::compute::cuda::{CudaConfig, CudaDevice, CudaError, KernelChoice, detect, open};
use assay_shared::work::DeviceId;

/// Names the scenario that a process is for.
const SCENARIO: &str = "ASSAY_TEST_SCENARIO";
/// Told by a scenario that ran to its end: a process in which none ran has not passed.
const PASSED: &str = "the scenario passed";
/// The longest that a scenario may take. It is for hangs; a slow machine stays far below it.
const LIMIT: Duration = Duration::from_secs(900);

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
    pub fn run(self, body: impl FnOnce()) {
        match env::var(SCENARIO) {
            Ok(name) if name == self.name => {
                body();
                println!("{PASSED}");
            }
            Ok(_) => {}
            Err(_) => self.start(),
        }
    }

    fn start(self) {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([self.test, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(SCENARIO, &self.name).envs(self.settings.iter().map(|(name, value)| (name, value)));
        if self.settings.iter().all(|(name, _)| name != "CUDA_VISIBLE_DEVICES") {
            command.env_remove("CUDA_VISIBLE_DEVICES");
        }
        match self.library {
            Some(folder) => command.env("LD_LIBRARY_PATH", standin().join(folder)),
            None => command.env_remove("LD_LIBRARY_PATH"),
        };
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let id = child.id();
        let output = thread::scope(|scope| {
            let waiting = scope.spawn(|| child.wait_with_output().unwrap());
            let start = Instant::now();
            while !waiting.is_finished() {
                if start.elapsed() > LIMIT {
                    // SAFETY: a signal to the process started above, which has not been waited for yet.
                    unsafe { libc::kill(id.cast_signed(), libc::SIGKILL) };
                }
                thread::sleep(Duration::from_millis(5));
            }
            waiting.join().unwrap()
        });
        let text = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let passed = output.status.success() && text.contains(PASSED);
        assert!(passed, "scenario {:?} ended with {}:\n{text}", self.name, output.status);
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
