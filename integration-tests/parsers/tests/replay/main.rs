//! Replays the corpora of the fuzzer: every input that it kept, and every finding, through the function of its target.

mod seeds;

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use assay_parsers::TARGETS;

/// Bytes of all corpora together: they are read in seconds, and part of every clone.
const MAX_CORPORA_BYTES: u64 = 600_000;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// The files of a folder, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_input_of_the_corpora_holds() {
    let mut failed = Vec::new();
    for (name, run) in TARGETS {
        for file in files(&fuzz().join("corpus").join(name)) {
            let data = fs::read(&file).unwrap();
            if catch_unwind(|| run(&data)).is_err() {
                failed.push(format!("{name}: {}", file.display()));
            }
        }
    }
    assert!(failed.is_empty(), "inputs that break an invariant:\n{}", failed.join("\n"));
}

#[test]
fn every_target_has_a_fuzz_target_and_a_small_corpus() {
    let names: BTreeSet<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let in_folder = |folder: &str| -> BTreeSet<_> {
        let stem = |path: &PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
        files(&fuzz().join(folder)).iter().map(stem).collect()
    };
    assert_eq!((in_folder("fuzz_targets"), in_folder("corpus")), (names.clone(), names.clone()));
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let corpora = names.iter().map(|name| {
        assert!(manifest.contains(&format!("\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n")), "{name}");
        let corpus = files(&fuzz().join("corpus").join(name));
        assert!(!corpus.is_empty(), "{name}");
        corpus.iter().map(|file| file.metadata().unwrap().len()).sum::<u64>()
    });
    let bytes = corpora.sum::<u64>();
    assert!(bytes <= MAX_CORPORA_BYTES, "{bytes} bytes: minimise them with scripts/fuzz --minimise");
}

/// Seeds hold, and are valid where their target reads them: they begin the corpora of a changed format.
#[test]
fn seeds_hold() {
    let folder = std::env::var_os("ASSAY_WRITE_SEEDS").map(PathBuf::from);
    for (name, run) in TARGETS {
        let seeds = seeds::of(name);
        for (number, seed) in seeds.iter().enumerate() {
            assert!(catch_unwind(|| run(seed)).is_ok(), "seed {number} of {name}");
            if let Some(folder) = folder.as_ref().map(|folder| folder.join(name)) {
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join(format!("seed-{number}")), seed).unwrap();
            }
        }
    }
}
