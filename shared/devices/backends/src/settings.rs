//! Settings of this machine's own devices, the same for both programs.

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use assay_cpu::CpuArgs;
use assay_device::backend::BackendKind;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
use assay_program::paths;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
use assay_program::settings::Switch;
use assay_program::settings::{AUTO, Settings, SettingsError};
use assay_work::PublicKey;
use assay_worker::WorkerConfig;

use crate::choice::{BackendChoice, ChooseError, absence};
use crate::filter::DeviceFilter;
use crate::merge::CUDA_VISIBLE_DEVICES;
use crate::preparing::Preparations;
use crate::registry::{HostConfig, built, is_built};
use crate::start::{DeviceSelection, start};

/// The version and the backends of this build, for the long form of `--version`.
pub static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let backends: Vec<_> = built().map(BackendKind::name).collect();
    format!("{}\nbackends: {}", env!("CARGO_PKG_VERSION"), backends.join(", "))
});
/// Variable with a program to start as worker instead of this one, such as a script that runs this program under a
/// debugger with exec.
const WORKER_PROGRAM: &str = "ASSAY_WORKER_PROGRAM";
/// The longest silence of a worker, in seconds: a device that hangs is of no use for as long.
const MAX_SILENCE_S: u64 = 600;

/// Settings of the devices, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Devices")]
pub struct RawDevices {
    /// Backends to use: auto (every GPU once, or the CPU if there is none), or a comma-separated list, each of which
    /// must provide a device
    #[arg(
        long,
        value_parser = backend_parser(),
        value_name = "BACKENDS",
        action = clap::ArgAction::Append,
        value_delimiter = ',',
        default_value = AUTO
    )]
    pub backend: Vec<BackendOrAuto>,
    /// Devices to use: an id or its first digits (at least 4), an index as `devices` numbers them, or a part of a name;
    /// with ^ before it, a device not to use. Comma-separated, or given several times
    #[arg(long, value_name = "DEVICE", action = clap::ArgAction::Append, value_delimiter = ',')]
    pub device: Vec<String>,
    /// The CPU's devices.
    #[command(flatten)]
    pub cpu: CpuArgs,
    /// CUDA devices.
    #[cfg(feature = "cuda")]
    #[command(flatten)]
    pub cuda: assay_cuda::CudaArgs,
    /// wgpu adapters.
    #[cfg(feature = "wgpu")]
    #[command(flatten)]
    pub wgpu: assay_wgpu::WgpuArgs,
    /// Seconds without a heartbeat before a worker is killed and restarted. Workers send four per second; increase on
    /// machines that swap
    #[arg(long, value_name = "S", default_value_t = WorkerConfig::SILENCE.as_secs())]
    pub worker_silence_s: u64,
    /// Folder for the kernels that drivers compile, which makes later starts fast; auto: assay in the user's cache
    /// directory. CUDA_CACHE_PATH takes precedence for CUDA
    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    #[arg(long, value_name = "FOLDER", default_value = AUTO)]
    pub kernel_cache: PathBuf,
    /// Overwrite the memory of GPUs before each pass, to detect reads of uninitialized memory
    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    #[arg(long, default_value_t = Switch(false))]
    pub poison: Switch,
}

/// A backend by name; `None` for `auto`.
pub type BackendOrAuto = Option<BackendKind>;

/// Every backend, also those that this build lacks: they are refused by name later.
fn backend_parser() -> impl TypedValueParser<Value = BackendOrAuto> {
    let named = |kind: BackendKind| {
        PossibleValue::new(kind.name()).help(match kind {
            BackendKind::Cuda => "NVIDIA GPUs, through the CUDA driver",
            BackendKind::Wgpu => "GPUs through Vulkan, Metal or DirectX 12; software adapters if there is no other",
            BackendKind::Cpu => "The CPU",
        })
    };
    let auto = PossibleValue::new(AUTO).help("Every GPU once, or the CPU if there is none; not together with others");
    let values: Vec<_> = std::iter::once(auto).chain(BackendKind::ALL.map(named)).collect();
    PossibleValuesParser::new(values).map(|name| BackendKind::named(&name))
}

/// Settings of the devices, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConfig {
    /// The configuration of the devices, without the seed of their ids.
    pub unseeded: HostConfig,
    pub workers: WorkerConfig,
}

impl DeviceConfig {
    /// Checks the settings as written.
    ///
    /// # Errors
    /// [`SettingsError::Value`] for the first value out of bounds.
    pub fn check<R: Args>(settings: &Settings<R>, raw: &RawDevices) -> Result<Self, SettingsError> {
        let unseeded = HostConfig {
            cpu: raw.cpu.check(settings)?,
            #[cfg(feature = "cuda")]
            cuda: raw.cuda.config(raw.cache_folder("cuda"), raw.poison.0),
            #[cfg(feature = "wgpu")]
            wgpu: raw.wgpu.check(settings, raw.cache_folder("wgpu"), raw.poison.0)?,
            choice: choice(settings, &raw.backend)?,
            filter: DeviceFilter::parse(&raw.device).map_err(|reason| settings.wrong("device", reason))?,
            gpus_are_hidden: false,
        };
        let reason = "less kills workers on a busy machine, more leaves a hang unnoticed";
        let silence = settings.in_range("worker_silence_s", raw.worker_silence_s, 1..=MAX_SILENCE_S, reason)?;
        let program = env::var_os(WORKER_PROGRAM).map(PathBuf::from);
        let workers = WorkerConfig { program, silence: Duration::from_secs(silence) };
        Ok(Self { unseeded, workers })
    }

    /// The configuration of the devices. Ids of devices that have none of their own are derived from `key`.
    pub fn host(&self, key: &PublicKey) -> HostConfig {
        let mut host = self.unseeded.clone();
        host.gpus_are_hidden = env::var_os(CUDA_VISIBLE_DEVICES).is_some();
        host.cpu.seed = key.0.to_vec();
        #[cfg(feature = "wgpu")]
        {
            host.wgpu.seed = key.0.to_vec();
            host.wgpu.software = host.choice != BackendChoice::Auto;
        }
        host
    }

    /// Opens the devices, each in its worker, and shows slow start-ups. Ids are as in [`DeviceConfig::host`].
    ///
    /// # Errors
    /// [`ChooseError`] when there are no devices.
    pub fn open(&self, key: &PublicKey) -> Result<DeviceSelection, ChooseError> {
        let mut preparations = Preparations::default();
        start(&self.host(key), &self.workers, &mut |info, preparing| preparations.show(info, preparing))
    }
}

#[cfg(any(feature = "cuda", feature = "wgpu"))]
impl RawDevices {
    /// The folder for the kernels of a backend.
    fn cache_folder(&self, backend: &str) -> Option<PathBuf> {
        let is_auto = self.kernel_cache.as_os_str() == AUTO;
        if is_auto { paths::cache_folder(backend) } else { Some(self.kernel_cache.join(backend)) }
    }
}

/// Which backends: each once, in the order of preference.
fn choice<R: Args>(settings: &Settings<R>, backends: &[BackendOrAuto]) -> Result<BackendChoice, SettingsError> {
    let kinds: BTreeSet<_> = backends.iter().copied().flatten().collect();
    if let Some(absent) = kinds.iter().find(|kind| !is_built(**kind)) {
        return Err(settings.wrong("backend", absence(*absent)));
    }
    if kinds.is_empty() {
        return Ok(BackendChoice::Auto);
    }
    if backends.contains(&None) {
        return Err(settings.wrong("backend", "auto cannot be combined with other backends"));
    }
    Ok(BackendChoice::These(kinds))
}

/// Why a key is unknown in this build, where a build with another backend knows it.
pub fn absent_key(key: &str) -> Option<String> {
    let instead = match key {
        "include_device" => "`device` names the devices to use",
        "exclude_device" => "`device` with ^ before a device does it, such as `^2`",
        "cuda_cache" | "wgpu_cache" => "`kernel_cache` names the folder of both, and each has a folder in it",
        "cuda_poison" | "wgpu_poison" => "`poison` does it for all GPUs",
        "worker_program" => "the variable ASSAY_WORKER_PROGRAM does it",
        _ => return absent_backend(key).map(absence),
    };
    Some(format!("it is gone, {instead}"))
}

/// The backend whose settings a key would be among, in a build that has it; `None` for keys of this build, and unknown
/// ones.
fn absent_backend(key: &str) -> Option<BackendKind> {
    let kind = match key {
        "kernel" => BackendKind::Cuda,
        // Settings of GPUs alone.
        "kernel_cache" | "poison" if !is_built(BackendKind::Wgpu) => BackendKind::Cuda,
        key if key.starts_with("cuda_") => BackendKind::Cuda,
        key if key.starts_with("wgpu_") => BackendKind::Wgpu,
        _ => return None,
    };
    (!is_built(kind)).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_program::settings::{Environment, Flags};
    use clap::FromArgMatches;

    fn settings(flags: &[&str]) -> Settings<RawDevices> {
        let command = Flags::<RawDevices>::augment_args(clap::Command::new("test"));
        let matches = command.try_get_matches_from(["test"].iter().chain(flags)).unwrap();
        Settings::resolve(&Flags::<RawDevices>::from_arg_matches(&matches).unwrap(), &Environment::default()).unwrap()
    }

    fn check(flags: &[&str]) -> Result<DeviceConfig, String> {
        let settings = settings(flags);
        DeviceConfig::check(&settings, &settings.raw).map_err(|error| error.to_string())
    }

    fn choice(flags: &[&str]) -> BackendChoice {
        check(flags).unwrap().unseeded.choice
    }

    fn these(kinds: &[BackendKind]) -> BackendChoice {
        BackendChoice::These(kinds.iter().copied().collect())
    }

    #[test]
    fn backends_are_auto_or_a_list() {
        assert_eq!(choice(&[]), BackendChoice::Auto);
        assert_eq!(choice(&["--backend=auto"]), BackendChoice::Auto);
        assert_eq!(choice(&["--backend=auto,auto"]), BackendChoice::Auto);
        for twice in ["--backend=cpu", "--backend=cpu,cpu"] {
            assert_eq!(choice(&[twice]), these(&[BackendKind::Cpu]));
        }
        for mixed in ["--backend=auto,cpu", "--backend=cpu,auto"] {
            let error = check(&[mixed]).unwrap_err();
            assert!(error.contains("cannot be combined") && error.contains("(flag --backend)"), "{error}");
        }
    }

    #[test]
    fn a_list_has_any_order_and_every_form() {
        let both = these(&[BackendKind::Wgpu, BackendKind::Cpu]);
        let of = |settings: Settings<RawDevices>| DeviceConfig::check(&settings, &settings.raw);
        for flags in [&["--backend=cpu,wgpu"][..], &["--backend=wgpu,cpu"], &["--backend=wgpu", "--backend=cpu"]] {
            match of(settings(flags)) {
                Ok(config) => assert_eq!(config.unseeded.choice, both),
                Err(error) => {
                    assert!(!is_built(BackendKind::Wgpu) && error.to_string().contains("no wgpu backend"), "{error}")
                }
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.toml");
        for text in ["backend = [\"wgpu\", \"cpu\"]", "backend = \"cpu,wgpu\""] {
            std::fs::write(&file, text).unwrap();
            let from_file = settings(&["--config", file.to_str().unwrap()]);
            assert_eq!(from_file.raw.backend.len(), 2, "{text}");
        }
        let variables = [("TEST_BACKEND".to_owned(), "cpu,wgpu".to_owned())];
        let flags = Flags::<RawDevices>::from_arg_matches(
            &Flags::<RawDevices>::augment_args(clap::Command::new("test")).get_matches_from(["test"]),
        );
        let from_environment =
            Settings::<RawDevices>::resolve(&flags.unwrap(), &Environment::new("TEST_", variables)).unwrap();
        assert_eq!(from_environment.raw.backend, [Some(BackendKind::Cpu), Some(BackendKind::Wgpu)]);
    }

    #[test]
    fn a_backend_that_this_build_lacks_is_refused_by_name() {
        for (kind, flag) in [(BackendKind::Cuda, "--backend=cuda"), (BackendKind::Wgpu, "--backend=wgpu,cpu")] {
            match check(&[flag]) {
                Ok(config) => assert!(is_built(kind) && config.unseeded.choice.allows(kind)),
                Err(error) => {
                    assert!(!is_built(kind), "{error}");
                    assert!(error.contains(&format!("this build has no {} backend", kind.title())), "{error}");
                }
            }
        }
    }

    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    #[test]
    fn compiled_kernels_lie_in_the_users_cache_unless_told_otherwise() {
        assert_eq!(settings(&[]).raw.cache_folder("cuda"), paths::cache_folder("cuda"));
        assert_eq!(settings(&["--kernel-cache=/c"]).raw.cache_folder("wgpu"), Some("/c/wgpu".into()));
    }

    #[test]
    fn settings_of_a_backend_that_this_build_lacks_are_known() {
        let absent = |kind: BackendKind| (!is_built(kind)).then_some(kind);
        for key in ["kernel", "cuda_float_units"] {
            assert_eq!(absent_backend(key), absent(BackendKind::Cuda), "{key}");
        }
        let without_gpus = absent(BackendKind::Cuda).filter(|_| !is_built(BackendKind::Wgpu));
        assert_eq!((absent_backend("kernel_cache"), absent_backend("poison")), (without_gpus, without_gpus));
        assert_eq!(absent_backend("wgpu_memory"), absent(BackendKind::Wgpu));
        assert_eq!(absent_backend("cpu_memory"), None);
        // A setting with such a name belongs to that backend.
        for setting in settings(&[]).settings() {
            assert_eq!(absent_backend(&setting.key), None, "{}", setting.key);
        }
    }

    #[test]
    fn the_version_tells_of_the_backends() {
        let backends = HostConfig::default().backends();
        let names: Vec<_> = backends.iter().map(|backend| backend.kind().name()).collect();
        assert!(LONG_VERSION.ends_with(&format!("\nbackends: {}", names.join(", "))), "{}", *LONG_VERSION);
    }
}
