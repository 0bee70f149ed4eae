//! The CUDA backend over the stand-in driver: every family of kernels gives the bits that all backends give.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::standin::{Scenario, all, config, first, id, try_open, with_float_units};
use super::sweeps;
use assay_cuda::{CudaConfig, KernelChoice, detect, find};
use assay_device::backend::Backend;
use assay_device::backend::StartupProgress;
use assay_device::{Device, Handle, SweepRound};
use assay_kits::conformance::{check_fill, check_round, expected, pass, pass_of};
use assay_kits::vectors::{LARGE, check_vector, vectors};
use assay_work::{Precision, RoundKey};

/// Each family with integer sums, and a compute capability for which it is the fastest.
const FAMILIES: [(KernelChoice, &str); 4] = [
    (KernelChoice::Dp4a, "7.5"),
    (KernelChoice::MmaSm75, "7.5"),
    (KernelChoice::MmaSm80, "8.6"),
    (KernelChoice::WgmmaSm90a, "9.0"),
];
/// Those that need a self-test, and the kinds of work that they compute.
const FLOAT_FAMILIES: [(KernelChoice, &str, &[Precision]); 8] = [
    (KernelChoice::MmaF16Sm75, "7.5", &[Precision::F16]),
    (KernelChoice::MmaBf16Sm80, "8.6", &[Precision::F16]),
    (KernelChoice::WgmmaBf16Sm90a, "9.0", &[Precision::F16]),
    (KernelChoice::MmaFp4Sm120f, "12.1", &[Precision::Fp4]),
    (KernelChoice::Tcgen05Bf16Sm100f, "10.3", &[Precision::Int8, Precision::F16]),
    (KernelChoice::Tcgen05Fp8Sm100f, "10.0", &[Precision::Fp8, Precision::Fp4]),
    (KernelChoice::Tcgen05Fp4Sm100f, "10.3", &[Precision::Fp4]),
    (KernelChoice::Tcgen05Int8Sm100a, "10.0", &BY_INT8),
];
/// Kinds of work that no float unit computes.
const BY_INT8: [Precision; 5] = [Precision::Int8, Precision::Fp8, Precision::Fp4, Precision::Field, Precision::Network];
/// Where the stand-in is the driver.
fn within(test: &str, body: impl FnOnce()) {
    Scenario::new(test, "conformance").run(body);
}

assay_kits::device_conformance!(Precision::ALL, try_open(0, with_float_units(KernelChoice::Auto)).unwrap(), within);

/// By the debug mode too, in which memory has other bytes before.
#[test]
fn sweeps_are_the_references() {
    for poison in [false, true] {
        // A product of n = 2048 is long where it is emulated.
        let stall_limit = Duration::from_secs(60);
        let open = || try_open(0, CudaConfig { poison, stall_limit, ..config(KernelChoice::Auto) }).unwrap();
        Scenario::new("sweeps_are_the_references", format!("poison {poison}")).run(|| {
            sweeps::sweeps_are_the_references(&mut open());
            sweeps::rounds_of_a_sweep_follow_one_another(&mut open());
            sweeps::sweeps_of_other_slots_are_refused(&mut open());
        });
    }
}

/// The weights are written in every round: where the third time is left out, those of the second are there.
#[test]
fn sweeps_with_the_weights_of_the_round_before_give_other_sums() {
    let scenario = Scenario::new("sweeps_with_the_weights_of_the_round_before_give_other_sums", "skipped");
    // Two leaves, then weights.
    scenario.with("FAULT", "assay_keystream:4:skip").run(|| {
        let mut device = first();
        device.fill(&pass(256, 3, 1), &Handle::default()).unwrap();
        let mut sums = |seed| {
            let round = SweepRound { key: RoundKey([seed; 32]), n: 256, count: 3 };
            device.sweep_sums(&round, &Handle::default()).unwrap()
        };
        let (before, stale, right) = (sums(1), sums(2), sums(2));
        assert_eq!(stale, before, "what the fault does");
        assert_ne!(stale, right);
    });
}

#[test]
fn every_family_gives_every_vector() {
    for (kernel, capability) in FAMILIES {
        let scenario = Scenario::new("every_family_gives_every_vector", kernel.name());
        scenario.with("CAPABILITY", capability).with("DEVICES", "1").run(|| {
            let mut device = try_open(0, config(kernel)).unwrap();
            let all = kernel == KernelChoice::MmaSm80;
            let chosen = vectors(&BY_INT8).into_iter().filter(|(name, _)| all || !LARGE.contains(&name.as_str()));
            let checked = chosen.map(|(name, vector)| check_vector(&name, &vector, &mut device)).count();
            assert_eq!(checked, if all { vectors(&BY_INT8).len() } else { small_vectors(&BY_INT8) });
        });
    }
    for (kernel, capability, kinds) in FLOAT_FAMILIES {
        let scenario = Scenario::new("every_family_gives_every_vector", kernel.name()).with("DRIVER", "13000");
        scenario.with("CAPABILITY", capability).with("DEVICES", "1").run(|| {
            let mut device = try_open(0, with_float_units(kernel)).unwrap();
            for kind in kinds {
                assert_eq!(device.kernels(*kind)[0], kernel.name());
            }
            let small = vectors(kinds).into_iter().filter(|(name, _)| !LARGE.contains(&name.as_str()));
            let checked = small.map(|(name, vector)| check_vector(&name, &vector, &mut device)).count();
            assert_eq!(checked, small_vectors(kinds));
        });
    }
}

fn small_vectors(kinds: &[Precision]) -> usize {
    vectors(kinds).iter().filter(|(name, _)| !LARGE.contains(&name.as_str())).count()
}

/// Each unit, the families that stand for it, and the self-test's words on it.
#[test]
fn only_units_that_pass_the_self_test_compute() {
    let test = "only_units_that_pass_the_self_test_compute";
    for unit in ["v100", "a100", "hopper", "b200", "mi100", "mi200", "mi300", "fp32-fma"] {
        Scenario::new(test, unit).with("DEVICES", "1").with("UNIT", format!("bf16:{unit}")).run(|| {
            let device = try_open(0, with_float_units(KernelChoice::Auto)).unwrap();
            let info = device.info();
            assert_eq!(info.precisions, Precision::ALL, "{:?}", info.units);
            assert_eq!(device.kernels(Precision::F16)[0], "mma-bf16-sm80");
        });
    }
    // The findings about F16, whose products alone need 16 bits of a sum, and about FP4, whose short sums need fewer than 14.
    let refused = [
        ("hopper-fp8", "a product alone", None),
        ("ada-fp8", "a product alone", None),
        ("rdna35", "mixed signs", Some("mixed signs")),
        ("rdna3", "zero partners", Some("zero partners")),
    ];
    for (unit, why, why_fp4) in refused {
        let units = format!("bf16:{unit},f16:{unit},e2m1:{unit}");
        let scenario =
            Scenario::new(test, format!("{unit} refused")).with("CAPABILITY", "12.0").with("DRIVER", "13000");
        scenario.with("DEVICES", "1").with("UNIT", units).run(|| {
            let mut device = try_open(0, with_float_units(KernelChoice::Auto)).unwrap();
            let info = device.info();
            assert_eq!(info.precisions, BY_INT8);
            let units = [("mma-bf16-sm80", Some(why)), ("mma-f16-sm75", Some(why)), ("mma-fp4-sm120f", why_fp4)];
            assert_eq!(info.units.len(), units.len(), "{:?}", info.units);
            for (finding, (unit, why)) in info.units.iter().zip(units) {
                assert_eq!((finding.unit.as_str(), finding.is_exact()), (unit, why.is_none()), "{finding}");
                let failed = finding.failed.as_deref().unwrap_or_default();
                assert!(failed.contains(why.unwrap_or_default()), "{finding}");
            }
            assert!(info.detail.contains("not mma-bf16-sm80: its unit is not exact for f16"), "{}", info.detail);
            // A kind that integer units compute loses nothing.
            check_fill(&mut device, &pass_of(Precision::Fp4, 256, 3, 1));
        });
    }
}

/// Two launches of the self-test have parts that passes of small matrices, whose results are right, lack: a block's
/// second tile, and sums that are drained.
#[test]
fn the_self_test_finds_what_only_large_passes_show() {
    let test = "the_self_test_finds_what_only_large_passes_show";
    let kernel = KernelChoice::WgmmaBf16Sm90a;
    for (driver, is_drained) in [("with-second-tile", false), ("with-drained-sums", true)] {
        let scenario = Scenario::new(test, driver).with_driver(driver).with("CAPABILITY", "9.0").with("DEVICES", "1");
        scenario.run(|| {
            let untested = CudaConfig { untested: true, ..with_float_units(kernel) };
            let mut device = try_open(0, untested).unwrap();
            assert_eq!(device.kernels(Precision::F16)[0], kernel.name());
            check_fill(&mut device, &pass_of(Precision::F16, 256, 5, 1));
            let info = try_open(0, with_float_units(kernel)).unwrap().info();
            assert_eq!(info.precisions, BY_INT8);
            let [finding] = &info.units[..] else { panic!("one unit: {:?}", info.units) };
            let failed = finding.failed.as_ref().expect("it fails");
            assert_eq!(failed.starts_with("drained sums are wrong"), is_drained, "{failed}");
        });
    }
}

/// On data-centre Blackwell every kind has a unit of its own, where the driver reads its PTX and the unit passes.
#[test]
fn data_centre_blackwell_computes_by_tcgen05_where_that_passes() {
    let test = "data_centre_blackwell_computes_by_tcgen05_where_that_passes";
    let none = "";
    let inexact = "bf16:rdna35,e4m3:hopper-fp8,e2m1:rdna3,int8:hopper-fp8";
    let [int8, bf16, fp8, fp4] =
        ["tcgen05-int8-sm100a", "tcgen05-bf16-sm100f", "tcgen05-fp8-sm100f", "tcgen05-fp4-sm100f"];
    for (capability, driver, unit, chosen) in [
        ("10.0", "13000", none, [int8, bf16, fp8, fp4]),
        ("10.3", "13000", none, [bf16, bf16, fp8, fp4]),
        // CUDA 12.8 reads PTX for one architecture, not for its family.
        ("10.0", "12080", none, [int8, "mma-bf16-sm80", int8, int8]),
        ("10.3", "12080", none, ["mma-sm80", "mma-bf16-sm80", "mma-sm80", "mma-sm80"]),
        ("10.0", "13000", inexact, ["mma-sm80", "mma-f16-sm75", "mma-sm80", "mma-sm80"]),
        ("10.1", "13000", none, ["mma-sm80", "mma-bf16-sm80", "mma-sm80", "mma-sm80"]),
    ] {
        let scenario = Scenario::new(test, format!("{capability} {driver} {unit}")).with("DEVICES", "1");
        scenario.with("CAPABILITY", capability).with("DRIVER", driver).with("UNIT", unit).run(|| {
            let device = try_open(0, with_float_units(KernelChoice::Auto)).unwrap();
            let families = Precision::OF_BYTES.map(|kind| device.kernels(kind)[0].clone());
            assert_eq!(families, chosen, "{}", device.info().detail);
        });
    }
}

/// A kernel that takes the device down is not tested at every start.
#[test]
fn a_self_test_that_never_ends_is_left_out_in_the_end() {
    let test = "a_self_test_that_never_ends_is_left_out_in_the_end";
    let folder = tempfile::tempdir().unwrap();
    for (start, chosen) in [("first", false), ("second", false), ("third", true)] {
        let scenario =
            Scenario::new(test, start).with("DEVICES", "1").with("CAPABILITY", "10.3").with("DRIVER", "13000");
        let fault = "assay_product_tcgen05_bf16_sm100f:1:700";
        scenario.with("FAULT", fault).with_variable("CUDA_CACHE_PATH", folder.path()).run(|| {
            let device = try_open(0, with_float_units(KernelChoice::Auto)).unwrap();
            let detail = device.info().detail;
            assert_eq!(detail.contains("did not end; remove"), chosen, "{detail}");
            assert_eq!(device.info().precisions.contains(&Precision::F16), chosen, "{detail}");
        });
    }
}

/// Regression test: a GPU that ran no kernel at all lost its units for good, one after the other.
#[test]
fn a_sick_device_bars_no_unit() {
    let test = "a_sick_device_bars_no_unit";
    let folder = tempfile::tempdir().unwrap();
    for (start, fault) in [("first", "assay_keystream:1:700"), ("second", "assay_keystream:1:700"), ("well", "")] {
        let scenario =
            Scenario::new(test, start).with("DEVICES", "1").with("CAPABILITY", "10.3").with("DRIVER", "13000");
        scenario.with("FAULT", fault).with_variable("CUDA_CACHE_PATH", folder.path()).run(|| {
            let device = try_open(0, with_float_units(KernelChoice::Auto)).unwrap();
            let (info, is_well) = (device.info(), fault.is_empty());
            assert_eq!(info.precisions.contains(&Precision::F16), is_well, "{}", info.detail);
            assert!(!info.detail.contains("did not end"), "{}", info.detail);
        });
    }
}

/// Two streams, ahead of and behind one another as the seed has it, over memory that changes its use from pass to pass.
#[test]
fn random_passes_and_rounds_give_the_references_bits() {
    for (kernel, capability) in FAMILIES {
        for seed in 1..=3_u8 {
            let scenario =
                Scenario::new("random_passes_and_rounds_give_the_references_bits", format!("{kernel} {seed}"));
            scenario.with("CAPABILITY", capability).with("SEED", seed.to_string()).run(|| {
                let mut device = try_open(1, config(kernel)).unwrap();
                let mut draw = u32::from(seed);
                for case in 0..5_u8 {
                    draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let n = if draw >> 30 == 0 { 512 } else { 256 };
                    let pass = pass(n, 3 + (draw >> 8) % 7, seed * 16 + case);
                    check_fill(&mut device, &pass);
                    check_round(&mut device, &pass, 64 << ((draw >> 16) % 4), 1 + (draw >> 20) % 40);
                }
            });
        }
    }
}

#[test]
fn each_device_gets_the_fastest_family_that_it_runs() {
    let test = "each_device_gets_the_fastest_family_that_it_runs";
    let log = tempfile::NamedTempFile::new().unwrap();
    Scenario::new(test, "six").with("DEVICES", "6").with("CAPABILITY", "7.5,8.0,8.9,10.0,12.0,9.0").run(|| {
        let kernels: Vec<_> = all().iter().map(|device| device.info().detail).collect();
        let starts = ["mma-sm75", "mma-sm80", "mma-sm80", "mma-sm80", "mma-sm80", "wgmma-sm90a"];
        for (detail, family) in kernels.iter().zip(starts) {
            assert!(detail.starts_with(&format!("kernel {family},")), "{detail}");
        }
    });
    let scenario = Scenario::new(test, "launched").with("CAPABILITY", "8.0").with("LOG", log.path());
    scenario.run(|| check_fill(&mut try_open(0, config(KernelChoice::Dp4a)).unwrap(), &pass(256, 4, 1)));
    if std::env::var_os("ASSAY_TEST_SCENARIO").is_none() {
        let launches = fs::read_to_string(log.path()).unwrap();
        let products = launches.matches("launch assay_product_dp4a device 0").count();
        assert!(products >= 2 && !launches.contains("mma"), "{launches}");
        assert_eq!(launches.matches("launch assay_digest").count(), 4, "{launches}");
        assert_eq!(launches.matches("launch assay_keystream").count(), 2, "{launches}");
    }
}

#[test]
fn a_family_asked_for_that_cannot_run_is_refused_with_what_it_needs() {
    let test = "a_family_asked_for_that_cannot_run_is_refused_with_what_it_needs";
    Scenario::new(test, "one").with("CAPABILITY", "7.5").run(|| {
        let error = try_open(0, config(KernelChoice::MmaSm80)).unwrap_err().to_string();
        assert!(error.contains("mma-sm80: needs compute capability 8.0 or higher"), "{error}");
        assert!(error.contains("this device has 7.5"), "{error}");
    });
}

#[test]
fn a_family_that_does_not_load_is_passed_over_and_that_is_said() {
    let test = "a_family_that_does_not_load_is_passed_over_and_that_is_said";
    for (fault, name) in [("cuModuleLoadDataEx:8:218", "INVALID_PTX"), ("cuFuncSetAttribute:1:1", "INVALID_VALUE")] {
        // The k-th module is the family's: seven common ones come first.
        Scenario::new(test, name).with("CAPABILITY", "8.0").with("FAULT", fault).run(|| {
            let mut device = first();
            let detail = device.info().detail;
            assert!(detail.starts_with("kernel mma-sm75,"), "{detail}");
            assert!(detail.contains("not mma-sm80: CUDA_ERROR_") && detail.contains(name), "{detail}");
            check_fill(&mut device, &pass(256, 3, 1));
        });
    }
}

/// Products have the higher priority. On an A100 both ask for the shared memory that lets them share a multiprocessor, which
/// is no use on smaller ones; a refused hint is no failure. On Hopper and Blackwell in data centres a product that is one
/// launch, as the first one here, hashes the slot before.
#[test]
fn digests_run_beside_products_as_the_multiprocessor_allows() {
    let test = "digests_run_beside_products_as_the_multiprocessor_allows";
    let cases = [
        ("8.0", "mma_sm80", "", 100, 100, false),
        ("8.6", "mma_sm80", "", -1, -1, false),
        ("9.0", "wgmma_sm90a", "", -1, -1, true),
        ("10.0", "tcgen05_int8_sm100a", "", -1, -1, true),
        ("8.0", "mma_sm80", "cuFuncSetAttribute:2:1", -1, 100, false),
    ];
    for (capability, family, fault, product, digest, hashes) in cases {
        let log = tempfile::NamedTempFile::new().unwrap();
        let scenario = Scenario::new(test, format!("{capability} {fault}")).with("CAPABILITY", capability);
        let scenario = scenario.with("FAULT", fault).with("LOG", log.path()).with("DRIVER", "13000");
        let untested = CudaConfig { untested: true, ..with_float_units(KernelChoice::Auto) };
        scenario.run(|| check_fill(&mut try_open(0, untested).unwrap(), &pass(256, 4, 1)));
        if std::env::var_os("ASSAY_TEST_SCENARIO").is_none() {
            let log = fs::read_to_string(log.path()).unwrap();
            let launches = |line: &str| log.matches(line).count();
            let products = format!("launch assay_product_{family} device 0 priority -5 carveout {product} blocks");
            assert_eq!(launches(&products), launches("launch assay_product"), "{capability}: {log}");
            // On a slow processor a later product may be cut.
            let whole = log.lines().find(|line| line.starts_with(&products)).expect("a product");
            let hashed = if hashes { log.lines().filter(|line| *line == whole).count() } else { 0 };
            assert!(!hashes || hashed >= 1, "{capability}: {log}");
            let (digests, count) =
                (format!("launch assay_digest device 0 priority 0 carveout {digest} blocks"), 4 - hashed);
            assert_eq!((launches(&digests), launches("launch assay_digest")), (count, count), "{capability}: {log}");
        }
    }
}

/// Behind a launch of a product there is its mark alone, once launches as large were timed, then one in 16 times; of a kind
/// whose operands are written out, theirs too. The pass has one of its own.
#[test]
fn marks_do_not_delay_products() {
    for (kind, expanded) in [(Precision::Int8, 0), (Precision::F16, 38)] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let scenario = Scenario::new("marks_do_not_delay_products", kind.to_string()).with("CAPABILITY", "8.0");
        scenario.with("DEVICES", "1").with("LOG", log.path()).run(|| {
            let mut device =
                try_open(0, CudaConfig { untested: true, ..with_float_units(KernelChoice::Auto) }).unwrap();
            let path = std::env::var_os("ASSAY_STANDIN_LOG").unwrap();
            let mut extra_marks = || {
                fs::write(&path, "").unwrap();
                device.fill(&pass_of(kind, 256, 40, 1), &Handle::default()).unwrap();
                let log = fs::read_to_string(&path).unwrap();
                let (marks, launches) = ("record priority -5", "launch assay_product");
                let [marks, launches] = [marks, launches].map(|line| log.matches(line).count());
                assert!(launches >= 38, "{log}");
                (marks - launches - expanded - 3, launches / 16)
            };
            let (timed, fewest) = extra_marks();
            assert!(timed >= fewest);
            let (timed, expected) = extra_marks();
            assert_eq!(timed, expected);
        });
    }
}

/// The report of the driver's compiler is in the log at level debug, for each module.
#[test]
fn the_drivers_log_of_a_compilation_is_kept() {
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);
    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    Scenario::new("the_drivers_log_of_a_compilation_is_kept", "one").run(|| {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_ansi(false);
        let subscriber = subscriber.with_writer(move || writer.clone()).finish();
        drop(tracing::subscriber::with_default(subscriber, first));
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        for (module, entry) in [("digest", "assay_subtrees"), ("product_mma_sm80", "assay_product_mma_sm80")] {
            let line = text.lines().find(|line| line.contains(&format!("module=\"{module}\""))).unwrap_or(&text);
            assert!(line.contains("DEBUG") && line.contains(&format!("Compiling entry function '{entry}'")), "{text}");
        }
    });
}

#[test]
fn a_hopper_whose_operands_cannot_be_described_is_sick() {
    let scenario = Scenario::new("a_hopper_whose_operands_cannot_be_described_is_sick", "one");
    scenario.with("CAPABILITY", "9.0").with("FAULT", "cuTensorMapEncodeTiled:2:1").run(|| {
        let error = first().fill(&pass(256, 3, 1), &Handle::default()).unwrap_err();
        assert!(error.to_string().contains("describing an operand to the tensor memory accelerator"), "{error}");
    });
}

#[test]
fn all_devices_of_a_host_work_at_once() {
    for (devices, memory) in [(2, "256"), (8, "64,48,33,128,64,40,64,64")] {
        let scenario = Scenario::new("all_devices_of_a_host_work_at_once", devices.to_string());
        scenario.with("DEVICES", devices.to_string()).with("MEMORY_MIB", memory).run(|| {
            let mut devices = all();
            std::thread::scope(|scope| {
                for (number, device) in (0..).zip(&mut devices) {
                    scope.spawn(move || {
                        assert_eq!(device.info().id, id(number));
                        check_fill(device, &pass(256, 3 + u32::from(number), number));
                        check_round(device, &pass(256, 3 + u32::from(number), number), 64, 5);
                    });
                }
            });
        });
    }
}

/// Our description of a device is the driver's.
#[test]
fn devices_are_described_without_taking_their_memory() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let scenario = Scenario::new("devices_are_described_without_taking_their_memory", "three").with("DEVICES", "3");
    let scenario = scenario.with("MEMORY_MIB", "100,200,300").with("CAPABILITY", "7.0,9.0,8.6").with("MODE", "0,0,2");
    scenario.with("NAME", "Tesla V100,H100 MIG 1g.10gb,RTX A6000").with("LOG", log.path()).run(|| {
        let found = detect().unwrap();
        let names: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.mig, d.ecc, d.memory_bytes >> 20)).collect();
        let told = [
            ("Tesla V100", false, false, 100),
            ("H100 MIG 1g.10gb", true, true, 200),
            ("RTX A6000", false, false, 300),
        ];
        assert_eq!(names, told);
        assert_eq!(found.iter().map(|d| d.id).collect::<Vec<_>>(), [id(0), id(1), id(2)]);
        assert!(found[0].refusal.as_ref().unwrap().contains("7.0"), "{found:?}");
        assert_eq!(found[1].refusal, None);
        assert!(found[2].refusal.as_ref().unwrap().contains("Prohibited"), "{found:?}");
        assert_eq!(found[1].pci_address, "0000:02:00.0");
        let listed = find().unwrap();
        assert_eq!(listed.iter().map(|found| found.refusal.is_some()).collect::<Vec<_>>(), [true, false, true]);
        let old = listed[0].refusal.as_ref().unwrap();
        assert!(old.starts_with("Tesla V100 at 0000:01:00.0: compute capability 7.0"), "{old}");
        for refused in [0, 2] {
            let error = try_open(refused, CudaConfig::default()).unwrap_err().to_string();
            assert!(error.contains(found[usize::from(refused)].refusal.as_ref().unwrap()), "{error}");
        }
    });
}

/// The first start says that it compiles; the next one, with the same driver and device, that it loads.
#[test]
fn compiling_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let test = "compiling_is_said_once";
    for (name, driver, says) in [
        ("first", "12000", "compiling kernels, once"),
        ("next", "12000", "loading kernels"),
        ("driver", "13000", "compiling kernels, once"),
    ] {
        let scenario = Scenario::new(test, name).with("DRIVER", driver);
        scenario.with_variable("CUDA_CACHE_PATH", folder.path()).run(|| {
            let told = Mutex::new(Vec::new());
            let found = find().unwrap();
            let prepare = |preparing: StartupProgress| told.lock().unwrap().push(preparing);
            let device = config(KernelChoice::Auto).open(&found[0].spec, &prepare).unwrap();
            assert_eq!(device.info().id, found[0].info.id);
            let told = told.into_inner().unwrap();
            assert!(told.iter().all(|p| p.what == says), "{told:?}");
            assert_eq!(
                told.iter().map(|p| (p.done, p.total)).collect::<Vec<_>>(),
                [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|done| (done, 8))
            );
        });
    }
}

/// Memory that is never read before it is written gives the same bits with any earlier content. The debug mode would
/// show such a read: without it, a leaf that is not computed again still lies there from the pass before.
#[test]
fn poison_shows_what_is_read_unwritten() {
    let pass = pass(256, 4, 3);
    for (poison, fault, right) in
        [(true, "", true), (false, "assay_keystream:3:skip", true), (true, "assay_keystream:3:skip", false)]
    {
        let scenario = Scenario::new("poison_shows_what_is_read_unwritten", format!("{poison} {right}"));
        scenario.with("FAULT", fault).run(|| {
            let config = CudaConfig { poison, ..config(KernelChoice::Auto) };
            let mut device = try_open(0, config).unwrap();
            check_fill(&mut device, &pass);
            let again = device.fill(&pass, &Handle::default()).unwrap();
            assert_eq!(again == expected(&pass).0, right);
            if right {
                check_round(&mut device, &pass, 64, 3);
            }
        });
    }
}
