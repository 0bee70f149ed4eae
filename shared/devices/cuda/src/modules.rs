//! The PTX that this build carries: the files of `kernels/ptx/`, which are committed, so that no CUDA toolkit is needed.

use std::collections::BTreeMap;
#[cfg(feature = "bench")]
use std::path::Path;
use std::sync::OnceLock;

/// Modules of a benchmark in place of those of the same names.
static REPLACED: OnceLock<BTreeMap<&'static str, Ptx>> = OnceLock::new();

#[derive(Debug, Clone, Copy)]
pub(super) struct Ptx {
    /// The file's name without its extension.
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

macro_rules! modules {
    ($($name:literal)*) => {
        &[$(Ptx { name: $name, text: include_str!(concat!("../../../../kernels/ptx/", $name, ".ptx")) },)*]
    };
}

static MODULES: &[Ptx] = modules! {
    "digest"
    "expand"
    "field"
    "keystream"
    "network"
    "probe"
    "product_dp4a"
    "product_mma_bf16_sm80"
    "product_mma_f16_sm75"
    "product_mma_fp4_sm120f"
    "product_mma_sm75"
    "product_mma_sm80"
    "product_tcgen05_bf16_sm100f"
    "product_tcgen05_fp4_sm100f"
    "product_tcgen05_fp8_sm100f"
    "product_tcgen05_int8_sm100a"
    "product_wgmma_bf16_sm90a"
    "product_wgmma_sm90a"
    "sweep"
};

/// The PTX of a name.
pub(super) fn find(name: &str) -> Option<&'static Ptx> {
    let replaced = REPLACED.get().and_then(|replaced| replaced.get(name));
    replaced.or_else(|| MODULES.iter().find(|ptx| ptx.name == name))
}

/// Takes the files `NAME.ptx` of a folder in place of the modules of these names, for all devices that this process opens from
/// now on. For benchmarks: nothing tests such a module before it is used. Gives the names.
///
/// # Errors
/// One sentence: an unreadable file, a name that no module has, a folder without such files, or a second call.
#[cfg(feature = "bench")]
pub fn replace(folder: &Path) -> Result<Vec<&'static str>, String> {
    let unreadable = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut replaced = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_none_or(|extension| extension != "ptx") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let known = MODULES.iter().find(|module| module.name == name);
        let known = known.ok_or_else(|| format!("{}: no module is called {name}", path.display()))?;
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // Modules live as long as the process, as those that it carries do.
        replaced.insert(known.name, Ptx { name: known.name, text: text.leak() });
    }
    if replaced.is_empty() {
        return Err(format!("{}: no .ptx file", folder.display()));
    }
    let names = replaced.keys().copied().collect();
    REPLACED.set(replaced).map_err(|_| "modules were replaced before".to_owned())?;
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_committed_file_is_carried() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../kernels/ptx");
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        assert_eq!(names, MODULES.iter().map(|module| module.name).collect::<Vec<_>>());
    }

    #[cfg(feature = "bench")]
    #[test]
    fn modules_of_a_folder_take_the_place_of_those_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert!(replace(folder.path()).unwrap_err().ends_with("no .ptx file"));
        write("abacus.ptx", "");
        assert!(replace(folder.path()).unwrap_err().ends_with("no module is called abacus"));
        std::fs::remove_file(folder.path().join("abacus.ptx")).unwrap();
        write("notes.txt", "");
        write("product_dp4a.ptx", "// another one");
        assert_eq!(replace(folder.path()), Ok(vec!["product_dp4a"]));
        assert_eq!(find("product_dp4a").map(|ptx| ptx.text), Some("// another one"));
        assert!(find("probe").is_some_and(|ptx| ptx.text.contains(".visible .entry")));
        assert!(replace(folder.path()).unwrap_err().contains("before"), "once for a process");
    }
}
