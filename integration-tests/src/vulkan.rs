//! Lavapipe, which is Vulkan without a GPU, and the layer that makes trouble on demand (`scripts/vulkan-layer`), for
//! programs that a test starts.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Where distributions keep the manifests of Vulkan drivers.
const MANIFESTS: [&str; 4] =
    ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/etc/vulkan/icd.d"];

/// The environment in which the layer is between a program and lavapipe, with settings of the layer, named without
/// their `ASSAY_VULKAN_` (`integration-tests/vulkan-layer/settings.h`). `DEVICES` is the count of devices, 1 by
/// default.
///
/// # Panics
/// When the layer cannot be built, or lavapipe is not installed.
#[must_use]
pub fn environment(settings: &[(&str, &str)]) -> Vec<(String, OsString)> {
    let devices = settings.iter().find(|(name, _)| *name == "DEVICES");
    let devices = devices.map_or(1, |(_, devices)| devices.parse().expect("DEVICES is a number"));
    let mut environment = lavapipe(devices);
    environment.push(("VK_LAYER_PATH".to_owned(), folder().clone().into_os_string()));
    environment.push(("VK_INSTANCE_LAYERS".to_owned(), "VK_LAYER_ASSAY_trouble".into()));
    for (name, value) in settings.iter().filter(|(name, _)| *name != "DEVICES") {
        environment.push((format!("ASSAY_VULKAN_{name}"), (*value).into()));
    }
    environment
}

/// The environment in which lavapipe alone is present, `devices` times, whatever GPUs this machine may have.
#[must_use]
pub fn lavapipe(devices: usize) -> Vec<(String, OsString)> {
    let manifest = manifest();
    // The loader takes each manifest once, so each further device is a manifest of its own.
    let links = folder().join("drivers");
    fs::create_dir_all(&links).expect("a folder for manifests");
    let links: Vec<_> = (0..devices).map(|number| links.join(format!("{number}.json")).into_os_string()).collect();
    links.iter().for_each(|link| lead(Path::new(link), manifest));
    drivers(&links.join(":".as_ref()))
}

/// The environment in which Vulkan's loader finds no driver.
#[must_use]
pub fn no_driver() -> Vec<(String, OsString)> {
    drivers("/nowhere/no-driver.json".as_ref())
}

/// The environment without even Vulkan's loader: the library of its name cannot be loaded.
#[must_use]
pub fn no_loader() -> Vec<(String, OsString)> {
    let place = folder().join("no-loader");
    fs::create_dir_all(&place).expect("a folder for what is no library");
    fs::write(place.join("libvulkan.so.1"), "").expect("a file in that folder");
    vec![("LD_LIBRARY_PATH".to_owned(), place.into_os_string())]
}

fn drivers(manifests: &OsStr) -> Vec<(String, OsString)> {
    let settings = [
        ("VK_DRIVER_FILES", manifests),
        // The variable of loaders before 1.3.207.
        ("VK_ICD_FILENAMES", manifests),
        // Layers of the machine's own that may sort or hide devices: Mesa's, and all of them where the loader can do
        // that.
        ("NODEVICE_SELECT", "1".as_ref()),
        ("VK_LOADER_LAYERS_DISABLE", "~implicit~".as_ref()),
    ];
    settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// Lavapipe's manifest, for this machine's processor where there are several.
fn manifest() -> &'static Path {
    static MANIFEST: OnceLock<PathBuf> = OnceLock::new();
    MANIFEST.get_or_init(|| {
        let folders = MANIFESTS.iter().filter_map(|folder| fs::read_dir(folder).ok());
        let mut found: Vec<_> = folders.flatten().filter_map(Result::ok).map(|entry| entry.path()).collect();
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.retain(|path| name(path).starts_with("lvp_icd") && name(path).ends_with(".json"));
        found.sort_by_key(|path| !name(path).contains(std::env::consts::ARCH));
        let first = found.into_iter().next();
        first.expect("these tests run on lavapipe, Mesa's Vulkan driver for the processor: install mesa-vulkan-drivers")
    })
}

/// Makes `link` lead to `target`. Another test may do so at the same time.
fn lead(link: &Path, target: &Path) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if fs::read_link(link).is_ok_and(|now| now == target) {
        return;
    }
    let fresh = link.with_extension(format!("{}.new", std::process::id()));
    symlink(target, &fresh).expect("a link to lavapipe's manifest");
    fs::rename(&fresh, link).expect("the link takes its place");
}

/// The folder of the layer, built where it is not.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scripts/vulkan-layer");
        let output = Command::new(script).stderr(Stdio::inherit()).output();
        let output = output.unwrap_or_else(|error| panic!("scripts/vulkan-layer builds the Vulkan layer: {error}"));
        assert!(output.status.success(), "scripts/vulkan-layer, which builds the Vulkan layer, failed: see above");
        PathBuf::from(String::from_utf8(output.stdout).expect("a path in UTF-8").trim())
    })
}
