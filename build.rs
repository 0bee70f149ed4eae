//! Compiles the protocol for the crate that says `build = "../../../build.rs"`.
//!
//! `OUT_DIR` gets one Rust file for each protobuf package, and `assay_descriptor.bin`, the encoded
//! descriptor set that gRPC reflection serves. No `protoc` is needed: protox is a compiler in Rust.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message;

const PROTO_ROOT: &str = "proto";
const PACKAGE_DIR: &str = "assay/v1";
/// The codec of the session service, in the crate that includes the generated code.
const CODEC: &str = "crate::wire::bounded::BoundedCodec";
/// Kept out of the message that lists are made of: what a stranger's empty entry stands for in memory stays small.
const BOXED: &str = ".assay.v1.Device.claimed_hardware";
/// Its bytes stay in the message that they came in until they are read: openings are nearly all that a validator receives.
const SHARED: &str = ".assay.v1.OpenedRange";
const DESCRIPTOR_FILE: &str = "assay_descriptor.bin";

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo runs this in the package's folder; the workspace root is three above it.
    let workspace = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../..").canonicalize()?;
    let proto_root = workspace.join(PROTO_ROOT);
    println!("cargo::rerun-if-changed={}", workspace.join("build.rs").display());
    println!("cargo::rerun-if-changed={}", proto_root.display());

    let descriptors = protox::compile(proto_files(&proto_root.join(PACKAGE_DIR))?, [&proto_root])?;
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out_dir.join(DESCRIPTOR_FILE), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().codec_path(CODEC).boxed(BOXED).bytes(SHARED).compile_fds(descriptors)?;
    Ok(())
}

/// The `.proto` files of `dir`.
fn proto_files(dir: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let files = files(dir, "proto")?;
    if files.is_empty() { Err(format!("no .proto file in {}", dir.display()).into()) } else { Ok(files) }
}

/// The files of `dir` with an extension, sorted: a folder's own order differs between machines, and the output must
/// not.
fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let entries = fs::read_dir(dir).map_err(|e| format!("cannot list {}: {e}", dir.display()))?;
    let mut files = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    Ok(files)
}
