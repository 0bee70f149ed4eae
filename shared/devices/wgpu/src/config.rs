//! Settings of the wgpu backend.

use std::path::PathBuf;
use std::time::Duration;

use assay_device::backend::MIN_DEVICE_BYTES;
use assay_program::settings::{AUTO, Settings, SettingsError};
use assay_work::size::Size;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

/// The least limit of one buffer: a slot of the smallest matrix.
const MIN_BUFFER_BYTES: u64 = 256 * 256;

/// The shader code for dot products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum DotChoice {
    /// Packed dot products if the driver reports instructions for them, plain ones if it reports none, otherwise the faster
    /// of both.
    #[default]
    Auto,
    /// The fastest of all that are exact, as measured, cooperative matrices among them (experimental in wgpu).
    Fastest,
    /// Packed dot products: `dot4I8Packed`.
    Packed,
    /// Plain integer arithmetic.
    Plain,
    /// Cooperative matrices of half floats where the device has them and they pass the self-test; otherwise as with auto.
    /// Experimental in wgpu: see docs/gpus.md.
    Cooperative,
}

impl DotChoice {
    /// Whether a device is opened with cooperative matrices, where it has them.
    pub(super) const fn opens_cooperative(self) -> bool {
        matches!(self, Self::Fastest | Self::Cooperative)
    }
}

/// Settings of wgpu devices, as written.
#[derive(Debug, Clone, Args)]
pub struct WgpuArgs {
    /// Memory limit of each wgpu adapter, such as 8GiB; auto: the free memory reported by the driver
    #[arg(long, value_name = "SIZE", default_value = AUTO)]
    pub wgpu_memory: String,
    /// Maximum size of one wgpu buffer, for drivers that report more than they support; auto: the reported limit
    #[arg(long, value_name = "SIZE", default_value = AUTO)]
    pub wgpu_buffer: String,
    /// Dot products on wgpu adapters; results are the same
    #[arg(long, value_enum, value_name = "DOT", default_value = AUTO)]
    pub wgpu_dot: DotChoice,
}

impl WgpuArgs {
    /// Checks the settings as written. The seed of device ids is left empty.
    ///
    /// # Errors
    /// [`SettingsError::Value`] for the first value out of bounds.
    pub fn check<R: Args>(
        &self,
        settings: &Settings<R>,
        cache_folder: Option<PathBuf>,
        poison: bool,
    ) -> Result<WgpuConfig, SettingsError> {
        let at_least = |key: &str, text: &str, bytes: u64, reason: &str| {
            let (size, least) = (settings.parsed_unless_auto::<Size>(key, text)?, Size { bytes });
            if size.is_some_and(|size| size < least) {
                return Err(settings.wrong(key, format!("must be auto, or at least {least}: {reason}")));
            }
            Ok(size.map(|size| size.bytes))
        };
        let no_share = "the smallest share of a challenge does not fit in less";
        let no_matrix = "the smallest matrix does not fit in less";
        Ok(WgpuConfig {
            memory_bytes: at_least("wgpu_memory", &self.wgpu_memory, MIN_DEVICE_BYTES, no_share)?,
            buffer_bytes: at_least("wgpu_buffer", &self.wgpu_buffer, MIN_BUFFER_BYTES, no_matrix)?,
            dot: self.wgpu_dot,
            cache_folder,
            poison,
            ..WgpuConfig::default()
        })
    }
}

/// Settings of the wgpu backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WgpuConfig {
    /// The most bytes of memory that each adapter may use; without it, the bytes that its API calls free.
    pub memory_bytes: Option<u64>,
    /// The most bytes of one buffer, where the driver's own limit is too much for it.
    pub buffer_bytes: Option<u64>,
    /// How products multiply.
    pub dot: DotChoice,
    /// Where compiled pipelines are kept; without it, they are not.
    pub cache_folder: Option<PathBuf>,
    /// Whether all memory is overwritten before each pass, so that a read of unwritten bytes shows.
    pub poison: bool,
    /// The longest time without progress before a device counts as hung. Submissions are cut to take less than a tenth
    /// of a second; the rest is for a GPU that others use too.
    pub stall_limit: Duration,
    /// Whether software adapters are used where there is no other. The processor's own devices are faster.
    pub software: bool,
    /// The origin of device ids where hardware has none, such as the daemon's public key.
    #[serde(with = "hex::serde")]
    pub seed: Vec<u8>,
}

impl Default for WgpuConfig {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            buffer_bytes: None,
            dot: DotChoice::Auto,
            cache_folder: None,
            poison: false,
            stall_limit: Duration::from_secs(20),
            software: false,
            seed: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_program::settings::{Environment, Flags};
    use clap::{Command, FromArgMatches};

    fn check(line: &[&str]) -> Result<WgpuConfig, String> {
        let matches =
            Flags::<WgpuArgs>::augment_args(Command::new("test")).get_matches_from([&["test"], line].concat());
        let flags = Flags::<WgpuArgs>::from_arg_matches(&matches).unwrap();
        let settings = Settings::<WgpuArgs>::resolve(&flags, &Environment::default()).unwrap();
        settings.raw.check(&settings, None, false).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_written_is_what_is_meant() {
        assert_eq!(check(&[]), Ok(WgpuConfig::default()));
        let wgpu = check(&["--wgpu-memory=2GiB", "--wgpu-buffer=64KiB", "--wgpu-dot=plain"]).unwrap();
        assert_eq!((wgpu.memory_bytes, wgpu.buffer_bytes), (Some(2 << 30), Some(65_536)));
        assert_eq!(wgpu.dot, DotChoice::Plain);
        assert_eq!(check(&["--wgpu-dot=packed"]).unwrap().dot, DotChoice::Packed);
        assert_eq!(check(&["--wgpu-dot=cooperative"]).unwrap().dot, DotChoice::Cooperative);
    }

    #[test]
    fn bounds_are_kept_and_explained() {
        for (flag, part) in [
            ("--wgpu-memory=8MB", "at least 8MiB: the smallest share"),
            ("--wgpu-memory=2", "expected a whole number and a unit"),
            ("--wgpu-memory=1GiB,2GiB", "expected a whole number and a unit"),
            ("--wgpu-buffer=65535B", "at least 64KiB: the smallest matrix"),
            ("--wgpu-buffer=large", "expected a whole number and a unit"),
        ] {
            let error = check(&[flag]).unwrap_err();
            let (name, _) = flag.split_once('=').unwrap();
            assert!(error.contains(part) && error.contains(&format!("(flag {name})")), "{flag}: {error}");
        }
        check(&["--wgpu-memory=8MiB", "--wgpu-buffer=64KiB"]).unwrap();
    }
}
