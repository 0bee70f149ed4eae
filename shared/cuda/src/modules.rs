//! The PTX that this build carries: the files of `kernels/ptx/`, which are committed, so that no CUDA toolkit is needed.

/// One file of PTX.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ptx {
    /// The file's name without its ending.
    pub(super) name: &'static str,
    /// The file's text.
    pub(super) text: &'static str,
}

macro_rules! modules {
    ($($name:literal)*) => {
        &[$(Ptx { name: $name, text: include_str!(concat!("../../../kernels/ptx/", $name, ".ptx")) },)*]
    };
}

static MODULES: &[Ptx] = modules! {
    "digest"
    "expand"
    "keystream"
    "probe"
    "product_dp4a"
    "product_mma_bf16_sm80"
    "product_mma_f16_sm75"
    "product_mma_fp8_sm120"
    "product_mma_sm75"
    "product_mma_sm80"
    "product_tcgen05_bf16_sm100f"
    "product_tcgen05_fp4_sm100f"
    "product_tcgen05_fp8_sm100f"
    "product_tcgen05_int8_sm100a"
    "product_wgmma_bf16_sm90a"
    "product_wgmma_sm90a"
};

/// The PTX of a name.
pub(super) fn find(name: &str) -> Option<&'static Ptx> {
    MODULES.iter().find(|ptx| ptx.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_committed_file_is_carried() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/ptx");
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        assert_eq!(names, MODULES.iter().map(|module| module.name).collect::<Vec<_>>());
    }
}
