//! The wgpu backend over lavapipe and the layer that makes trouble, when things go wrong: each failure gives its one
//! error, soon, and never a wrong digest, a panic or a hang.

#![cfg(target_os = "linux")]

use std::fs;
use std::time::Duration;

use super::vulkan::{Scenario, file, from_now};
use assay_device::backend::Backend;
use assay_device::{Device, DeviceError, Handle, ProbeRound};
use assay_kits::conformance::{check_fill, check_round, expected, pass};
use assay_wgpu::{DotChoice, WgpuConfig, WgpuDevice, WgpuError, detect, find, open};
use assay_work::{DeviceId, Digest, RoundKey};

const ROUND: ProbeRound = ProbeRound { key: RoundKey([4; 32]), walks: 64, steps: 3 };
const SEED: &[u8] = b"tests";

/// A hang is found soon. No other way to multiply is tried: that takes longer than the rest of a start.
fn config() -> WgpuConfig {
    WgpuConfig {
        stall_limit: Duration::from_secs(3),
        seed: SEED.into(),
        dot: DotChoice::Packed,
        ..WgpuConfig::default()
    }
}

fn try_open(number: usize) -> Result<WgpuDevice, WgpuError> {
    open(detect(SEED)?[number].id, config(), &mut |_| ())
}

fn first() -> WgpuDevice {
    try_open(0).unwrap()
}

/// A device that failed says so from then on, and can be given up without an end to wait for.
fn check_lost(mut device: WgpuDevice, result: Result<Vec<Digest>, DeviceError>, says: &str) {
    match result {
        Err(DeviceError::Sick(text)) => assert!(text.contains(says) && text.contains("must start again"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(device.fault(), Some(DeviceError::Sick(_))));
    let again = device.fill(&pass(256, 3, 1), &Handle::default());
    assert!(matches!(again, Err(DeviceError::Sick(_))), "{again:?}");
    assert!(device.read(0, 0, &mut [0]).is_err() && device.probe_round(&ROUND, &Handle::default()).is_err());
    device.info();
    device.slots_that_fit(256);
    device.release();
    drop(device);
}

const HUNG: &str = "nothing was done for 3 s";
const LOST: &str = "Device is lost";
const FULL: &str = "cannot be opened in the memory that is free";
const OTHER: &str = "Unexpected error variant";

#[test]
fn a_failure_in_a_pass_is_a_sick_device() {
    let test = "a_failure_in_a_pass_is_a_sick_device";
    let cases = [
        ("vkQueueSubmit:1:VK_ERROR_DEVICE_LOST", LOST),
        ("vkQueueSubmit:2:VK_ERROR_DEVICE_LOST", LOST),
        ("vkQueueSubmit:1:VK_ERROR_OUT_OF_DEVICE_MEMORY", "memory"),
        ("vkQueueSubmit:1:VK_ERROR_UNKNOWN", OTHER),
        // How a GPU that fell off its bus shows: in a wait.
        ("vkWaitSemaphores:1:VK_ERROR_DEVICE_LOST", LOST),
        ("vkGetSemaphoreCounterValue:1:VK_ERROR_DEVICE_LOST", LOST),
        ("vkWaitSemaphores:1:VK_ERROR_OUT_OF_HOST_MEMORY", "memory"),
        ("vkBeginCommandBuffer:1:VK_ERROR_OUT_OF_HOST_MEMORY", "OutOfMemory"),
        ("vkEndCommandBuffer:1:VK_ERROR_OUT_OF_HOST_MEMORY", "memory"),
        ("vkEndCommandBuffer:1:VK_ERROR_DEVICE_LOST", OTHER),
        ("vkCreateBuffer:1:VK_ERROR_UNKNOWN", OTHER),
        ("vkQueueSubmit:1:hang", HUNG),
        ("vkQueueSubmit:2:hang", HUNG),
    ];
    for (fault, says) in cases {
        Scenario::new(test, fault).with_later(fault).run(|| {
            let mut device = first();
            from_now();
            let result = device.fill(&pass(256, 6, 1), &Handle::default());
            check_lost(device, result, says);
        });
    }
}

#[test]
fn a_failure_in_a_probe_or_a_read_is_a_sick_device() {
    let test = "a_failure_in_a_probe_or_a_read_is_a_sick_device";
    type Call = fn(&mut WgpuDevice) -> Result<(), DeviceError>;
    let calls: [(&str, Call); 4] = [
        ("probe", |device| device.probe_round(&ROUND, &Handle::default()).map(drop)),
        ("states", |device| device.probe_states().map(drop)),
        ("values", |device| device.chaining_values(0, 1024).map(drop)),
        ("read", |device| device.read(1, 100, &mut [0; 64])),
    ];
    let faults = [
        ("vkQueueSubmit:1:VK_ERROR_DEVICE_LOST", LOST),
        ("vkWaitSemaphores:1:VK_ERROR_DEVICE_LOST", LOST),
        ("vkQueueSubmit:1:hang", HUNG),
    ];
    for (name, call) in calls {
        for (fault, says) in faults {
            Scenario::new(test, format!("{name} {fault}")).with_later(fault).run(|| {
                let mut device = first();
                check_fill(&mut device, &pass(256, 3, 1));
                device.probe_round(&ROUND, &Handle::default()).unwrap();
                from_now();
                let result = call(&mut device).map(|()| Vec::new());
                check_lost(device, result, says);
            });
        }
    }
}

/// As Metal has it: a submission that failed counts as done, and memory is as it was.
#[test]
fn a_submission_that_was_not_carried_out_gives_no_digest() {
    let test = "a_submission_that_was_not_carried_out_gives_no_digest";
    // The first one of a pass, and the second, which is its last or its copy to the host.
    for fault in ["vkQueueSubmit:1:skip", "vkQueueSubmit:2:skip"] {
        Scenario::new(test, fault).with_later(fault).run(|| {
            let mut device = first();
            check_fill(&mut device, &pass(256, 6, 2));
            from_now();
            let result = device.fill(&pass(256, 6, 1), &Handle::default());
            check_lost(device, result, "called work done that was not carried out");
        });
    }
    for (name, call) in [
        ("probe", (|device| device.probe_round(&ROUND, &Handle::default()).map(drop)) as fn(&mut WgpuDevice) -> _),
        ("values", |device| device.chaining_values(0, 1024).map(drop)),
    ] {
        Scenario::new(test, name).with_later("vkQueueSubmit:1:skip").run(|| {
            let mut device = first();
            check_fill(&mut device, &pass(256, 6, 2));
            device.probe_round(&ROUND, &Handle::default()).unwrap();
            from_now();
            let result = call(&mut device).map(|()| Vec::new());
            check_lost(device, result, "called work done that was not carried out");
        });
    }
}

/// A wrong bit on its way is not ours to find here; that it changes the digest is the basis of a self-test.
#[test]
fn a_wrong_bit_changes_what_is_given() {
    let test = "a_wrong_bit_changes_what_is_given";
    for fault in ["readback:1:spoil", "upload:1:spoil", "vkCmdDispatch:3:skip"] {
        Scenario::new(test, fault).with_later(fault).run(|| {
            let mut device = first();
            check_fill(&mut device, &pass(256, 3, 2));
            from_now();
            let pass = pass(256, 3, 1);
            assert_ne!(device.fill(&pass, &Handle::default()).unwrap(), expected(&pass).0);
        });
    }
}

fn busy<T: std::fmt::Debug>(result: Result<T, DeviceError>) -> (u64, u64) {
    match result {
        Err(DeviceError::Busy { needed_bytes, free_bytes }) => (needed_bytes, free_bytes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn memory_that_is_not_there_is_busy_with_the_figures() {
    let test = "memory_that_is_not_there_is_busy_with_the_figures";
    let small = pass(256, 3, 1);
    Scenario::new(test, "too large").with("MEMORY_MIB", "64").run(|| {
        let mut device = first();
        let (needed, free) = busy(device.fill(&pass(4096, 4, 1), &Handle::default()));
        assert!(needed > 64 << 20 && free <= 64 << 20, "{needed} of {free}");
        check_fill(&mut device, &small);
    });
    for fault in ["vkCreateBuffer:1", "vkCreateBuffer:2", "vkCreateBuffer:3", "vkAllocateMemory:1+"] {
        let fault = format!("{fault}:VK_ERROR_OUT_OF_DEVICE_MEMORY");
        Scenario::new(test, &fault).with_later(&fault).with("MEMORY_MIB", "512").run(|| {
            let mut device = first();
            let before = device.slots_that_fit(256);
            from_now();
            busy(device.fill(&pass(4096, 4, 1), &Handle::default()));
            assert!(device.fault().is_none());
            assert_eq!(device.slots_that_fit(256), before, "all of it was given back");
            check_fill(&mut device, &small);
        });
    }
}

#[test]
fn memory_that_another_program_takes_is_busy_until_it_gives_it_back() {
    let test = "memory_that_another_program_takes_is_busy_until_it_gives_it_back";
    let small = pass(256, 3, 1);
    Scenario::new(test, "before").with("MEMORY_MIB", "64").with_file("TENANT").run(|| {
        let mut device = first();
        let fit = device.slots_that_fit(1024);
        // Of the memory a share stays free, and room is kept for the operands of two slots at two bytes an element: 4
        // MiB.
        assert!((36..60).contains(&fit), "{fit}");
        check_fill(&mut device, &small);
        fs::write(file("TENANT"), "40").unwrap();
        let (needed, free) = busy(device.fill(&pass(1024, fit, 1), &Handle::default()));
        assert!(needed > free && free <= 24 << 20, "{needed} of {free}");
        let fewer = device.slots_that_fit(1024);
        assert!((3..24).contains(&fewer), "{fewer}");
        check_fill(&mut device, &small);
        fs::write(file("TENANT"), "0").unwrap();
        device.release();
        assert_eq!(device.slots_that_fit(1024), fit);
    });
    // After the query of free memory, and before the allocation.
    let between = Scenario::new(test, "between").with("MEMORY_MIB", "96");
    between.with_later("vkCreateBuffer:1:tenant80").run(|| {
        let mut device = first();
        from_now();
        let (needed, free) = busy(device.fill(&pass(2048, 8, 1), &Handle::default()));
        assert!(needed > 32 << 20 && free > needed, "{needed} of {free}, as was asked");
        check_fill(&mut device, &small);
    });
    // A probe of more walks than room was kept for: its memory is given back, the slots with it.
    let states = Scenario::new(test, "states").with("MEMORY_MIB", "96");
    states.with_later("vkCreateBuffer:1:tenant80").run(|| {
        let mut device = first();
        check_fill(&mut device, &small);
        from_now();
        let wide = ProbeRound { walks: 1 << 19, ..ROUND };
        let (needed, _) = busy(device.probe_round(&wide, &Handle::default()));
        assert!((64 << 19..65 << 19).contains(&needed), "{needed}: the states, and what is held");
        assert!(matches!(device.probe_round(&ROUND, &Handle::default()), Err(DeviceError::Unsupported(_))));
        check_fill(&mut device, &small);
        device.probe_round(&ROUND, &Handle::default()).unwrap();
    });
}

#[test]
fn a_host_without_an_adapter_says_why_in_one_sentence() {
    let test = "a_host_without_an_adapter_says_why_in_one_sentence";
    let cases = [
        Scenario::new(test, "driver").without_driver(),
        Scenario::new(test, "loader").without_loader(),
        Scenario::new(test, "conformance").with("CONFORMANCE", "none"),
        Scenario::new(test, "instance").with("FAULT", "vkCreateInstance:1+:VK_ERROR_INCOMPATIBLE_DRIVER"),
        Scenario::new(test, "devices").with("FAULT", "vkEnumeratePhysicalDevices:1+:VK_ERROR_INITIALIZATION_FAILED"),
    ];
    for scenario in cases {
        scenario.run(|| {
            let error = detect(SEED).unwrap_err();
            assert!(matches!(error, WgpuError::NoAdapter { .. }), "{error:?}");
            let says = ["install its driver (on Debian mesa-vulkan-drivers", "does not call itself conformant"];
            assert!(says.iter().all(|says| error.to_string().contains(says)), "{error}");
            assert_eq!(find(&WgpuConfig { software: true, ..config() }).unwrap_err(), error);
            assert_eq!(try_open(0).unwrap_err(), error);
        });
    }
}

#[test]
fn a_device_that_cannot_be_opened_says_why() {
    let test = "a_device_that_cannot_be_opened_says_why";
    let cases = [
        ("vkCreateDevice:1:VK_ERROR_DEVICE_LOST", "cannot be opened: Parent device is lost"),
        ("vkCreateDevice:1:VK_ERROR_INITIALIZATION_FAILED", "cannot be opened: Parent device is lost"),
        ("vkCreateDevice:1:VK_ERROR_OUT_OF_DEVICE_MEMORY", FULL),
        ("vkAllocateMemory:1:VK_ERROR_OUT_OF_DEVICE_MEMORY", FULL),
        ("vkAllocateMemory:2+:VK_ERROR_OUT_OF_DEVICE_MEMORY", FULL),
        ("vkMapMemory:1:VK_ERROR_MEMORY_MAP_FAILED", "cannot be opened: "),
        ("vkAllocateCommandBuffers:1:VK_ERROR_OUT_OF_HOST_MEMORY", "cannot be opened: "),
        ("vkCreateShaderModule:1:VK_ERROR_OUT_OF_HOST_MEMORY", "emory"),
        ("vkCreateComputePipelines:1:VK_ERROR_OUT_OF_DEVICE_MEMORY", "emory"),
        ("vkCreateComputePipelines:1:VK_ERROR_UNKNOWN", OTHER),
        ("vkCreateComputePipelines:6:VK_ERROR_UNKNOWN", OTHER),
        ("vkCreateBuffer:3:VK_ERROR_OUT_OF_DEVICE_MEMORY", FULL),
        ("vkQueueSubmit:1:VK_ERROR_DEVICE_LOST", LOST),
        ("vkWaitSemaphores:1:VK_ERROR_DEVICE_LOST", LOST),
        ("vkQueueSubmit:1:hang", HUNG),
    ];
    for (fault, says) in cases {
        Scenario::new(test, fault).with("FAULT", fault).run(|| {
            let spec = serde_json::json!({ "id": detect(SEED).unwrap()[0].id }).to_string();
            let Err(error) = config().open(&spec, &|_| ()) else { panic!("it opened") };
            let text = error.to_string();
            assert!(text.contains("llvmpipe") && text.contains(says), "{text}");
            assert!(says != FULL || matches!(error, DeviceError::NoMemory(_)), "{error:?}");
        });
    }
}

/// The device does without a cache, which only saves time.
#[test]
fn a_cache_that_cannot_be_kept_keeps_nothing_from_working() {
    let fault = "vkGetPipelineCacheData:1+:VK_ERROR_OUT_OF_HOST_MEMORY";
    let scenario = Scenario::new("a_cache_that_cannot_be_kept_keeps_nothing_from_working", "save");
    scenario.with("FAULT", fault).with_file("LOG").run(|| {
        let folder = tempfile::tempdir().unwrap();
        let config = WgpuConfig { cache_folder: Some(folder.path().join("cache")), ..config() };
        let mut device = open(detect(SEED).unwrap()[0].id, config, &mut |_| ()).unwrap();
        check_fill(&mut device, &pass(256, 3, 1));
        assert!(fs::read_to_string(file("LOG")).unwrap().contains("vkCreatePipelineCache@0 0\n"), "no cache was made");
    });
}

/// One device's trouble is not another's.
#[test]
fn the_other_devices_go_on() {
    let scenario = Scenario::new("the_other_devices_go_on", "two").devices(2);
    scenario.with_later("vkWaitSemaphores@0:1:VK_ERROR_DEVICE_LOST").run(|| {
        let (mut sick, mut well) = (first(), try_open(1).unwrap());
        from_now();
        let result = sick.fill(&pass(256, 3, 1), &Handle::default());
        assert!(matches!(result, Err(DeviceError::Sick(_))), "{result:?}");
        check_fill(&mut well, &pass(256, 3, 1));
        drop(sick);
        check_fill(&mut well, &pass(256, 4, 1));
    });
}

/// Cards as in a machine with two of a kind.
fn cards(test: &'static str, name: &str, pci: &str, uuids: &str) -> Scenario {
    let cards = Scenario::new(test, name).devices(2).with("NAME", "Radeon Test").with("TYPE", "discrete");
    cards.with("VENDOR", "0x1002").with("DEVICE", "0x744c").with("PCI", pci).with("UUID", uuids)
}

const UUIDS: &str = "000102030405060708090a0b0c0d0e0f,f00102030405060708090a0b0c0d0e0f";
const NO_UUIDS: &str = "00000000000000000000000000000000";
const ONE_UUID: &str = "000102030405060708090a0b0c0d0e0f";

/// Ids follow the place of a card, or its UUID, over restarts and in any order of the driver.
#[test]
fn identical_cards_have_distinct_ids_that_stay() {
    let test = "identical_cards_have_distinct_ids_that_stay";
    let kept = tempfile::NamedTempFile::new().unwrap();
    let turned = "f00102030405060708090a0b0c0d0e0f,000102030405060708090a0b0c0d0e0f";
    let runs = [
        ("placed", "0000:03:00.0,0000:04:00.0", UUIDS),
        ("placed again", "0000:03:00.0,0000:04:00.0", UUIDS),
        ("turned", "0000:04:00.0,0000:03:00.0", turned),
        ("placed by a hypervisor", "0001:00:00.0,0002:00:00.0", UUIDS),
        ("turned by a hypervisor", "0002:00:00.0,0001:00:00.0", turned),
        ("unplaced", "none", UUIDS),
        ("turned and unplaced", "none", turned),
        // A card that has neither is numbered.
        ("nameless", "none", NO_UUIDS),
        ("nameless again", "none", NO_UUIDS),
    ];
    for (name, pci, uuids) in runs {
        cards(test, name, pci, uuids).with_variable("KEPT", kept.path()).run(|| {
            let found = find(&WgpuConfig { software: false, ..config() }).unwrap();
            let mut ids: Vec<_> = found.iter().map(|found| found.info.id.to_string()).collect();
            assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
            if name.starts_with("turned") {
                ids.reverse();
            }
            let path = std::env::var_os("KEPT").unwrap();
            let before = fs::read_to_string(&path).unwrap();
            if matches!(name, "placed" | "placed by a hypervisor" | "unplaced" | "nameless") {
                assert!(!before.contains(&ids[0]), "{before}");
                fs::write(path, ids.join(" ")).unwrap();
            } else {
                assert_eq!(ids.join(" "), before);
            }
            for found in &found {
                check_fill(&mut open(found.info.id, config(), &mut |_| ()).unwrap(), &pass(256, 3, 1));
            }
        });
    }
}

/// A device that is opened again after another one fell off its bus gets its own id, or none.
#[test]
fn a_card_that_is_lost_leaves_its_id_to_no_other() {
    let test = "a_card_that_is_lost_leaves_its_id_to_no_other";
    let (both, uuid) = ("0001:00:00.0,0002:00:00.0", "f00102030405060708090a0b0c0d0e0f");
    let cases = [("placed", both, "0002:00:00.0", NO_UUIDS, NO_UUIDS), ("unplaced", "none", "none", UUIDS, uuid)];
    for (name, all, rest, uuids, uuid) in cases {
        let kept = tempfile::NamedTempFile::new().unwrap();
        let path = || std::env::var_os("KEPT").unwrap();
        let before = cards(test, &format!("{name} before"), all, uuids).with_variable("KEPT", kept.path());
        before.run(|| {
            let ids = detect(SEED).unwrap().into_iter().map(|adapter| adapter.id).collect::<Vec<_>>();
            fs::write(path(), serde_json::to_string(&ids).unwrap()).unwrap();
        });
        let after = cards(test, &format!("{name} after"), rest, uuid).devices(1).with_variable("KEPT", kept.path());
        after.run(|| {
            let ids: Vec<DeviceId> = serde_json::from_str(&fs::read_to_string(path()).unwrap()).unwrap();
            assert_eq!(detect(SEED).unwrap().into_iter().map(|adapter| adapter.id).collect::<Vec<_>>(), ids[1..]);
            let lost = open(ids[0], config(), &mut |_| ()).unwrap_err();
            assert_eq!(lost, WgpuError::Unknown { id: ids[0] });
            check_fill(&mut open(ids[1], config(), &mut |_| ()).unwrap(), &pass(256, 3, 1));
        });
    }
}

#[test]
fn one_card_counts_once() {
    let test = "one_card_counts_once";
    let cases = [
        ("one address", "0000:03:00.0", UUIDS, 1),
        ("two addresses, one uuid", "0000:03:00.0,0000:04:00.0", ONE_UUID, 2),
        ("one uuid", "none", ONE_UUID, 1),
        ("one address, of which one does not know", "0000:03:00.0,none", ONE_UUID, 1),
    ];
    for (name, pci, uuids, count) in cases {
        cards(test, name, pci, uuids).run(|| assert_eq!(detect(SEED).unwrap().len(), count));
    }
    // As Dozen shows a card of DirectX 12: without an address, and with a UUID of its own.
    let again = cards(test, "a driver that is not conformant", "0000:03:00.0,none", UUIDS).with("CONFORMANCE", ",none");
    again.run(|| {
        let all = detect(SEED).unwrap();
        assert_eq!((all.len(), all[0].pci_address.as_deref()), (1, Some("0000:03:00.0")));
    });
}

/// Programs on the processor are for who asks for them, and not beside a GPU.
#[test]
fn software_adapters_are_taken_only_when_asked_for() {
    let test = "software_adapters_are_taken_only_when_asked_for";
    Scenario::new(test, "alone").devices(2).run(|| {
        let error = find(&WgpuConfig { software: false, ..config() }).unwrap_err();
        assert!(matches!(error, WgpuError::OnlySoftware { .. }), "{error:?}");
        assert!(error.to_string().contains("does not call itself conformant"), "{error}");
        let ids: Vec<_> =
            find(&WgpuConfig { software: true, ..config() }).unwrap().iter().map(|found| found.info.id).collect();
        assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
    });
    Scenario::new(test, "beside").devices(2).with("TYPE", "cpu,integrated").with("NAME", "Program,Chip").run(|| {
        for software in [false, true] {
            let found = find(&WgpuConfig { software, ..config() }).unwrap();
            assert!(found.len() == 1 && found[0].info.name == "Chip", "{found:?}");
        }
    });
}

/// The least adapters that can do the work give the same bits; lesser ones are refused with the limit.
#[test]
fn small_adapters_do_what_they_can() {
    let test = "small_adapters_do_what_they_can";
    let small = Scenario::new(test, "small").with("MAX_STORAGE_BUFFERS", "4").with("MAX_BINDING", "262144");
    small.with("MAX_SHARED", "16384").with("MAX_INVOCATIONS", "64").with("MAX_BUFFER", "1073741824").run(|| {
        let mut device = first();
        for pass in [pass(256, 9, 1), pass(1024, 4, 2)] {
            check_fill(&mut device, &pass);
            check_round(&mut device, &pass, 128, 7);
        }
        assert!(device.slots_that_fit(2048) > 0);
        assert_eq!(device.slots_that_fit(4096), 0);
    });
    for (limit, value, says) in [
        ("MAX_STORAGE_BUFFERS", "2", "2 storage buffers"),
        ("MAX_BINDING", "262140", "262140 bytes of a storage binding"),
        ("MAX_SHARED", "2048", "2048 bytes of workgroup memory"),
        ("MAX_INVOCATIONS", "32", "32 invocations"),
    ] {
        Scenario::new(test, limit).with(limit, value).run(|| {
            let error = try_open(0).unwrap_err();
            assert!(matches!(error, WgpuError::Refused { .. }) && error.to_string().contains(says), "{error}");
            let listed = find(&WgpuConfig { software: true, ..config() }).unwrap();
            assert_eq!(listed[0].refusal, Some(error.to_string()));
        });
    }
}
