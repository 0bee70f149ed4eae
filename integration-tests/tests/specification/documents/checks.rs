//! The rule by which `scripts/check` skips a step: the contents of its inputs are those with which it passed, and
//! nothing else counts.

#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::documents::source::{read, rust_files, shared_crates, workspace};

const STEPS: [&str; 14] = [
    "devices",
    "backends",
    "features",
    "doc",
    "cooperative",
    "packages",
    "deny",
    "proto",
    "kernels",
    "deploy",
    "aarch64",
    "arm",
    "macos",
    "windows",
];

/// A repository with the scripts, a file of the protocol, and one of the kernels.
struct Tree {
    folder: TempDir,
}

impl Tree {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tree = Self { folder };
        for script in ["check", "steps.sh", "lib.sh"] {
            tree.write(
                &format!("scripts/{script}"),
                &fs::read_to_string(workspace().join("scripts").join(script)).unwrap(),
            );
        }
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(tree.path("scripts/check"), executable.clone()).unwrap();
        tree.write("proto/assay/v1/a.proto", "a");
        tree.write("kernels/cuda/b.cu", "b");
        // No step can install anything here.
        tree.write("bin/npm", "#!/bin/sh\nexit 1\n");
        fs::set_permissions(tree.path("bin/npm"), executable).unwrap();
        tree.git(&["init", "-q"]);
        tree
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn write(&self, file: &str, text: &str) {
        fs::create_dir_all(self.path(file).parent().unwrap()).unwrap();
        fs::write(self.path(file), text).unwrap();
    }

    fn git(&self, arguments: &[&str]) {
        let names = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
        let done = Command::new("git").args(names).args(arguments).current_dir(self.folder.path()).status().unwrap();
        assert!(done.success(), "git {arguments:?}");
    }

    fn check(&self, arguments: &[&str]) -> Output {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(self.path("scripts/check"));
        command.args(arguments).env("PATH", path).env("ASSAY_TOOLS", self.path("tools"));
        command.output().expect("the script starts")
    }

    fn hash(&self, step: &str) -> String {
        let output = self.check(&["hash", step]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let hash = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        assert_eq!(hash.len(), 32, "{hash}");
        hash
    }

    fn assert_all_skipped(&self) {
        let output = self.check(&[]);
        assert!(output.status.success(), "{}", text(&output));
        for step in STEPS {
            assert!(text(&output).contains(&format!("-- {step}: passed before")), "{step}: {}", text(&output));
        }
    }

    /// Notes each step as passed with the inputs of now.
    fn pass_all(&self) {
        for step in STEPS {
            self.write(&format!("tools/passed/{step}-{}", self.hash(step)), "");
        }
    }
}

/// All that a script printed.
fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn inputs_are_contents_and_nothing_else() {
    let tree = Tree::new();
    let before = STEPS.map(|step| tree.hash(step));
    let of = |step: &str| before[STEPS.iter().position(|name| *name == step).unwrap()].clone();

    tree.git(&["add", "proto", "kernels", "scripts"]);
    tree.git(&["commit", "-q", "-m", "All"]);
    let touched = fs::File::options().append(true).open(tree.path("proto/assay/v1/a.proto")).unwrap();
    touched.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(STEPS.map(|step| tree.hash(step)), before, "neither commits nor dates count");

    tree.write("proto/assay/v1/a.proto", "other");
    assert_ne!(tree.hash("proto"), of("proto"), "a changed file counts before it is committed");
    assert_eq!(tree.hash("kernels"), of("kernels"), "only for steps that read it");
    tree.write("proto/assay/v1/a.proto", "a");
    assert_eq!(tree.hash("proto"), of("proto"), "what is as it was passes as it did");

    tree.write("kernels/cuda/new.cu", "");
    assert_ne!(tree.hash("kernels"), of("kernels"), "a new file counts");
    fs::remove_file(tree.path("kernels/cuda/new.cu")).unwrap();
    fs::rename(tree.path("kernels/cuda/b.cu"), tree.path("kernels/cuda/c.cu")).unwrap();
    assert_ne!(tree.hash("kernels"), of("kernels"), "a name counts");
    fs::rename(tree.path("kernels/cuda/c.cu"), tree.path("kernels/cuda/b.cu")).unwrap();

    let script = fs::read_to_string(tree.path("scripts/check")).unwrap();
    tree.write("scripts/check", &script.replace("() {\n  heading ", "() {\n  true\n  heading "));
    for (step, before) in STEPS.iter().zip(&before) {
        assert_ne!(tree.hash(step), *before, "{step}: its own lines count");
    }
}

#[test]
fn a_step_is_skipped_while_its_inputs_are_those_that_passed() {
    let tree = Tree::new();
    tree.pass_all();
    tree.assert_all_skipped();

    // An input of that step alone.
    tree.write("buf.yaml", "a");
    let output = tree.check(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("cannot install buf"), "{}", text(&output));
    let again = tree.check(&[]);
    assert_eq!(again.status.code(), Some(1), "a failure is no pass: {}", text(&again));
    fs::remove_file(tree.path("buf.yaml")).unwrap();
    assert!(tree.check(&[]).status.success());
    let named = tree.check(&["proto"]);
    assert_eq!(named.status.code(), Some(1), "a step that is named runs: {}", text(&named));
}

#[test]
fn a_step_that_passed_in_ci_with_the_same_inputs_is_skipped() {
    let tree = Tree::new();
    tree.write(".ci/passed", "");
    tree.git(&["add", "."]);
    tree.git(&["commit", "-q", "-m", "All"]);
    assert!(tree.check(&["record"]).status.success());
    tree.git(&["commit", "-q", "-a", "-m", "Record"]);
    tree.assert_all_skipped();
    tree.write("buf.yaml", "a");
    let output = tree.check(&[]);
    assert!(text(&output).contains("cannot install buf"), "an input changed: {}", text(&output));
    assert_eq!(tree.check(&["record"]).status.code(), Some(1), "a change that no commit has is no commit");
}

/// The file in the repository: a line for each step at most.
#[test]
fn recorded_hashes_are_of_steps() {
    let passed = read(".ci/passed");
    let mut seen = BTreeSet::new();
    for line in passed.lines().filter(|line| !line.starts_with('#')) {
        let (step, hash) = line.split_once(' ').expect("a step and a hash");
        assert!(STEPS.contains(&step) && seen.insert(step), "{line}");
        assert!(hash.len() == 32 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{line}");
    }
    assert!(!seen.is_empty(), "{passed}");
}

#[test]
fn every_input_exists() {
    let script = fs::read_to_string(workspace().join("scripts/check")).unwrap();
    let rust = script.lines().find_map(|line| line.strip_prefix("rust=\"")).unwrap();
    let rows: Vec<_> = script.lines().filter(|line| line.starts_with("  [") && line.contains("]=")).collect();
    assert_eq!(rows.len(), STEPS.len(), "a row for each step");
    let paths = rows.iter().filter_map(|row| row.split_once('=')).flat_map(|(_, paths)| paths.split_whitespace());
    for path in paths.chain(rust.split_whitespace()).map(|path| path.trim_matches('"')).filter(|path| *path != "$rust")
    {
        // With a star: files of that name in any folder, this one too.
        assert!(Path::new(&workspace()).join(path.trim_start_matches('*')).exists(), "{path}");
    }
}

/// The tests of the step `devices` name no crate but those among its inputs, and these depend on no other one.
#[test]
fn tests_of_devices_use_nothing_but_the_inputs_of_their_step() {
    let folder = "integration-tests/tests/daemons/backends/devices";
    assert!(inputs_of("devices").contains(&folder.to_owned()));
    let files = rust_files(&workspace().join(folder)).into_iter().map(|file| format!("{folder}/{file}"));
    let harness = ["standin", "vulkan"].map(|file| format!("integration-tests/src/{file}.rs"));
    let text: String = files.chain(harness).map(|file| read(&file)).collect();
    let of_harness = text.matches("assay_integration_tests").count();
    let of_two = ["::standin;", "::vulkan as driver;"].map(|end| text.matches(&format!("tests{end}")).count());
    assert_eq!(of_two.iter().sum::<usize>(), of_harness, "nothing else of the harness");
    assert!(text.contains("assay_kits::") && inputs_of("devices").contains(&"integration-tests/kits".to_owned()));
    assert_crates_are_inputs("devices", |name| text.contains(&format!("{}::", name.replace('-', "_"))));
}

/// The step `windows` checks the miner: that changes where the validator's crates alone do is none of its inputs.
#[test]
fn crates_of_the_miner_are_inputs_of_the_step_for_windows() {
    let manifest = read("miner/Cargo.toml");
    assert_crates_are_inputs("windows", |name| manifest.contains(&format!("\n{name}.workspace")));
    let inputs = inputs_of("windows");
    assert!(inputs.contains(&"miner".to_owned()) && !inputs.contains(&"shared".to_owned()), "{inputs:?}");
}

fn inputs_of(step: &str) -> Vec<String> {
    let script = fs::read_to_string(workspace().join("scripts/check")).unwrap();
    let row = script.lines().find(|line| line.starts_with(&format!("  [{step}]="))).unwrap();
    row.split(['"', ' ']).filter(|input| !input.is_empty()).map(str::to_owned).collect()
}

/// The crates that are named, and those that they depend on, lie in folders that are inputs of a step.
fn assert_crates_are_inputs(step: &str, is_named: impl Fn(&str) -> bool) {
    let inputs = inputs_of(step);
    let name = |folder: &str| format!("assay-{}", folder.rsplit('/').next().unwrap());
    let crates: Vec<_> = shared_crates().into_iter().map(|folder| (name(&folder), folder)).collect();
    let mut needed: BTreeSet<_> = crates.iter().filter(|(name, _)| is_named(name)).collect();
    loop {
        let manifests: String = needed.iter().map(|(_, folder)| read(&format!("{folder}/Cargo.toml"))).collect();
        let all: BTreeSet<_> = crates.iter().filter(|(name, _)| manifests.contains(name)).collect();
        if all.is_subset(&needed) {
            break;
        }
        needed.extend(all);
    }
    assert!(needed.len() > 4, "{needed:?}");
    for (_, folder) in needed {
        assert!(inputs.iter().any(|input| Path::new(folder).starts_with(input)), "{folder}");
    }
}

/// `scripts/check` runs the tests that `scripts/test` skips, and they exist.
#[test]
fn tests_that_are_skipped_are_a_step_of_the_check() {
    let script = |name: &str| fs::read_to_string(workspace().join("scripts").join(name)).unwrap();
    let (test, check) = (script("test"), script("check"));
    let skipped: Vec<_> = test.split("--skip ").skip(1).filter_map(|rest| rest.split_whitespace().next()).collect();
    assert_eq!(skipped, ["backends::", "shaders::tests::"]);
    for run in ["devices backends::devices:: shaders::tests::", "backends backends:: --skip backends::devices::"] {
        assert!(check.contains(&format!("test_over_standins {run}\n")), "{run}");
    }
    // No other module's tests are skipped by these names.
    let folders = ["shared", "miner", "validator", "packaging", "integration-tests"];
    let named = folders.into_iter().flat_map(|folder| {
        let files = rust_files(&workspace().join(folder)).into_iter().map(move |file| format!("{folder}/{file}"));
        let names = |line: &str| ["mod backends;", "mod shaders;"].iter().any(|end| line.trim_end().ends_with(end));
        files.filter(move |file| read(file).lines().any(names))
    });
    let expected = [
        "shared/devices/wgpu/src/lib.rs",
        "integration-tests/tests/daemons/main.rs",
        "integration-tests/tests/daemons/backends/devices/mod.rs",
    ];
    assert_eq!(named.collect::<BTreeSet<_>>(), BTreeSet::from(expected.map(str::to_owned)));
}
