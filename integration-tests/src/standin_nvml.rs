//! A stand-in for NVIDIA's management library: `standin-nvml/nvml.c`, built here as `libnvidia-ml.so.1`, which a
//! program finds before the machine's own.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use assay_work::DeviceId;

/// The name that programs load.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// How much of the library there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// All functions that are called.
    Whole,
    /// Little more than the functions that find devices, as in an old library.
    Sparse,
}

/// The library, with its environment.
#[derive(Debug, Clone)]
pub struct StandinNvml {
    environment: Vec<(String, OsString)>,
}

impl StandinNvml {
    #[must_use]
    pub fn new(build: Build, gpus: &[DeviceId]) -> Self {
        static WHOLE: OnceLock<PathBuf> = OnceLock::new();
        static SPARSE: OnceLock<PathBuf> = OnceLock::new();
        let folder = match build {
            Build::Whole => WHOLE.get_or_init(|| built("whole", &[])),
            Build::Sparse => SPARSE.get_or_init(|| built("sparse", &["-DSPARSE"])),
        };
        let mut path = folder.display().to_string();
        if let Ok(others) = std::env::var("LD_LIBRARY_PATH") {
            path = format!("{path}:{others}");
        }
        let environment = vec![("LD_LIBRARY_PATH".to_owned(), path.into())];
        Self { environment }.with("UUIDS", &uuids("GPU", gpus))
    }

    /// The library with one more variable in its environment.
    #[must_use]
    pub fn with(mut self, what: &str, value: &str) -> Self {
        self.environment.push((format!("STANDIN_NVML_{what}"), value.into()));
        self
    }

    /// The library with its first GPU in partitions.
    #[must_use]
    pub fn with_partitions(self, partitions: &[DeviceId]) -> Self {
        self.with("PARTITIONS", &uuids("MIG", partitions))
    }

    /// The environment in which a program finds it.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, OsString)> {
        self.environment.clone()
    }
}

impl StandinNvml {
    /// The same together with another library's environment, which may have a folder of its own.
    #[must_use]
    pub fn environment_with(&self, other: &[(String, OsString)]) -> Vec<(String, OsString)> {
        let mut all = self.environment();
        for (name, value) in other {
            match all.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => {
                    known.push(":");
                    known.push(value);
                }
                None => all.push((name.clone(), value.clone())),
            }
        }
        all
    }
}

/// A device's id as the library writes it.
#[must_use]
pub fn uuid(prefix: &str, id: DeviceId) -> String {
    let hex = id.to_string();
    format!("{prefix}-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn uuids(prefix: &str, ids: &[DeviceId]) -> String {
    ids.iter().map(|id| uuid(prefix, *id)).collect::<Vec<_>>().join(",")
}

/// Compiles the library into a folder beside the programs, and gives that folder.
fn built(name: &str, flags: &[&str]) -> PathBuf {
    let own = std::env::current_exe().expect("a test knows its executable");
    let profile = own.ancestors().nth(2).expect("tests are built in target/PROFILE/deps");
    let folder = profile.join("standin-nvml").join(name);
    fs::create_dir_all(&folder).expect("a folder for the library");
    // Another test may build it at the same time, or run with it: it appears whole, or not at all.
    let fresh = tempfile::Builder::new().tempfile_in(&folder).expect("a file beside the library").into_temp_path();
    compile(flags, &fresh);
    fresh.persist(folder.join(LIBRARY)).expect("the library takes its place");
    folder
}

fn compile(flags: &[&str], library: &Path) {
    let source: PathBuf = [env!("CARGO_MANIFEST_DIR"), "standin-nvml", "nvml.c"].iter().collect();
    let mut command = Command::new("cc");
    command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]).args(flags);
    let output = command.arg("-o").arg(library).arg(source).output().expect("a C compiler, which Rust links with too");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
