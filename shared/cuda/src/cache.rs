//! The driver's cache of compiled kernels.
//!
//! The driver caches what it compiled from PTX; this module sets the folder and the size. The driver does not tell that
//! it has to compile, so a marker file for each set of modules, driver version and compute capability lies in the
//! folder: where it is missing, a long start is announced.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use super::describe::Capability;
use super::modules::Ptx;

/// The driver's variable for the folder. One that is set already is left as it is.
pub const PATH_VARIABLE: &str = "CUDA_CACHE_PATH";
/// The driver's variable for the size.
pub const SIZE_VARIABLE: &str = "CUDA_CACHE_MAXSIZE";
/// Room for all modules, for every kind of GPU in a host, over some driver versions.
const CACHE_BYTES: u64 = 1 << 30;

/// Makes the folder, for its owner only, and gives the variables that a process must start with for its driver to use
/// it: they are read once, when the driver starts.
///
/// # Errors
/// The system's, when the folder cannot be made; the work goes on without it.
pub fn environment(folder: &Path) -> io::Result<Vec<(&'static str, OsString)>> {
    make_private(folder)?;
    let ours = [(PATH_VARIABLE, folder.into()), (SIZE_VARIABLE, CACHE_BYTES.to_string().into())];
    Ok(ours.into_iter().filter(|(name, _)| env::var_os(name).is_none()).collect())
}

/// The device runs the cached code as it is: nobody else may write it.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    #[cfg(unix)]
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}

/// The marker of what one kind of device needs compiled.
#[derive(Debug)]
pub(super) struct Marker(Option<PathBuf>);

impl Marker {
    /// The marker in the folder that the driver uses; none where that is not known.
    pub(super) fn new(folder: Option<&Path>, modules: &[&Ptx], driver: i32, capability: Capability) -> Self {
        let folder = env::var_os(PATH_VARIABLE).map(PathBuf::from).or_else(|| folder.map(Path::to_owned));
        let mut hasher = blake3::Hasher::new();
        for ptx in modules {
            hasher.update(blake3::hash(ptx.text.as_bytes()).as_bytes());
        }
        hasher.update(&driver.to_le_bytes());
        hasher.update(&capability.major.to_le_bytes());
        hasher.update(&capability.minor.to_le_bytes());
        let name = format!("assay-{}.compiled", &hasher.finalize().to_hex()[..16]);
        Self(folder.map(|folder| folder.join(name)))
    }

    /// Whether the driver is known to have compiled this before.
    pub(super) fn is_set(&self) -> bool {
        self.0.as_ref().is_some_and(|path| path.exists())
    }

    /// Creates the marker. Without it, the next start announces a compilation that does not happen.
    pub(super) fn set(&self) {
        if let Some(path) = &self.0
            && let Err(error) = fs::write(path, [])
        {
            tracing::debug!(path = %path.display(), %error, "no note that kernels are compiled");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: Ptx = Ptx { name: "one", text: ".version 7.0" };
    const CAPABILITY: Capability = Capability { major: 8, minor: 0 };

    #[test]
    fn a_marker_holds_for_the_same_modules_driver_and_device() {
        let folder = tempfile::tempdir().unwrap();
        let marker =
            |text, driver, capability| Marker::new(Some(folder.path()), &[&Ptx { text, ..PTX }], driver, capability);
        assert!(!marker(PTX.text, 12_000, CAPABILITY).is_set());
        marker(PTX.text, 12_000, CAPABILITY).set();
        assert!(marker(PTX.text, 12_000, CAPABILITY).is_set());
        assert!(!marker(".version 8.0", 12_000, CAPABILITY).is_set());
        assert!(!marker(PTX.text, 12_010, CAPABILITY).is_set());
        assert!(!marker(PTX.text, 12_000, Capability { minor: 6, ..CAPABILITY }).is_set());
    }

    #[cfg(unix)]
    #[test]
    fn the_folder_is_its_owners_only_and_told_to_the_driver() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("assay/cuda");
        let variables = environment(&folder).unwrap();
        assert!(variables.contains(&(PATH_VARIABLE, folder.clone().into())), "{variables:?}");
        assert!(variables.iter().any(|(name, _)| *name == SIZE_VARIABLE));
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        environment(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700, "closed again");
    }
}
