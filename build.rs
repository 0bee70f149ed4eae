//! The one build script: compiles `proto/` for every crate that says `build = "../build.rs"`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    // The working directory is the package's; the packages lie directly below the root.
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("..").canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", root.join("build.rs").display());
    compile_protos(&root.join("proto"), &out)
}

/// Compiles every file of `proto/assay/v1` in pure Rust, and keeps the descriptors for gRPC reflection.
fn compile_protos(proto: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={}", proto.display());
    let mut files = fs::read_dir(proto.join("assay/v1"))?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<Vec<_>, _>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "proto"));
    files.sort();
    let descriptors = protox::compile(files, [proto])?;
    fs::write(out.join("assay_descriptor.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
