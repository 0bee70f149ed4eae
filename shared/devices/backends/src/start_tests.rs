//! Several backends at once: the devices that a host then has, and the fallback when a backend has none.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use BackendKind::{Cpu, Cuda, Wgpu};
use assay_kits::faulty::{FakeBackend, FakeFault, LONG, fakes, found};
use assay_worker::{LaunchedWorker, Launcher, Process};

use super::*;
use crate::filter::{DeviceFilter, DeviceSelector};
use threads::{FakeProcess, Threads};

#[path = "../../worker/src/tests/threads.rs"]
mod threads;

/// A device as these tests write it: its id, its fault, and where it is.
type Written = (u8, FakeFault, &'static str);

/// The devices that the backends find; a backend that is not listed finds none.
type Machine = &'static [(BackendKind, &'static [Written])];

fn fake(kind: BackendKind, machine: Machine) -> Box<dyn Backend> {
    let found = |(id, fault, address): &Written| {
        found(kind, *id, *fault, DevicePlace { pci_address: address.parse().ok(), ..DevicePlace::default() })
    };
    let written = machine.iter().find(|(named, _)| *named == kind);
    let devices =
        written.map(|(_, devices)| devices.iter().map(found).collect()).ok_or("no driver: install one".into());
    Box::new(FakeBackend { kind, devices })
}

/// The choice on a host with these devices, and the number of workers that it took.
fn choose(choice: BackendChoice, machine: Machine) -> (Result<DeviceSelection, String>, u32) {
    choose_of(&HostConfig { choice, ..HostConfig::default() }, machine)
}

fn choose_of(host: &HostConfig, machine: Machine) -> (Result<DeviceSelection, String>, u32) {
    let threads = Arc::new(Threads::new(fakes));
    let launch = WorkerLaunch { launcher: threads.clone(), silence: LONG };
    let backends = BackendKind::ALL.map(|kind| fake(kind, machine)).into();
    let chosen = start_with(host, backends, &launch, &mut |_, _| ());
    (chosen.map_err(|error| error.to_string()), threads.started.load(Ordering::Relaxed))
}

fn chosen(choice: BackendChoice, machine: Machine) -> DeviceSelection {
    choose(choice, machine).0.unwrap_or_else(|error| panic!("{error}"))
}

fn refused(choice: BackendChoice, machine: Machine) -> String {
    choose(choice, machine).0.map(|chosen| chosen.backend).expect_err("a device was chosen")
}

fn these(kinds: &[BackendKind]) -> BackendChoice {
    BackendChoice::These(kinds.iter().copied().collect::<BTreeSet<_>>())
}

fn ids(chosen: &DeviceSelection) -> Vec<u8> {
    chosen.host.ids().map(|id| id.0[0]).collect()
}

const PROCESSOR: (BackendKind, &[Written]) = (Cpu, &[(9, FakeFault::None, "")]);

#[test]
fn auto_takes_every_gpu_once_and_no_processor() {
    let machine: Machine = &[
        (Cuda, &[(1, FakeFault::None, "00000000:02:00.0")]),
        (Wgpu, &[(2, FakeFault::None, "0000:02:00.0"), (3, FakeFault::None, "0000:03:00.0")]),
        PROCESSOR,
    ];
    let chosen = chosen(BackendChoice::Auto, machine);
    assert_eq!((ids(&chosen), chosen.backend.as_str()), (vec![1, 3], "cuda, wgpu"));
    assert_eq!(chosen.why, "auto; card 2 at 0000:02:00.0 (wgpu) is used through CUDA");
    let report = chosen.host.report(&[256]).unwrap();
    assert_eq!(report.iter().map(|report| report.info.backend).collect::<Vec<_>>(), [Cuda, Wgpu]);
}

#[test]
fn auto_takes_the_processor_where_there_is_no_gpu() {
    let chosen = chosen(BackendChoice::Auto, &[PROCESSOR, (Wgpu, &[])]);
    assert_eq!((ids(&chosen), chosen.backend.as_str()), (vec![9], "cpu"));
    assert_eq!(chosen.why, "auto; cuda: no driver: install one; wgpu: it has no device");
    assert_eq!(
        refused(BackendChoice::Auto, &[]),
        "no device: cuda: no driver: install one; wgpu: no driver: install one; cpu: no driver: install one"
    );
}

/// Hardware that its preferred backend cannot open is used through the other one; open devices stay as they are.
#[test]
fn auto_does_without_a_backend_that_opens_nothing() {
    let machine: Machine = &[
        (Cuda, &[(1, FakeFault::Closed, "0000:02:00.0")]),
        (Wgpu, &[(2, FakeFault::None, "0000:02:00.0"), (3, FakeFault::None, "0000:03:00.0")]),
        PROCESSOR,
    ];
    let start = Instant::now();
    let (chosen, started) = choose(BackendChoice::Auto, machine);
    let retries = start.elapsed().as_secs() as u32;
    let chosen = chosen.unwrap();
    assert_eq!((ids(&chosen), chosen.backend.as_str()), (vec![2, 3], "wgpu"));
    assert_eq!(chosen.why, "auto; cuda: none of 1 device can be used: the device failed: it does not open");
    // While the others are opened, the one that does not open is tried again after a second, or not yet.
    let expected = 2 + 3..=2 + 3 + retries;
    assert!(expected.contains(&started), "two listings, and a worker for each device: {started}, not {expected:?}");
}

#[test]
fn auto_keeps_the_backend_that_works() {
    let machine: Machine = &[
        (Cuda, &[(1, FakeFault::None, "0000:02:00.0"), (2, FakeFault::Closed, "0000:04:00.0")]),
        (Wgpu, &[(3, FakeFault::WrongBits, "0000:03:00.0"), (4, FakeFault::None, "0000:04:00.0")]),
    ];
    let chosen = chosen(BackendChoice::Auto, machine);
    assert_eq!((ids(&chosen), chosen.backend.as_str()), (vec![1, 2], "cuda"), "a device that may come back is kept");
    assert!(chosen.why.contains("wgpu: none of 1 device can be used"), "{}", chosen.why);
}

/// It would attest another device until the program ends.
#[test]
fn nothing_takes_the_place_of_a_gpu_that_another_process_has() {
    let machine: Machine = &[
        (Cuda, &[(1, FakeFault::Closed, "0000:02:00.0"), (2, FakeFault::Taken, "0000:03:00.0")]),
        (Wgpu, &[(3, FakeFault::None, "0000:03:00.0")]),
        PROCESSOR,
    ];
    for choice in [BackendChoice::Auto, these(&[Cuda])] {
        assert_eq!(
            refused(choice, machine),
            "no device now: cuda: none of 2 devices can be used: another process has it"
        );
    }
}

#[test]
fn auto_falls_back_to_the_processor_when_no_gpu_opens() {
    let machine: Machine = &[
        (Cuda, &[(1, FakeFault::WrongBits, "0000:02:00.0")]),
        (Wgpu, &[(2, FakeFault::Closed, "0000:02:00.0")]),
        PROCESSOR,
    ];
    let chosen = chosen(BackendChoice::Auto, machine);
    assert_eq!((ids(&chosen), chosen.backend.as_str()), (vec![9], "cpu"));
    for backend in ["cuda: none of 1", "wgpu: none of 1"] {
        assert!(chosen.why.contains(backend), "{}", chosen.why);
    }
}

#[test]
fn a_list_gives_the_devices_of_all_that_it_names() {
    let machine: Machine =
        &[(Cuda, &[(1, FakeFault::None, "")]), (Wgpu, &[(2, FakeFault::None, "0000:03:00.0")]), PROCESSOR];
    let mixed = chosen(these(&[Cpu, Wgpu]), machine);
    assert_eq!(
        (ids(&mixed), mixed.backend.as_str(), mixed.why.as_str()),
        (vec![2, 9], "wgpu, cpu", "as set by backend")
    );
    // Alone, a backend keeps hardware that another one has too.
    let twice: Machine =
        &[(Cuda, &[(1, FakeFault::None, "0000:02:00.0")]), (Wgpu, &[(2, FakeFault::None, "0000:02:00.0")])];
    assert_eq!(ids(&chosen(these(&[Wgpu]), twice)), [2]);
}

#[test]
fn each_backend_of_a_list_has_to_give_a_device() {
    let twice: Machine =
        &[(Cuda, &[(1, FakeFault::None, "0000:02:00.0")]), (Wgpu, &[(2, FakeFault::None, "0000:02:00.0")])];
    assert_eq!(
        refused(these(&[Cuda, Wgpu]), twice),
        "no device: wgpu: it has no device of its own: card 2 at 0000:02:00.0 (wgpu) is used through CUDA"
    );
    assert_eq!(refused(these(&[Cuda, Cpu]), &[PROCESSOR]), "no device: cuda: no driver: install one");
    assert_eq!(refused(these(&[Wgpu, Cpu]), &[PROCESSOR, (Wgpu, &[])]), "no device: wgpu: it has no device");
    let closed: Machine = &[(Wgpu, &[(2, FakeFault::Closed, "")]), PROCESSOR];
    let said = refused(these(&[Wgpu, Cpu]), closed);
    assert_eq!(said, "no device: wgpu: none of 1 device can be used: the device failed: it does not open");
}

#[test]
fn ids_are_distinct_over_all_backends() {
    let machine: Machine = &[
        (Wgpu, &[(1, FakeFault::None, "0000:03:00.0"), (2, FakeFault::None, "")]),
        (Cpu, &[(1, FakeFault::None, "")]),
    ];
    let said = refused(these(&[Wgpu, Cpu]), machine);
    assert!(said.contains("cpu: it has no device of its own") && said.contains("another device has its id"), "{said}");
    let some: Machine =
        &[(Wgpu, &[(1, FakeFault::None, "")]), (Cpu, &[(1, FakeFault::None, ""), (2, FakeFault::None, "")])];
    let chosen = chosen(these(&[Wgpu, Cpu]), some);
    let backends: Vec<_> = chosen.host.report(&[256]).unwrap().iter().map(|report| report.info.backend).collect();
    assert_eq!((ids(&chosen), backends), (vec![1, 2], vec![Wgpu, Cpu]));
}

#[test]
fn a_device_with_wrong_bits_is_never_offered() {
    let only_cpu = BackendChoice::only(Cpu);
    let machine: Machine =
        &[(Cpu, &[(1, FakeFault::None, ""), (2, FakeFault::WrongBits, ""), (3, FakeFault::Busy, "")])];
    let found = chosen(only_cpu.clone(), machine);
    assert_eq!(ids(&found), [1, 3]);
    assert!(
        matches!(&found.unusable[..], [(info, DeviceError::Sick(why))] if info.id.0[0] == 2 && why.contains("other bits")),
        "{:?}",
        found.unusable
    );
    let said = refused(only_cpu, &[(Cpu, &[(1, FakeFault::WrongBits, "")])]);
    assert!(said.contains("other bits"), "{said}");
}

#[test]
fn a_listing_that_dies_is_a_backend_without_devices() {
    let dying = Box::new(FakeBackend { kind: Cpu, devices: Err("panic".into()) });
    let launch = WorkerLaunch { launcher: Arc::new(Threads::new(fakes)), silence: LONG };
    let host = HostConfig { choice: BackendChoice::only(Cpu), ..HostConfig::default() };
    let chosen = start_with(&host, vec![dying], &launch, &mut |_, _| ());
    let Err(ChooseError::None(said)) = chosen else { panic!("it was listed") };
    assert!(said.starts_with("cpu: its devices cannot be listed: "), "{said}");
}

/// Workers of which some are killed before they read a request.
struct KilledSome {
    /// Which of them, from 1.
    killed: Range<u32>,
    all: Threads,
}

impl Launcher for KilledSome {
    fn launch(&self) -> io::Result<LaunchedWorker> {
        let worker = self.all.launch()?;
        if !self.killed.contains(&self.all.started.load(Ordering::Relaxed)) {
            return Ok(worker);
        }
        let (output, _) = io::pipe()?;
        let process = Box::new(FakeProcess(Arc::new(AtomicBool::new(true))));
        Ok(LaunchedWorker { input: worker.input, output: Box::new(output), process })
    }
}

/// A host whose kernel killed the process that lists its devices, or the one that opens the only one, came up without any.
#[test]
fn a_process_that_is_killed_while_it_lists_or_opens_is_started_again() {
    for (killed, is_open) in [(1..2, true), (1..3, true), (1..4, false), (2..3, true), (2..4, true), (2..5, false)] {
        let launcher = Arc::new(KilledSome { killed: killed.clone(), all: Threads::new(fakes) });
        let launch = WorkerLaunch { launcher, silence: LONG };
        let host = HostConfig { choice: BackendChoice::only(Cpu), ..HostConfig::default() };
        let machine: Machine = &[(Cpu, &[(1, FakeFault::None, "")])];
        let chosen = start_with(&host, vec![fake(Cpu, machine)], &launch, &mut |_, _| ());
        assert_eq!(chosen.as_ref().is_ok_and(|chosen| ids(chosen) == [1]), is_open, "{killed:?} were killed");
    }
}

/// The processor took the place of a GPU whose processes were killed, say for want of memory, until the program ended.
#[test]
fn nothing_takes_the_place_of_a_gpu_whose_processes_are_killed() {
    let machine: Machine = &[(Cuda, &[(1, FakeFault::None, "0000:02:00.0")]), PROCESSOR];
    for killed in [1..4, 2..5] {
        let launcher = Arc::new(KilledSome { killed: killed.clone(), all: Threads::new(fakes) });
        let launch = WorkerLaunch { launcher, silence: LONG };
        let backends = [Cuda, Cpu].map(|kind| fake(kind, machine)).into();
        let chosen = start_with(&HostConfig::default(), backends, &launch, &mut |_, _| ());
        let error = chosen.map(|chosen| chosen.backend).unwrap_err();
        assert!(matches!(error, ChooseError::NotNow(_)), "{killed:?}: {error}");
    }
}

/// A worker that is killed at its start, whose driver holds its process.
struct Held;

impl Process for Held {
    fn id(&self) -> u32 {
        0
    }
    fn kill(&mut self) {}
    fn wait(&mut self, limit: Duration) -> Option<String> {
        thread::sleep(limit);
        None
    }
}

/// A start waited for ever for the second attempt, which waits for the process of the first.
#[test]
fn a_process_that_does_not_end_holds_up_no_start() {
    struct AfterListing(Threads);
    impl Launcher for AfterListing {
        fn launch(&self) -> io::Result<LaunchedWorker> {
            let worker = self.0.launch()?;
            if self.0.started.load(Ordering::Relaxed) == 1 {
                return Ok(worker);
            }
            let (output, _) = io::pipe()?;
            Ok(LaunchedWorker { input: worker.input, output: Box::new(output), process: Box::new(Held) })
        }
    }
    let launch = WorkerLaunch { launcher: Arc::new(AfterListing(Threads::new(fakes))), silence: LONG };
    let host = HostConfig { choice: BackendChoice::only(Cpu), ..HostConfig::default() };
    let machine: Machine = &[(Cpu, &[(1, FakeFault::None, "")])];
    let chosen = start_with(&host, vec![fake(Cpu, machine)], &launch, &mut |_, _| ());
    assert!(chosen.is_err());
}

#[test]
fn what_is_excluded_takes_no_worker() {
    let machine: Machine = &[(Cuda, &[(3, FakeFault::None, ""), (1, FakeFault::None, ""), (2, FakeFault::None, "")])];
    let filter = |include: &[&str], exclude: &[&str]| {
        let selectors = |texts: &[&str]| texts.iter().map(|text| DeviceSelector::new(text).unwrap()).collect();
        let filter = DeviceFilter { include: selectors(include), exclude: selectors(exclude) };
        choose_of(&HostConfig { filter, ..HostConfig::default() }, machine)
    };
    let (chosen, workers) = filter(&["0", "0303"], &[]);
    let chosen = chosen.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((ids(&chosen), workers), (vec![1, 3], 2 + 2), "two listings, and a worker for each device");
    assert!(chosen.why.contains("2 of 3 devices"), "{}", chosen.why);
    // A device keeps its index among all that there are.
    assert_eq!(chosen.indices[&DeviceId([3; 16])], 2);
    let health = chosen.workers[&DeviceId([3; 16])].health();
    assert_eq!((health.restarts, health.fault), (0, None));
    for (include, exclude) in [(&["H100"][..], &[][..]), (&[], &["0", "1", "2"])] {
        let (chosen, workers) = filter(include, exclude);
        let error = chosen.map(|chosen| chosen.backend).expect_err("a device was chosen");
        assert!(error.contains("0: 01010101 (") && workers == 2, "{workers} workers: {error}");
    }
}

/// Each device: a challenge over an integrated GPU as well lasts as long as that one takes.
#[test]
fn auto_takes_integrated_gpus_alone_or_by_name() {
    let devices = |kind, written: &[(u8, bool)]| {
        let device = |(id, integrated): &(u8, bool)| {
            let place = DevicePlace { pci_address: format!("0000:0{id}:00.0").parse().ok(), ..DevicePlace::default() };
            DetectedDevice { integrated: *integrated, ..found(kind, *id, FakeFault::None, place) }
        };
        Box::new(FakeBackend { kind, devices: Ok(written.iter().map(device).collect()) }) as Box<dyn Backend>
    };
    let chosen = |choice, device: &[&str], cuda: &[(u8, bool)], wgpu: &[(u8, bool)]| {
        let texts: Vec<_> = device.iter().map(|text| (*text).to_owned()).collect();
        let filter = DeviceFilter::parse(&texts).unwrap();
        let host = HostConfig { choice, filter, ..HostConfig::default() };
        let backends = [(Cuda, cuda), (Wgpu, wgpu)].into_iter().filter(|(_, written)| !written.is_empty());
        let backends = backends.map(|(kind, written)| devices(kind, written)).collect();
        let launch = WorkerLaunch { launcher: Arc::new(Threads::new(fakes)), silence: LONG };
        let chosen = start_with(&host, backends, &launch, &mut |_, _| ()).unwrap_or_else(|error| panic!("{error}"));
        (ids(&chosen), chosen.why)
    };
    let (auto, discrete, both) = (BackendChoice::Auto, &[(1, false)], &[(2, true), (3, false)]);
    let (used, why) = chosen(auto.clone(), &[], discrete, both);
    let left_out = "auto; card 2 at 0000:02:00.0 (wgpu) is integrated: to use it as well, name all GPUs in device";
    assert_eq!((used, why.as_str()), (vec![1, 3], left_out));
    assert_eq!(chosen(auto.clone(), &[], &[], both).0, [3]);
    assert_eq!(chosen(auto.clone(), &[], &[(1, true)], &[(2, true)]).0, [1, 2], "no other GPU is there");
    assert_eq!(chosen(auto.clone(), &["^0", "^2"], discrete, both).0, [2]);
    assert_eq!(chosen(auto, &["card"], discrete, both).0, [1, 2, 3]);
    assert_eq!(chosen(these(&[Cuda, Wgpu]), &[], discrete, both).0, [1, 2, 3]);
}

#[test]
fn a_refused_gpu_is_named_beside_those_of_another_backend() {
    // One that the operator forbids was used through the other backend.
    for (forbidden, expected) in [(false, vec![2, 3]), (true, vec![2])] {
        assert_eq!(ids_beside_refused(forbidden), expected, "{forbidden}");
    }
}

fn ids_beside_refused(forbidden: bool) -> Vec<u8> {
    let at = |address: &str| DevicePlace { pci_address: address.parse().ok(), ..DevicePlace::default() };
    let old = DetectedDevice {
        refusal: Some("card 1 at 0000:02:00.0: compute capability 6.1".into()),
        forbidden,
        ..found(Cuda, 1, FakeFault::None, at("0000:02:00.0"))
    };
    let cuda = vec![old, found(Cuda, 2, FakeFault::None, at("0000:03:00.0"))];
    let wgpu = vec![found(Wgpu, 3, FakeFault::None, at("0000:02:00.0"))];
    let backends = [(Cuda, cuda), (Wgpu, wgpu)];
    let backends = backends.map(|(kind, found)| Box::new(FakeBackend { kind, devices: Ok(found) }) as Box<dyn Backend>);
    let launch = WorkerLaunch { launcher: Arc::new(Threads::new(fakes)), silence: LONG };
    let chosen = start_with(&HostConfig::default(), backends.into(), &launch, &mut |_, _| ());
    let chosen = chosen.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(chosen.indices.len(), ids(&chosen).len());
    assert_eq!(chosen.why, "auto; cuda: card 1 at 0000:02:00.0: compute capability 6.1");
    ids(&chosen)
}
