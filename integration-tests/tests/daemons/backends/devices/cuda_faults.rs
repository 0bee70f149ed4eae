//! The CUDA backend over the stand-in driver, when things go wrong: each failure gives its one error, soon, and never a
//! wrong digest, a panic or a hang.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::standin::{Scenario, config, first, try_open};
use assay_cuda::{CudaConfig, CudaError, KernelChoice, detect};
use assay_device::backend::Backend;
use assay_device::{Device, DeviceError, Handle, LinkedShare, ProbeRound, machine};
use assay_kits::conformance::{check_fill, expected, pass};
use assay_work::RoundKey;
use assay_work::probe::LINE_BYTES;

const ROUND: ProbeRound = ProbeRound { key: RoundKey([4; 32]), walks: 64, steps: 3 };
/// A device that holds all slots there are.
const ALONE: LinkedShare = LinkedShare { n: 256, offset: 0, count: 3, total: 3 };

/// A fault, its scenario, the error that it must give, and words of that error's sentence.
type Case = (&'static str, Scenario, fn(&CudaError) -> bool, &'static str);

/// Nothing to be found, in all its ways.
#[test]
fn a_host_without_cuda_says_why_in_one_sentence() {
    let test = "a_host_without_cuda_says_why_in_one_sentence";
    let cases: [Case; 10] = [
        ("driver", Scenario::new(test, "driver").without_driver(), |e| *e == CudaError::NoDriver, "install"),
        (
            "old",
            Scenario::new(test, "old").with("DRIVER", "11080"),
            |e| matches!(e, CudaError::DriverTooOld { .. }),
            "R525",
        ),
        (
            "symbol",
            Scenario::new(test, "symbol").with_driver("without-cuEventQuery"),
            |e| *e == CudaError::MissingSymbol { symbol: "cuEventQuery" },
            "cuEventQuery",
        ),
        (
            "another symbol",
            Scenario::new(test, "another symbol").with_driver("without-cuTensorMapEncodeTiled"),
            |e| *e == CudaError::MissingSymbol { symbol: "cuTensorMapEncodeTiled" },
            "R525",
        ),
        ("device", Scenario::new(test, "device").with("DEVICES", "0"), |e| *e == CudaError::NoDevice, "nvidia-smi"),
        (
            "hidden",
            Scenario::new(test, "hidden").with_variable("CUDA_VISIBLE_DEVICES", "-1"),
            |e| matches!(e, CudaError::Hidden { .. }),
            "CUDA_VISIBLE_DEVICES=\"-1\"",
        ),
        (
            "mismatch",
            Scenario::new(test, "mismatch").with("FAULT", "cuInit:1+:803"),
            |e| *e == CudaError::Mismatch,
            "reboot",
        ),
        (
            "ready",
            Scenario::new(test, "ready").with("FAULT", "cuInit:1+:802"),
            |e| *e == CudaError::NotReady,
            "fabricmanager",
        ),
        (
            "system",
            Scenario::new(test, "system").with("FAULT", "cuInit:1+:304"),
            |e| matches!(e, CudaError::OperatingSystem { .. }),
            "/dev/nvidia",
        ),
        (
            "unheard of",
            Scenario::new(test, "unheard of").with("FAULT", "cuInit:1+:999"),
            |e| matches!(e, CudaError::Driver(_)),
            "CUDA_ERROR_UNKNOWN",
        ),
    ];
    for (name, scenario, is, says) in cases {
        scenario.run(|| {
            let error = detect().unwrap_err();
            assert!(is(&error) && error.to_string().contains(says), "{name}: {error:?}: {error}");
            assert_eq!(try_open(0, CudaConfig::default()).unwrap_err(), error, "opening says the same");
            let absence = CudaConfig::default().detect().unwrap_err();
            // A machine with the module has GPUs, which a broken driver may give later.
            let has_module = Path::new("/proc/driver/nvidia/version").exists();
            let may_pass = name == "ready" || has_module && ["mismatch", "system", "unheard of"].contains(&name);
            assert_eq!(absence.may_pass, may_pass, "{name}: {absence}");
        });
    }
}

#[test]
fn a_device_that_cannot_be_opened_says_why() {
    let test = "a_device_that_cannot_be_opened_says_why";
    let cases = [
        ("cuDevicePrimaryCtxRetain:1:46", "takes no process now"),
        ("cuDevicePrimaryCtxRetain:1:2", "not even its context fits"),
        ("cuMemHostAlloc:1:2", "not even its context fits"),
        (
            "cuModuleLoadDataEx:1:218",
            "no kernel can be used: keystream: CUDA_ERROR_INVALID_PTX (218) while compiling keystream: ptxas stand-in, line 1; fatal   : error 218",
        ),
        ("cuModuleLoadDataEx:8+:222", "no kernel can be used: mma-sm80: CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
        ("cuModuleLoadDataEx:8:sticky719", "CUDA_ERROR_LAUNCH_FAILED (719) while compiling product_mma_sm80"),
        ("cuCtxGetStreamPriorityRange:1:999", "CUDA_ERROR_UNKNOWN (999) while asking for the priorities of streams"),
        ("cuStreamCreateWithPriority:2:999", "CUDA_ERROR_UNKNOWN (999) while making a stream"),
        ("cuEventCreate:3:sticky700", "CUDA_ERROR_ILLEGAL_ADDRESS (700) while making an event"),
    ];
    for (fault, says) in cases {
        Scenario::new(test, fault).with("FAULT", fault).run(|| {
            let error = try_open(0, config(KernelChoice::Auto)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        });
    }
    for (fault, kind) in [
        ("cuDevicePrimaryCtxRetain:1:46", "NotNow"),
        ("cuDevicePrimaryCtxRetain:1:2", "NoMemory"),
        ("cuCtxGetStreamPriorityRange:1:999", "Sick"),
    ] {
        Scenario::new(test, format!("kind of {fault}")).with("FAULT", fault).run(|| {
            let found = CudaConfig::default().detect().unwrap();
            let Err(error) = CudaConfig::default().open(&found[0].spec, &|_| ()) else { panic!("it opened") };
            assert!(format!("{error:?}").starts_with(kind), "{error:?}");
        });
    }
}

/// One device's trouble is not another's, and a device that cannot be described hides none.
#[test]
fn the_other_devices_go_on() {
    let test = "the_other_devices_go_on";
    Scenario::new(test, "described").with("FAULT", "cuDeviceGetName@0:1+:999").run(|| {
        assert_eq!(detect().unwrap().len(), 1);
        check_fill(&mut try_open(1, config(KernelChoice::Auto)).unwrap(), &pass(256, 3, 1));
        let gone = try_open(0, config(KernelChoice::Auto)).unwrap_err();
        assert!(matches!(gone, CudaError::Unknown { .. }), "{gone}");
    });
    Scenario::new(test, "failed").with("FAULT", "assay_digest@0:2:sticky700").run(|| {
        let (mut sick, mut well) = (first(), try_open(1, config(KernelChoice::Auto)).unwrap());
        assert!(matches!(sick.fill(&pass(256, 3, 1), &Handle::default()), Err(DeviceError::Sick(_))));
        check_fill(&mut well, &pass(256, 3, 1));
    });
}

/// Any failure in a pass: one typed error, then the device does nothing more; no digest is given.
#[test]
fn a_failure_in_a_pass_is_a_sick_device() {
    let test = "a_failure_in_a_pass_is_a_sick_device";
    let cases = [
        ("assay_keystream:1:sticky700", "CUDA_ERROR_ILLEGAL_ADDRESS (700) while"),
        ("assay_product_mma_sm80:2:sticky719", "CUDA_ERROR_LAUNCH_FAILED (719) while"),
        ("assay_digest:4:sticky214", "CUDA_ERROR_ECC_UNCORRECTABLE (214) while"),
        ("assay_product_mma_sm80:1:sticky702", "CUDA_ERROR_LAUNCH_TIMEOUT (702) while"),
        ("assay_product_mma_sm80:1:1", "CUDA_ERROR_INVALID_VALUE (1) while launching assay_product_mma_sm80"),
        ("cuLaunchKernel:3:sticky999", "CUDA_ERROR_UNKNOWN (999) while launching"),
        ("cuStreamWaitEvent:2:400", "CUDA_ERROR_INVALID_HANDLE (400) while"),
        ("cuEventRecord:3:700", "CUDA_ERROR_ILLEGAL_ADDRESS (700) while recording an event"),
        ("cuEventQuery:1:719", "CUDA_ERROR_LAUNCH_FAILED (719) while"),
        ("cuMemsetD8Async:1:1", "CUDA_ERROR_INVALID_VALUE (1) while setting memory"),
        ("cuMemcpyDtoHAsync_v2:1:sticky999", "CUDA_ERROR_UNKNOWN (999) while copying to the host"),
        ("cuMemGetInfo_v2:1:999", "CUDA_ERROR_UNKNOWN (999) while asking for its free memory"),
        ("cuMemcpyDtoHAsync_v2:1:hang", "hung: nothing got done for 3 s while copying to the host"),
        ("assay_product_mma_sm80:2:hang", "hung: nothing got done for 3 s while multiplying for slot"),
        ("assay_digest:1:hang", "hung: nothing got done for 3 s while hashing slot 0"),
    ];
    for (fault, says) in cases {
        Scenario::new(test, fault).with("FAULT", fault).run(|| {
            let mut device = first();
            match device.fill(&pass(256, 6, 1), &Handle::default()) {
                Err(DeviceError::Sick(text)) => {
                    assert!(text.contains(says) && text.contains("must start again"), "{text}");
                }
                other => panic!("{other:?}"),
            }
            let again = device.fill(&pass(256, 3, 1), &Handle::default());
            assert!(matches!(again, Err(DeviceError::Sick(_))), "{again:?}");
            assert_eq!((device.info().free_bytes, device.slots_that_fit(256)), (0, 0));
            assert!(matches!(device.read(0, 0, &mut [0]), Err(DeviceError::Unsupported(_))));
            // Neither may wait for the call that hangs, nor fail.
            device.release();
            drop(device);
        });
    }
}

/// The driver takes memory of its own for launches and events: a tenant that took the last of it is no fault of the
/// device.
#[test]
fn a_driver_without_memory_in_a_pass_is_no_sick_device() {
    let test = "a_driver_without_memory_in_a_pass_is_no_sick_device";
    for fault in ["cuLaunchKernel:3:2", "assay_product_mma_sm80:2:2", "cuMemsetD8Async:1:2", "cuStreamWaitEvent:2:2"] {
        Scenario::new(test, fault).with("FAULT", fault).run(|| {
            let mut device = first();
            let full = device.fill(&pass(256, 6, 1), &Handle::default());
            assert!(matches!(&full, Err(DeviceError::NoMemory(text)) if text.contains("tenant")), "{full:?}");
            assert_eq!(device.fault(), None);
            check_fill(&mut device, &pass(256, 6, 2));
        });
    }
    // Work that cannot be waited for any more takes the context with it.
    for fault in ["cuEventRecord:3:2", "cuEventQuery:1:2"] {
        Scenario::new(test, fault).with("FAULT", fault).run(|| {
            let mut device = first();
            let full = device.fill(&pass(256, 6, 1), &Handle::default());
            assert!(matches!(full, Err(DeviceError::NoMemory(_))), "{full:?}");
            assert!(matches!(device.fault(), Some(DeviceError::Sick(_))));
        });
    }
}

#[test]
fn a_failure_in_a_probe_is_a_sick_device() {
    let test = "a_failure_in_a_probe_is_a_sick_device";
    for (fault, says) in [
        ("assay_probe:1:sticky700", "CUDA_ERROR_ILLEGAL_ADDRESS (700) while"),
        ("assay_probe:1:hang", "hung: nothing got done for 3 s while walking the probe"),
        ("assay_subtrees:1:sticky719", "CUDA_ERROR_LAUNCH_FAILED (719) while"),
    ] {
        Scenario::new(test, fault).with("FAULT", fault).run(|| {
            let mut device = first();
            check_fill(&mut device, &pass(256, 3, 1));
            let walked = device.probe_round(&ROUND, &Handle::default()).map(drop);
            let result = walked.and_then(|()| device.chaining_values(0, 1024).map(drop));
            assert!(matches!(&result, Err(DeviceError::Sick(text)) if text.contains(says)), "{result:?}");
            let again = device.probe_round(&ROUND, &Handle::default());
            assert!(matches!(again, Err(DeviceError::Sick(_))), "{again:?}");
            assert!(matches!(device.probe_states(), Err(DeviceError::Unsupported(_))));
        });
    }
}

#[test]
fn a_failure_in_a_step_of_linked_walks_is_a_sick_device() {
    let test = "a_failure_in_a_step_of_linked_walks_is_a_sick_device";
    for (fault, says) in [
        ("assay_step:1:sticky700", "CUDA_ERROR_ILLEGAL_ADDRESS (700) while"),
        ("assay_step:1:hang", "hung: nothing got done for 3 s while stepping linked walks"),
    ] {
        Scenario::new(test, fault).with("FAULT", fault).run(|| {
            let mut device = first();
            check_fill(&mut device, &pass(256, 3, 1));
            let result = device.step_states(&ALONE, &mut [[1; LINE_BYTES]]);
            assert!(matches!(&result, Err(DeviceError::Sick(text)) if text.contains(says)), "{result:?}");
            let again = device.step_states(&ALONE, &mut [[1; LINE_BYTES]]);
            assert!(matches!(again, Err(DeviceError::Sick(_))), "{again:?}");
        });
    }
}

/// Steps of linked walks have memory of their own: states of the last round are there after them, and without room for
/// that memory all else goes on.
#[test]
fn steps_of_linked_walks_leave_the_states_of_the_last_round() {
    let test = "steps_of_linked_walks_leave_the_states_of_the_last_round";
    Scenario::new(test, "busy").with("FAULT", "cuMemAlloc_v2:4:2").run(|| {
        let mut device = first();
        check_fill(&mut device, &pass(256, 3, 1));
        let digest = device.probe_round(&ROUND, &Handle::default()).unwrap();
        let states = device.probe_states().unwrap();
        let mut moved = [[1; LINE_BYTES]; 5];
        let busy = device.step_states(&ALONE, &mut moved);
        assert!(matches!(busy, Err(DeviceError::Busy { needed_bytes: 324, .. })), "{busy:?}");
        assert_eq!(moved, [[1; LINE_BYTES]; 5]);
        let free = device.info().free_bytes;
        device.step_states(&ALONE, &mut moved).unwrap();
        assert!(moved.iter().all(|state| *state == moved[0] && *state != [1; LINE_BYTES]), "{moved:?}");
        assert_eq!(device.info().free_bytes, free, "memory that the device holds counts as free");
        assert!(device.probe_states().unwrap() == states);
        assert_eq!(device.probe_round(&ROUND, &Handle::default()).unwrap(), digest);
    });
}

/// A wrong bit on its way is not ours to find here; that it changes the digest is the basis of a self-test.
#[test]
fn a_flipped_bit_changes_what_is_given() {
    Scenario::new("a_flipped_bit_changes_what_is_given", "one").with("FAULT", "cuMemcpyDtoHAsync_v2:1:flip").run(
        || {
            let pass = pass(256, 3, 1);
            assert_ne!(first().fill(&pass, &Handle::default()).unwrap(), expected(&pass).0);
        },
    );
}

#[test]
fn memory_that_is_not_there_is_busy_with_the_figures() {
    let test = "memory_that_is_not_there_is_busy_with_the_figures";
    let busy = |result: Result<Vec<_>, DeviceError>| match result {
        Err(DeviceError::Busy { needed_bytes, free_bytes }) => (needed_bytes, free_bytes),
        other => panic!("{other:?}"),
    };
    let small = pass(256, 3, 1);
    Scenario::new(test, "too large").with("MEMORY_MIB", "64").run(|| {
        let mut device = first();
        let (needed, free) = busy(device.fill(&pass(4096, 4, 1), &Handle::default()));
        assert!(needed > 64 << 20 && free <= 64 << 20, "{needed} of {free}");
        check_fill(&mut device, &small);
    });
    for call in 1..=3 {
        let scenario = Scenario::new(test, format!("allocation {call}"));
        scenario.with("FAULT", format!("cuMemAlloc_v2:{call}:2")).run(|| {
            let mut device = first();
            let (needed, free) = busy(device.fill(&small, &Handle::default()));
            assert!(needed <= free && free == 256 << 20, "all of it was given back: {needed}, {free}");
            check_fill(&mut device, &small);
        });
    }
    let tenant = Scenario::new(test, "tenant").with("MEMORY_MIB", "64").with("FAULT", "cuMemGetInfo_v2:3+:tenant40");
    tenant.run(|| {
        let mut device = first();
        let fit = device.slots_that_fit(1024);
        assert!((40..=62).contains(&fit), "{fit}");
        check_fill(&mut device, &small);
        // The tenant is there now.
        let (needed, free) = busy(device.fill(&pass(1024, fit, 1), &Handle::default()));
        assert!(needed > free && free <= 24 << 20, "{needed} of {free}");
        check_fill(&mut device, &small);
    });
    // A probe of more walks than was kept room for.
    let states = Scenario::new(test, "states").with("MEMORY_MIB", "64").with("FAULT", "cuMemAlloc_v2:4:2");
    states.run(|| {
        let mut device = first();
        check_fill(&mut device, &small);
        let wide = ProbeRound { walks: 1 << 12, ..ROUND };
        let result = device.probe_round(&wide, &Handle::default());
        assert!(matches!(result, Err(DeviceError::Busy { needed_bytes: 262_144, .. })), "{result:?}");
        device.probe_round(&wide, &Handle::default()).unwrap();
    });
}

/// The memory of an integrated GPU is free where the host has it: for such a one the driver counts the page cache as
/// used, and more as free than the host has.
#[test]
fn an_integrated_gpu_has_the_hosts_memory() {
    let test = "an_integrated_gpu_has_the_hosts_memory";
    for (integrated, free_mib) in [("0", 56), ("1", 256)] {
        let scenario = Scenario::new(test, integrated).with("INTEGRATED", integrated);
        scenario.with("FAULT", "cuMemGetInfo_v2:1:tenant200").run(|| {
            let free = first().info().free_bytes >> 20;
            assert!((free_mib - 8..=free_mib).contains(&free), "{integrated}: {free} MiB");
        });
    }
    let larger = Scenario::new(test, "larger than the host").with("INTEGRATED", "1").with("MEMORY_MIB", "67108864");
    larger.run(|| assert!(first().info().free_bytes < machine::total_bytes()));
}

/// The room that a device reports can be filled, for several sizes, one after another in the same memory.
#[test]
fn what_fits_can_be_filled_and_is_kept_until_released() {
    let scenario = Scenario::new("what_fits_can_be_filled_and_is_kept_until_released", "uneven");
    scenario.with("MEMORY_MIB", "14,24").run(|| {
        for number in [0, 1] {
            let mut device = try_open(number, config(KernelChoice::Auto)).unwrap();
            let fits = |device: &dyn Device| [256, 512, 1024, 128, 300].map(|n| device.slots_that_fit(n));
            let before = fits(&device);
            assert_eq!(before[3..], [0, 0]);
            assert_eq!(device.slots_that_fit(32_768), 0);
            check_fill(&mut device, &pass(512, 6, 1));
            check_fill(&mut device, &pass(256, before[0].min(40), 2));
            assert_eq!(fits(&device), before, "memory that the device holds counts as free");
            check_fill(&mut device, &pass(512, before[1].min(20), 3));
            device.release();
            assert_eq!(fits(&device), before);
            assert!(matches!(device.read(0, 0, &mut [0]), Err(DeviceError::Unsupported(_))));
            check_fill(&mut device, &pass(256, 3, 4));
        }
    });
}

/// One product of many launches: cancelling does not wait for all of it.
#[test]
fn a_large_product_is_cut_and_can_be_cancelled_inside() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let test = "a_large_product_is_cut_and_can_be_cancelled_inside";
    Scenario::new(test, "one").with("LOG", log.path()).run(|| {
        let mut device = first();
        check_fill(&mut device, &pass(256, 3, 1));
        let handle = Handle::default();
        let result = thread::scope(|scope| {
            scope.spawn(|| {
                while handle.done_steps() < 2 {
                    thread::sleep(Duration::from_millis(1));
                }
                handle.cancel();
            });
            device.fill(&pass(2048, 3, 1), &handle)
        });
        assert_eq!(result, Err(DeviceError::Cancelled));
        check_fill(&mut device, &pass(256, 3, 1));
    });
    if std::env::var_os("ASSAY_TEST_SCENARIO").is_none() {
        let launches = std::fs::read_to_string(log.path()).unwrap();
        let products = launches.lines().filter(|line| line.contains("assay_product"));
        let blocks = products.map(|line| line.split_whitespace().last().unwrap().parse::<u32>().unwrap());
        let large = blocks.filter(|blocks| *blocks <= 64).sum::<u32>();
        // 128 tiles, of which an emulated device makes far fewer in the time of a launch.
        assert!(large < 128 + 4, "cancelled before the end: {launches}");
    }
}
