//! The driver's cache of compiled kernels.
//!
//! The driver caches its compilations of PTX; this module sets the folder and the size. The driver does not report that
//! it has to compile, so a marker file for each set of modules, driver version and compute capability lies in the
//! folder: where it is missing, a long start is announced.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
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

/// The device runs the cached code unchecked: no other user may write it.
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

/// The folder that the driver uses; `None` where that is not known.
fn in_use(folder: Option<&Path>) -> Option<PathBuf> {
    env::var_os(PATH_VARIABLE).map(PathBuf::from).or_else(|| folder.map(Path::to_owned))
}

/// The marker of the compiled modules of one kind of device.
#[derive(Debug)]
pub(super) struct ModuleMarker(Option<PathBuf>);

impl ModuleMarker {
    /// The marker in the folder that the driver uses; empty where that is not known.
    pub(super) fn new(folder: Option<&Path>, modules: &[&Ptx], driver: i32, capability: Capability) -> Self {
        let folder = in_use(folder);
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

/// A self-test of a unit that is running: while it does, a file lies in the folder, one byte for each test that has
/// begun and not ended. A kernel that the hardware does not take ends the context, and with it the process: only a file
/// can inform the next one.
#[derive(Debug)]
pub(super) struct Trial(Option<(PathBuf, fs::File)>);

impl Trial {
    /// Tests that may have ended with their process before a unit is not tested again: one may have been interrupted.
    const MAX_UNENDED: u64 = 2;
    /// How long it is not tested then: the device may have been sick, or the process stopped.
    const BARRED: Duration = Duration::from_secs(86_400);

    /// Begins a test of a module's unit on a device. Where no file can be written, or another process tests the same at
    /// this moment, the test leaves no file.
    ///
    /// # Errors
    /// The file, where too many tests of this module with this driver on this device have not ended.
    pub(super) fn begin(folder: Option<&Path>, ptx: &Ptx, driver: i32, device: &[u8]) -> Result<Self, PathBuf> {
        let Some(folder) = in_use(folder) else { return Ok(Self(None)) };
        let mut hasher = blake3::Hasher::new();
        hasher.update(blake3::hash(ptx.text.as_bytes()).as_bytes());
        hasher.update(&driver.to_le_bytes());
        hasher.update(device);
        let path = folder.join(format!("assay-{}-{}.testing", ptx.name, &hasher.finalize().to_hex()[..16]));
        let Ok(file) = fs::File::options().create(true).append(true).open(&path) else { return Ok(Self(None)) };
        if file.try_lock().is_err() {
            return Ok(Self(None));
        }
        if let Ok(data) = file.metadata()
            && data.len() >= Self::MAX_UNENDED
        {
            let age = data.modified().ok().and_then(|at| at.elapsed().ok());
            if age.is_none_or(|age| age < Self::BARRED) || file.set_len(0).is_err() {
                return Err(path);
            }
        }
        let noted = io::Write::write_all(&mut &file, b".").and_then(|()| file.sync_all());
        if let Err(error) = noted {
            tracing::debug!(path = %path.display(), %error, "no note that a unit is being tested");
        }
        Ok(Self(Some((path, file))))
    }

    /// Ends the test, whatever the finding.
    pub(super) fn end(self) {
        if let Some((path, file)) = self.0 {
            // Another process may have opened the file before it is gone: it must see it empty.
            let gone = file.set_len(0).and_then(|()| fs::remove_file(&path));
            if let Err(error) = gone {
                tracing::debug!(path = %path.display(), %error, "the note that a unit is being tested stays");
            }
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
        let marker = |text, driver, capability| {
            ModuleMarker::new(Some(folder.path()), &[&Ptx { text, ..PTX }], driver, capability)
        };
        assert!(!marker(PTX.text, 12_000, CAPABILITY).is_set());
        marker(PTX.text, 12_000, CAPABILITY).set();
        assert!(marker(PTX.text, 12_000, CAPABILITY).is_set());
        assert!(!marker(".version 8.0", 12_000, CAPABILITY).is_set());
        assert!(!marker(PTX.text, 12_010, CAPABILITY).is_set());
        assert!(!marker(PTX.text, 12_000, Capability { minor: 6, ..CAPABILITY }).is_set());
    }

    #[test]
    fn a_unit_whose_tests_do_not_end_is_not_tested_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let begin = |driver, device| Trial::begin(Some(folder.path()), &PTX, driver, device);
        // Each that is dropped stands for a process that ended.
        for _ in 0..Trial::MAX_UNENDED {
            drop(begin(13_000, b"one").unwrap());
        }
        let path = begin(13_000, b"one").unwrap_err();
        assert!(path.starts_with(folder.path()), "{path:?}");
        // Other devices and drivers have tests of their own.
        begin(13_000, b"two").unwrap().end();
        begin(13_010, b"one").unwrap().end();
        // Regression test: a sick device, or a stop while it was tested, barred its units for good.
        let at = |age: Duration| {
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
        };
        at(Trial::BARRED - Duration::from_secs(60));
        assert_eq!(begin(13_000, b"one").unwrap_err(), path);
        at(Trial::BARRED + Duration::from_secs(60));
        begin(13_000, b"one").unwrap().end();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn tests_that_end_are_forgotten_and_those_under_way_count_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let begin = || Trial::begin(Some(folder.path()), &PTX, 13_000, b"one");
        for _ in 0..3 * Trial::MAX_UNENDED {
            begin().unwrap().end();
        }
        let first = begin().unwrap();
        let others: Vec<_> = (0..3 * Trial::MAX_UNENDED).map(|_| begin().unwrap()).collect();
        assert!(others.iter().all(|trial| trial.0.is_none()));
        first.end();
        assert!(begin().is_ok_and(|trial| trial.0.is_some()));
        // Without a folder nothing is noted.
        assert!(Trial::begin(Some(&folder.path().join("none")), &PTX, 13_000, b"one").unwrap().0.is_none());
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
