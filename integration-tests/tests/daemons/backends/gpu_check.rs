//! `scripts/gpu-check` over the stand-in for NVIDIA's driver: it is to work on the day that a GPU is at hand.

#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assay_integration_tests::daemon::program;
use assay_integration_tests::{standin, vulkan};
use tempfile::TempDir;

/// A GPU whose families are `mma-sm75` and `dp4a`.
const TURING: [(&str, &str); 3] = [("DEVICES", "1"), ("CAPABILITY", "7.5"), ("NAME", "Stand-in GPU")];

/// The script, with its arguments and environment.
struct GpuCheck {
    script: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(String, OsString)>,
}

/// One run of the script.
struct Run {
    output: Output,
    text: String,
    /// Names of the files that it wrote.
    files: Vec<String>,
}

impl GpuCheck {
    /// The script of the repository with the programs under test, over a pretended GPU.
    fn of_repository(settings: &[(&str, &str)]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/gpu-check");
        let miner = program("assay-miner");
        let programs = miner.parent().expect("programs lie in a folder");
        Self { script, arguments: vec!["--bin".into(), programs.into()], environment: environment(settings) }
    }

    /// The script of a packed folder, which holds its programs.
    fn of_packed(folder: &Path, settings: &[(&str, &str)]) -> Self {
        Self { script: folder.join("gpu-check"), arguments: Vec::new(), environment: environment(settings) }
    }

    /// Runs it with nothing on the path but Python, and none of this process's environment.
    fn run(&self, arguments: &[&str]) -> Run {
        let (reports, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let python = python();
        symlink(&python, home.path().join("python3")).unwrap();
        let output = Command::new(python)
            .arg(&self.script)
            .args(&self.arguments)
            .arg("--out")
            .arg(reports.path())
            .args(arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("PATH", home.path())
            .env("HOME", home.path())
            .output()
            .expect("Python starts");
        let files = fs::read_dir(reports.path()).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = files.collect();
        let report = files.iter().find(|path| path.extension().is_some_and(|end| end == "txt"));
        let text = report.map(|path| fs::read_to_string(path).unwrap()).unwrap_or_default();
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        Run { output, text, files: files.iter().map(name).collect() }
    }
}

impl Run {
    /// Fails with everything that the script said, unless the report says this.
    fn says(&self, text: &str) {
        assert!(self.text.contains(text), "not said: {text}\n{}", self.everything());
    }

    fn everything(&self) -> String {
        format!("{}\n{}", self.text, String::from_utf8_lossy(&self.output.stderr))
    }
}

fn environment(settings: &[(&str, &str)]) -> Vec<(String, OsString)> {
    [standin::environment(settings), vulkan::no_driver()].concat()
}

/// The interpreter's own path, behind any wrapper on this process's path.
fn python() -> PathBuf {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let asked = asked.expect("python3 is on the path");
    PathBuf::from(String::from_utf8(asked.stdout).unwrap().trim())
}

/// A packed folder with the programs under test, without their symbols, as those of a release are.
fn pack() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("programs-to-pack");
    fs::create_dir(&programs).unwrap();
    for name in ["assay-miner", "assay-validator"] {
        let stripped = Command::new("strip").arg("-o").arg(programs.join(name)).arg(program(name)).status();
        assert!(stripped.expect("strip, of the linker's package").success(), "{name} cannot be stripped");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/gpu-check");
    let packed = folder.path().join("packed");
    let output = Command::new(script).arg("pack").arg(&packed).arg("--bin").arg(&programs).arg("--quick").output();
    let output = output.expect("the script starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("packed/gpu-check --call 1 --budget"), "{said}");
    fs::remove_dir_all(&programs).unwrap();
    folder
}

/// Every file below a folder; all of them plain.
fn plain_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let (entry, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
        if kind.is_dir() {
            files.extend(plain_files(&entry));
        } else {
            assert!(kind.is_file(), "{} is no plain file", entry.display());
            files.push(entry);
        }
    }
    files.sort();
    files
}

/// All steps from the packed folder. cuBLASLt is not there, which is the one failure, and said to be.
#[test]
fn the_packed_folder_runs_every_step_with_python_alone() {
    let folder = pack();
    let packed = folder.path().join("packed");
    let files = plain_files(&packed);
    let hopper = [("DEVICES", "1"), ("CAPABILITY", "9.0"), ("NAME", "Stand-in GPU")];
    let run = GpuCheck::of_packed(&packed, &hopper).run(&["--quick", "--budget", "1200"]);
    assert_eq!(run.output.status.code(), Some(1), "{}", run.everything());
    run.says(" checks passed, 1 failed, 0 steps not run");
    run.says("FAILED cuBLASLt beside int8 at n = 256");
    run.says("cuBLASLt: not found in ");
    for step in ["devices", "vectors", "random", "goals", "pair", "probe", "kinds", "large", "linked", "bench"] {
        run.says(&format!("\n-- {step}: "));
    }
    run.says("  int8: wgmma-sm90a, mma-sm80, mma-sm75, dp4a\n");
    run.says("int8, n = 256: pass,");
    run.says("not run: ncu is not on this machine");
    run.says("not run: compute-sanitizer is not on this machine");
    assert_eq!(run.files.len(), 3, "{:?}", run.files);
    assert_eq!(plain_files(&packed), files, "the packed folder is as it was");
}

/// The stand-in's GPU is not a Vulkan device; a software adapter takes its place.
#[test]
fn what_vulkan_shows_gives_the_same_bits_and_is_compared() {
    let mut check = GpuCheck::of_repository(&TURING);
    check.environment.extend(vulkan::lavapipe(1));
    check.environment.push(("ASSAY_MINER_WGPU_MEMORY".into(), "64MiB".into()));
    let run = check.run(&["--quick", "vulkan"]);
    assert!(run.output.status.success(), "{}", run.everything());
    // A vector and a random case by one kind of products, and two benchmarks.
    run.says("-- vulkan: 4 passed, 0 failed");
    for stage in ["product", "pass", "leaves", "digests", "probe"] {
        let line = run.text.lines().find(|line| line.starts_with(&format!("  {stage}: "))).expect(&run.text);
        assert!(line.contains(" / ") && line.contains(" = "), "{line}");
    }
}

/// A bit that flips once after the self-test, in the first copy of the work itself: the same pass is read again, and
/// its bytes are said to be right.
#[test]
fn wrong_bits_are_reported_and_located() {
    let settings = [&TURING[..], &[("FAULT", "cuMemcpyDtoHAsync_v2:11:flip")]].concat();
    let run = GpuCheck::of_repository(&settings).run(&["--quick", "vectors"]);
    assert_eq!(run.output.status.code(), Some(1), "{}", run.everything());
    run.says("FAILED smallest, int8 by dp4a, GPU 0\n");
    run.says("int8 by dp4a, GPU 0, slot 2 of n = 256: all 65536 bytes are right");
}

/// A kernel that does nothing fails the self-test of every start: the other family is tried all the same, and where the
/// bytes of this one are wrong is kept.
#[test]
fn a_wrong_kernel_is_looked_into_and_the_others_go_on() {
    let settings = [&TURING[..], &[("FAULT", "assay_product_mma_sm75:1+:skip")]].concat();
    let run = GpuCheck::of_repository(&settings).run(&["--quick", "vectors"]);
    assert_eq!(run.output.status.code(), Some(1), "{}", run.everything());
    run.says("FAILED the miner's own settings give a device");
    run.says("FAILED a start with mma-sm75, GPU 0");
    run.says("FAILED smallest, int8 by mma-sm75, GPU 0: not tried");
    run.says("of 65536 bytes are wrong");
    run.says("-- vectors: 3 passed, 3 failed");
}

/// A kernel that takes one quarter of a warp's rows for another: the report names these rows, of bytes and of sums.
#[test]
fn the_rows_that_a_wrong_kernel_spoils_are_named() {
    let mut check = GpuCheck::of_repository(&TURING);
    check.environment.push(("LD_LIBRARY_PATH".into(), standin::folder().join("with-wrong-rows").into()));
    let run = check.run(&["--quick", "vectors"]);
    assert_eq!(run.output.status.code(), Some(1), "{}", run.everything());
    run.says("int8 by mma-sm75, GPU 0, slot 0 of n = 256: all 65536 bytes are right");
    for (what, things) in [("slot 2 of n = 256", "bytes"), ("sums of slot 2", "sums")] {
        let (_, told) = run
            .text
            .split_once(&format!("mma-sm75, GPU 0, {what}: "))
            .unwrap_or_else(|| panic!("{}", run.everything()));
        assert!(told.lines().next().unwrap().ends_with(&format!(" of 65536 {things} are wrong")), "{told}");
        let residues = |period: &str| {
            let line = told.lines().find_map(|line| line.strip_prefix(&format!("{period}: "))).expect("a line of it");
            line.split(", ").map(|count| count.split(':').next().unwrap().parse().unwrap()).collect::<Vec<u32>>()
        };
        assert_eq!(residues("row mod 16"), (0..8).collect::<Vec<_>>(), "{told}");
        assert_eq!(residues("row mod 64"), (16..24).chain(48..56).collect::<Vec<_>>(), "{told}");
        assert_eq!(residues("column mod 32"), (0..32).collect::<Vec<_>>(), "{told}");
    }
}

/// A family that hangs costs its time once, and the others are run.
#[test]
fn a_family_that_hangs_fails_unseen_after_the_first_time() {
    let settings = [&TURING[..], &[("FAULT", "assay_product_dp4a:1+:hang")]].concat();
    let run = GpuCheck::of_repository(&settings).run(&["--quick", "vectors"]);
    assert_eq!(run.output.status.code(), Some(1), "{}", run.everything());
    run.says("FAILED a start with dp4a, GPU 0");
    run.says("hung: nothing got done for 20 s");
    run.says("FAILED smallest, int8 by dp4a, GPU 0: not tried");
    run.says("-- vectors: 3 passed, 3 failed");
}

/// A step whose usual time is not left is not begun, and the exit code says that something is missing.
#[test]
fn steps_that_the_budget_has_no_room_for_are_named() {
    let run = GpuCheck::of_repository(&TURING).run(&["--budget", "60", "goals", "kinds"]);
    assert_eq!(run.output.status.code(), Some(3), "{}", run.everything());
    run.says("goals: NOT RUN: 70 s are usual, ");
    run.says("kinds: NOT RUN: 60 s are usual, ");
    run.says(" 0 failed, 2 steps not run");
}
