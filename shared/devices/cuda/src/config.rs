//! Settings of the CUDA backend.

use std::path::PathBuf;
use std::time::Duration;

use assay_program::settings::{AUTO, Switch};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

assay_work::names! {
    /// The family of kernels for products: of the kinds of work that it computes; the others have what `auto` chooses.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ValueEnum)]
    #[serde(rename_all = "snake_case")]
    pub enum KernelChoice {
        /// The fastest that each device supports.
        #[default]
        Auto = "auto",
        /// `dp4a` instructions, for any GPU.
        Dp4a = "dp4a",
        /// Tensor cores of Turing: `mma.sync`.
        MmaSm75 = "mma-sm75",
        /// Tensor cores of Ampere and later: `mma.sync`.
        MmaSm80 = "mma-sm80",
        /// Tensor cores of Hopper: `wgmma`.
        WgmmaSm90a = "wgmma-sm90a",
        /// FP16 tensor cores of Turing: `mma.sync`.
        MmaF16Sm75 = "mma-f16-sm75",
        /// BF16 tensor cores of Ampere and later: `mma.sync`.
        MmaBf16Sm80 = "mma-bf16-sm80",
        /// BF16 tensor cores of Hopper: `wgmma`.
        WgmmaBf16Sm90a = "wgmma-bf16-sm90a",
        /// FP4 tensor cores of Blackwell's cards: `mma.sync`.
        MmaFp4Sm120f = "mma-fp4-sm120f",
        /// INT8 tensor cores of B200: `tcgen05`.
        Tcgen05Int8Sm100a = "tcgen05-int8-sm100a",
        /// BF16 tensor cores of data-centre Blackwell: `tcgen05`.
        Tcgen05Bf16Sm100f = "tcgen05-bf16-sm100f",
        /// FP8 tensor cores of data-centre Blackwell: `tcgen05`.
        Tcgen05Fp8Sm100f = "tcgen05-fp8-sm100f",
        /// FP4 tensor cores of data-centre Blackwell: `tcgen05`.
        Tcgen05Fp4Sm100f = "tcgen05-fp4-sm100f",
    }
}

/// Settings of CUDA devices, as written.
#[derive(Debug, Clone, Args)]
pub struct CudaArgs {
    /// Kernels for products on CUDA devices; results are the same
    #[arg(long, value_enum, value_name = "KERNEL", default_value = AUTO)]
    pub kernel: KernelChoice,
    /// Test the float units of CUDA devices at start, and offer the kinds of work that only they compute
    #[arg(long, default_value_t = Switch(true))]
    pub cuda_float_units: Switch,
}

impl CudaArgs {
    /// The settings as written, which need no check.
    pub fn config(&self, cache_folder: Option<PathBuf>, poison: bool) -> CudaConfig {
        CudaConfig {
            kernel: self.kernel,
            cache_folder,
            float_units: self.cuda_float_units.0,
            poison,
            ..CudaConfig::default()
        }
    }
}

/// Settings of the CUDA backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudaConfig {
    pub kernel: KernelChoice,
    /// The folder in which the driver keeps its compilations; without it, the driver uses its own default.
    pub cache_folder: Option<PathBuf>,
    /// Whether matrix units with float sums are tested, and used where they pass.
    pub float_units: bool,
    /// The most operands of a row in those tests; without it, the kernel's own chunk, as the rules of the test ask for. For
    /// drivers that are slow.
    pub float_test_terms: Option<u32>,
    /// Whether all memory is overwritten before each pass, so that a read of unwritten bytes shows.
    pub poison: bool,
    /// Whether slots are taken by `cuMemAlloc` at once, such that no other process maps them. No setting: benchmarks compare
    /// both ways.
    #[serde(default)]
    pub plain_memory: bool,
    /// Whether kernels compute without their self-test. No setting: it lets the bits of one that fails be looked at.
    #[serde(default)]
    pub untested: bool,
    /// Whether each GPU is two devices. No setting: it lets benchmarks link the devices of one GPU.
    #[serde(default)]
    pub twice: bool,
    /// The longest time without progress before a device counts as hung. Launches are cut to take less than a tenth of
    /// a second; the rest is for a GPU that others use too.
    pub stall_limit: Duration,
}

impl Default for CudaConfig {
    fn default() -> Self {
        Self {
            kernel: KernelChoice::Auto,
            cache_folder: None,
            float_units: true,
            float_test_terms: None,
            poison: false,
            plain_memory: false,
            untested: false,
            twice: false,
            stall_limit: Duration::from_secs(20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn config(line: &[&str]) -> CudaConfig {
        let matches = CudaArgs::augment_args(Command::new("test")).get_matches_from([&["test"], line].concat());
        CudaArgs::from_arg_matches(&matches).unwrap().config(None, false)
    }

    #[test]
    fn a_kernel_is_typed_by_its_name() {
        for kernel in KernelChoice::value_variants() {
            assert_eq!(config(&["--kernel", kernel.name()]).kernel, *kernel);
        }
    }
}
