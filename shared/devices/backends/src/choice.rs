//! The choice of backends, and the devices that they find together.

use std::collections::BTreeSet;

use assay_device::backend::{Absence, Backend, BackendKind, DetectedDevice};
use assay_program::exit::{Exit, Failure};
use serde::{Deserialize, Serialize};

use crate::merge::exclude_hidden;

/// The backends that may be used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendChoice {
    /// All GPUs, each once; the processor without any.
    #[default]
    Auto,
    /// All of these, each of which has to give a device.
    These(BTreeSet<BackendKind>),
}

impl BackendChoice {
    pub fn only(kind: BackendKind) -> Self {
        Self::These(BTreeSet::from([kind]))
    }

    pub fn allows(&self, kind: BackendKind) -> bool {
        match self {
            Self::Auto => true,
            Self::These(kinds) => kinds.contains(&kind),
        }
    }

    /// The stages of `backends` that are used together: the first stage, and the next one when it gives no device.
    ///
    /// # Errors
    /// [`ChooseError`] when a backend asked for is not among them.
    pub fn stages(&self, backends: Vec<Box<dyn Backend>>) -> Result<Vec<Vec<Box<dyn Backend>>>, ChooseError> {
        let Self::These(kinds) = self else {
            let (gpus, processor): (Vec<_>, _) = backends.into_iter().partition(|backend| backend.kind().has_gpus());
            return Ok([gpus, processor].into_iter().filter(|stage| !stage.is_empty()).collect());
        };
        let built: BTreeSet<_> = backends.iter().map(|backend| backend.kind()).collect();
        if let Some(missing) = kinds.difference(&built).next() {
            return Err(ChooseError::None(format!("{missing}: {}", absence(*missing))));
        }
        Ok(vec![backends.into_iter().filter(|backend| kinds.contains(&backend.kind())).collect()])
    }

    /// Passes a backend over with its reason, where that may be.
    ///
    /// # Errors
    /// [`ChooseError`] where that backend was asked for, or may give its devices later: another one would take their place
    /// for as long as the program runs.
    pub fn pass_over(
        &self,
        backend: BackendKind,
        absence: &Absence,
        passed_over: &mut Vec<String>,
    ) -> Result<(), ChooseError> {
        let why = format!("{backend}: {absence}");
        if absence.may_pass {
            return Err(ChooseError::NotNow(why));
        }
        match self {
            Self::Auto => passed_over.push(why),
            Self::These(_) => return Err(ChooseError::None(why)),
        }
        Ok(())
    }
}

/// Why there is nothing of a backend in a build without it.
pub fn absence(kind: BackendKind) -> String {
    format!("this build has no {} backend: take one with the feature `{kind}`", kind.title())
}

/// A choice that gives no devices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// No backend gives a device: the reason of each.
    #[error("no device: {0}")]
    None(String),
    /// A backend gives no device now, but may later: its reason.
    #[error("no device now: {0}")]
    NotNow(String),
    /// A setting names no device, or no device is left: the setting, and the devices.
    #[error("{0}")]
    Filter(String),
}

impl ChooseError {
    /// The exit code: where the reason may pass, a manager of services starts the program again.
    pub const fn exit(&self) -> Exit {
        if matches!(self, Self::NotNow(_)) { Exit::Internal } else { Exit::Config }
    }
}

impl From<ChooseError> for Failure {
    fn from(error: ChooseError) -> Self {
        Self::because(error.exit(), "devices", error)
    }
}

/// The devices that each backend of a stage finds, for [`merge()`](super::merge::merge); `detect` asks one. The reasons
/// of backends without devices, and devices that are refused or hidden, go into `passed_over`.
///
/// # Errors
/// [`ChooseError`] when a backend cannot be passed over that finds no device.
pub fn detect_all(
    choice: &BackendChoice,
    gpus_are_hidden: bool,
    stage: &[Box<dyn Backend>],
    detect: impl Fn(&dyn Backend) -> Result<Vec<DetectedDevice>, Absence>,
    passed_over: &mut Vec<String>,
) -> Result<Vec<Vec<DetectedDevice>>, ChooseError> {
    let (mut lists, mut forbidden) = (Vec::with_capacity(stage.len()), Vec::new());
    for backend in stage {
        let mut found = detect(&**backend);
        let refused = found.iter_mut().flat_map(|found| found.extract_if(.., |found| found.refusal.is_some()));
        let refused = refused.inspect(|found| forbidden.extend(found.forbidden.then(|| found.place.clone())));
        let refused: Vec<_> = refused.filter_map(|found| found.refusal).collect();
        refused.iter().for_each(|why| tracing::warn!("not used: {why}"));
        match found {
            Ok(found) if !found.is_empty() => {
                passed_over.extend(refused.iter().map(|why| format!("{}: {why}", backend.kind())));
                lists.push(found);
            }
            said => {
                // Over a pipe, no device and no reason are the same.
                let said = said.err().filter(|absence| !absence.why.is_empty());
                let none = refused.first().map_or("it has no device", String::as_str);
                let absence = said.unwrap_or_else(|| none.into());
                choice.pass_over(backend.kind(), &absence, passed_over)?;
            }
        }
    }
    let is_forbidden = |found: &DetectedDevice| forbidden.iter().any(|place| found.place.is_known_as(place));
    lists.iter_mut().for_each(|list| list.retain(|found| !is_forbidden(found)));
    lists.retain(|list| !list.is_empty());
    if gpus_are_hidden && *choice == BackendChoice::Auto {
        passed_over.extend(exclude_hidden(&mut lists).iter().map(ToString::to_string));
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;
    use BackendKind::{Cpu, Cuda, Wgpu};
    use assay_device::DeviceInfo;
    use assay_device::place::{DevicePlace, NVIDIA};
    use assay_kits::faulty::FakeBackend;
    use assay_work::DeviceId;

    fn backends(kinds: &[BackendKind]) -> Vec<Box<dyn Backend>> {
        let fake =
            |kind: &BackendKind| Box::new(FakeBackend { kind: *kind, devices: Err("none".into()) }) as Box<dyn Backend>;
        kinds.iter().map(fake).collect()
    }

    fn stages(choice: &BackendChoice, built: &[BackendKind]) -> Result<Vec<Vec<BackendKind>>, ChooseError> {
        let kinds = |stage: Vec<Box<dyn Backend>>| stage.iter().map(|backend| backend.kind()).collect();
        Ok(choice.stages(backends(built))?.into_iter().map(kinds).collect())
    }

    #[test]
    fn auto_takes_all_gpus_and_the_processor_where_there_is_none() {
        let auto = BackendChoice::Auto;
        assert_eq!(stages(&auto, &[Cuda, Wgpu, Cpu]), Ok(vec![vec![Cuda, Wgpu], vec![Cpu]]));
        assert_eq!(stages(&auto, &[Wgpu, Cpu]), Ok(vec![vec![Wgpu], vec![Cpu]]));
        assert_eq!(stages(&auto, &[Cpu]), Ok(vec![vec![Cpu]]));
        assert!(BackendKind::ALL.into_iter().all(|kind| auto.allows(kind)));
    }

    #[test]
    fn what_is_asked_for_is_used_together_in_the_order_of_preference() {
        let both = BackendChoice::These(BTreeSet::from([Cpu, Cuda]));
        assert_eq!(stages(&both, &[Cuda, Wgpu, Cpu]), Ok(vec![vec![Cuda, Cpu]]));
        assert!(both.allows(Cpu) && !both.allows(Wgpu));
        let Err(ChooseError::None(said)) = stages(&both, &[Wgpu, Cpu]) else { panic!("there is no CUDA") };
        assert_eq!(said, "cuda: this build has no CUDA backend: take one with the feature `cuda`");
    }

    #[test]
    fn nothing_takes_the_place_of_a_backend_that_may_give_its_devices_later() {
        let absence = Absence { may_pass: true, .."not ready".into() };
        for choice in [BackendChoice::Auto, BackendChoice::only(Cuda)] {
            let error = choice.pass_over(Cuda, &absence, &mut Vec::new()).unwrap_err();
            assert_eq!(error, ChooseError::NotNow("cuda: not ready".into()));
            let failure = Failure::from(error);
            assert_eq!(failure.exit, Exit::Internal, "78 keeps a manager of services from starting it again");
        }
        assert_eq!(Failure::from(ChooseError::None("none".into())).exit, Exit::Config);
    }

    #[test]
    fn only_auto_does_without_a_backend() {
        let mut passed_over = Vec::new();
        let auto = BackendChoice::Auto;
        let gpus = backends(&[Cuda, Wgpu]);
        assert_eq!(detect_all(&auto, false, &gpus, |backend| backend.detect(), &mut passed_over), Ok(vec![]));
        assert_eq!(passed_over, ["cuda: none", "wgpu: none"]);
        let asked = BackendChoice::only(Wgpu);
        let error = detect_all(&asked, false, &gpus[1..], |_| Ok(Vec::new()), &mut Vec::new()).unwrap_err();
        assert_eq!(error, ChooseError::None("wgpu: it has no device".into()));
    }

    /// The variable hides GPUs from `auto` alone, and only where it is set.
    #[test]
    fn auto_takes_no_gpu_that_is_hidden() {
        let id = DeviceId([1; 16]);
        let name = "card".to_owned();
        let info = DeviceInfo {
            id,
            name,
            backend: Wgpu,
            detail: String::new(),
            precisions: vec![assay_work::Precision::Int8],
            units: Vec::new(),
            total_bytes: 1,
            free_bytes: 1,
        };
        let place = DevicePlace { pci_address: "0000:03:00.0".parse().ok(), uuid: None, vendor: Some(NVIDIA) };
        let found = vec![DetectedDevice {
            info,
            place,
            integrated: false,
            refusal: None,
            forbidden: false,
            spec: String::new(),
        }];
        let looked = |gpus_are_hidden, choice| {
            let (mut passed_over, wgpu) = (Vec::new(), backends(&[Wgpu]));
            let lists = detect_all(&choice, gpus_are_hidden, &wgpu, |_| Ok(found.clone()), &mut passed_over).unwrap();
            (lists, passed_over)
        };
        let (taken, nothing) = (vec![found.clone()], Vec::<String>::new());
        assert_eq!(looked(false, BackendChoice::Auto), (taken.clone(), nothing.clone()));
        let said = "card at 0000:03:00.0 (wgpu) is hidden by CUDA_VISIBLE_DEVICES".to_owned();
        assert_eq!(looked(true, BackendChoice::Auto), (vec![], vec![said]));
        assert_eq!(looked(true, BackendChoice::only(Wgpu)), (taken, nothing));
    }
}
