//! Several backends at once: which devices a host then has, and what happens when a backend has none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

use super::tests::{LONG, Threads, open};
use super::*;
use crate::compute::choose::{BackendChoice, BackendKind, Prepare};
use crate::compute::device::Device;
use crate::compute::place::Place;
use crate::work::DeviceId;
use BackendKind::{Cpu, Cuda, Wgpu};

/// A device as these tests write it: its id, its fault (`None`, `WrongBits`, `Closed`), and where it is.
type Written = (u8, &'static str, &'static str);

/// What the backends find, by name.
type Machine = &'static [(&'static str, &'static [Written])];

/// Lists what the seed says of a backend; one that it does not name finds nothing.
fn detect(config: &HostConfig, backend: &'static str) -> Result<Vec<Found>, String> {
    let machine: BTreeMap<String, Vec<(u8, String, String)>> =
        serde_json::from_slice(&config.seed).map_err(|error| error.to_string())?;
    let written = machine.get(backend).ok_or("no driver: install one")?;
    Ok(written.iter().map(|(id, fault, address)| found(backend, *id, fault, address)).collect())
}

fn found(backend: &'static str, id: u8, fault: &str, address: &str) -> Found {
    let (id, name) = (DeviceId([id; 16]), format!("card {id}"));
    let opening = format!("{fault}{}", id.0[0]);
    let info = DeviceInfo { id, name, backend, detail: String::new(), total_bytes: 1 << 20, free_bytes: 1 << 20 };
    Found { info, place: Place { pci_address: address.parse().ok(), ..Place::default() }, opening }
}

fn open_unless_closed(opening: &str, prepare: Prepare<'_>) -> Result<Box<dyn Device>, DeviceError> {
    if opening.starts_with("Closed") {
        Err(DeviceError::Sick("it does not open".into()))
    } else {
        open(opening, prepare)
    }
}

const BACKENDS: &[Backend] = &[
    Backend { kind: Cuda, detect: |config| detect(config, "cuda"), open: open_unless_closed },
    Backend { kind: Wgpu, detect: |config| detect(config, "wgpu"), open: open_unless_closed },
    Backend { kind: Cpu, detect: |config| detect(config, "cpu"), open: open_unless_closed },
];

/// What a host with these devices chooses, and how many workers it took.
fn choose(choice: BackendChoice, machine: Machine) -> (Result<Chosen, String>, u32) {
    let machine: BTreeMap<_, _> = machine.iter().copied().collect();
    let config = HostConfig { choice, seed: serde_json::to_vec(&machine).unwrap(), ..HostConfig::default() };
    let threads = Arc::new(Threads { backends: BACKENDS, started: AtomicU32::new(0) });
    let chosen = choose_with(&config, BACKENDS, threads.clone(), LONG, &mut |_, _| ());
    (chosen.map_err(|error| error.to_string()), threads.started.load(Ordering::Relaxed))
}

fn chosen(choice: BackendChoice, machine: Machine) -> Chosen {
    choose(choice, machine).0.unwrap_or_else(|error| panic!("{error}"))
}

fn refused(choice: BackendChoice, machine: Machine) -> String {
    choose(choice, machine).0.map(|chosen| chosen.backend).expect_err("a device was chosen")
}

fn these(kinds: &[BackendKind]) -> BackendChoice {
    BackendChoice::These(kinds.iter().copied().collect::<BTreeSet<_>>())
}

fn ids(chosen: &Chosen) -> Vec<u8> {
    chosen.host.ids().map(|id| id.0[0]).collect()
}

const PROCESSOR: (&str, &[Written]) = ("cpu", &[(9, "None", "")]);

#[test]
fn auto_takes_every_gpu_once_and_no_processor() {
    let machine: Machine = &[
        ("cuda", &[(1, "None", "00000000:02:00.0")]),
        ("wgpu", &[(2, "None", "0000:02:00.0"), (3, "None", "0000:03:00.0")]),
        PROCESSOR,
    ];
    let chosen = chosen(BackendChoice::Auto, machine);
    assert_eq!((ids(&chosen), chosen.backend.as_str()), (vec![1, 3], "cuda, wgpu"));
    assert_eq!(chosen.why, "auto; card 2 at 0000:02:00.0 (wgpu) is used through CUDA");
    let report = chosen.host.report(&[256]).unwrap();
    assert_eq!(report.iter().map(|report| report.info.backend).collect::<Vec<_>>(), ["cuda", "wgpu"]);
}

#[test]
fn auto_takes_the_processor_where_there_is_no_gpu() {
    let chosen = chosen(BackendChoice::Auto, &[PROCESSOR, ("wgpu", &[])]);
    assert_eq!((ids(&chosen), chosen.backend.as_str()), (vec![9], "cpu"));
    assert_eq!(chosen.why, "auto; cuda: no driver: install one; wgpu: it has no device");
    assert_eq!(
        refused(BackendChoice::Auto, &[]),
        "no device: cuda: no driver: install one; wgpu: no driver: install one; cpu: no driver: install one"
    );
}

/// Hardware that its preferred backend cannot open is used through the other one; what is open stays as it is.
#[test]
fn auto_does_without_a_backend_that_opens_nothing() {
    let machine: Machine = &[
        ("cuda", &[(1, "Closed", "0000:02:00.0")]),
        ("wgpu", &[(2, "None", "0000:02:00.0"), (3, "None", "0000:03:00.0")]),
        PROCESSOR,
    ];
    let (chosen, started) = choose(BackendChoice::Auto, machine);
    let chosen = chosen.unwrap();
    assert_eq!((ids(&chosen), chosen.backend.as_str()), (vec![2, 3], "wgpu"));
    assert_eq!(chosen.why, "auto; cuda: none of 1 device(s) can be used: the device failed: it does not open");
    assert_eq!(started, 2 + 3, "two listings, and a worker for each device");
}

#[test]
fn auto_keeps_the_backend_that_works() {
    let machine: Machine = &[
        ("cuda", &[(1, "None", "0000:02:00.0"), (2, "Closed", "0000:04:00.0")]),
        ("wgpu", &[(3, "WrongBits", "0000:03:00.0"), (4, "None", "0000:04:00.0")]),
    ];
    let chosen = chosen(BackendChoice::Auto, machine);
    assert_eq!((ids(&chosen), chosen.backend.as_str()), (vec![1, 2], "cuda"), "a device that may come back is kept");
    assert!(chosen.why.contains("wgpu: none of 1 device(s) can be used"), "{}", chosen.why);
}

#[test]
fn auto_falls_back_to_the_processor_when_no_gpu_opens() {
    let machine: Machine =
        &[("cuda", &[(1, "WrongBits", "0000:02:00.0")]), ("wgpu", &[(2, "Closed", "0000:02:00.0")]), PROCESSOR];
    let chosen = chosen(BackendChoice::Auto, machine);
    assert_eq!((ids(&chosen), chosen.backend.as_str()), (vec![9], "cpu"));
    for backend in ["cuda: none of 1", "wgpu: none of 1"] {
        assert!(chosen.why.contains(backend), "{}", chosen.why);
    }
}

#[test]
fn a_list_gives_the_devices_of_all_that_it_names() {
    let machine: Machine = &[("cuda", &[(1, "None", "")]), ("wgpu", &[(2, "None", "0000:03:00.0")]), PROCESSOR];
    let mixed = chosen(these(&[Cpu, Wgpu]), machine);
    assert_eq!((ids(&mixed), mixed.backend.as_str(), mixed.why.as_str()), (vec![2, 9], "wgpu, cpu", "asked for"));
    // Alone, a backend keeps hardware that another one has too.
    let twice: Machine = &[("cuda", &[(1, "None", "0000:02:00.0")]), ("wgpu", &[(2, "None", "0000:02:00.0")])];
    assert_eq!(ids(&chosen(these(&[Wgpu]), twice)), [2]);
}

#[test]
fn each_backend_of_a_list_has_to_give_a_device() {
    let twice: Machine = &[("cuda", &[(1, "None", "0000:02:00.0")]), ("wgpu", &[(2, "None", "0000:02:00.0")])];
    assert_eq!(
        refused(these(&[Cuda, Wgpu]), twice),
        "no device: wgpu: it has no device of its own: card 2 at 0000:02:00.0 (wgpu) is used through CUDA"
    );
    assert_eq!(refused(these(&[Cuda, Cpu]), &[PROCESSOR]), "no device: cuda: no driver: install one");
    assert_eq!(refused(these(&[Wgpu, Cpu]), &[PROCESSOR, ("wgpu", &[])]), "no device: wgpu: it has no device");
    let closed: Machine = &[("wgpu", &[(2, "Closed", "")]), PROCESSOR];
    let said = refused(these(&[Wgpu, Cpu]), closed);
    assert_eq!(said, "no device: wgpu: none of 1 device(s) can be used: the device failed: it does not open");
}

#[test]
fn ids_are_distinct_over_all_backends() {
    let machine: Machine = &[("wgpu", &[(1, "None", "0000:03:00.0"), (2, "None", "")]), ("cpu", &[(1, "None", "")])];
    let said = refused(these(&[Wgpu, Cpu]), machine);
    assert!(said.contains("cpu: it has no device of its own") && said.contains("another device has its id"), "{said}");
    let some: Machine = &[("wgpu", &[(1, "None", "")]), ("cpu", &[(1, "None", ""), (2, "None", "")])];
    let chosen = chosen(these(&[Wgpu, Cpu]), some);
    let backends: Vec<_> = chosen.host.report(&[256]).unwrap().iter().map(|report| report.info.backend).collect();
    assert_eq!((ids(&chosen), backends), (vec![1, 2], vec!["wgpu", "cpu"]));
}
