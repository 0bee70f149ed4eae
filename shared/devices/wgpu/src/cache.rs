//! Compiled pipelines, kept in a file for each driver where its API has such a cache (Vulkan).
//!
//! A driver may trust the file's content: it carries a hash, so that the driver is never given a truncated or altered
//! one.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ::wgpu::{Features, PipelineCache, PipelineCacheDescriptor, util};

use super::config::WgpuConfig;
use super::gpu::Gpu;

/// No larger file is read: all shaders of a device take about a megabyte.
const MAX_BYTES: u64 = 256 << 20;
/// Bytes of the hash that a file starts with.
const HASH_BYTES: usize = 32;
/// The context of the hash.
const CONTEXT: &str = "assay v1 wgpu pipeline cache";

/// The cache of a device; empty without a folder or without the driver's support.
pub(super) struct Cache(Option<StoredCache>);

struct StoredCache {
    raw: PipelineCache,
    file: PathBuf,
    was: Vec<u8>,
}

impl Cache {
    /// Opens the file of an earlier start.
    pub(super) fn open(gpu: &Gpu, config: &WgpuConfig) -> Self {
        let name = util::pipeline_cache_key(&gpu.adapter.get_info());
        let has = gpu.device.features().contains(Features::PIPELINE_CACHE);
        let (Some(folder), Some(name), true) = (&config.cache_folder, name, has) else { return Self(None) };
        let file = folder.join(name);
        let was = read(&file).unwrap_or_else(|error| {
            tracing::debug!(file = %file.display(), %error, "no compiled pipelines");
            Vec::new()
        });
        let data = (!was.is_empty()).then_some(was.as_slice());
        let descriptor = PipelineCacheDescriptor { label: Some("pipelines"), data, fallback: true };
        // SAFETY: the data was written by this function's counterpart for this adapter and driver: its hash says so.
        let made = gpu.scoped(|| unsafe { gpu.device.create_pipeline_cache(&descriptor) });
        Self(made.ok().map(|raw| StoredCache { raw, file, was }))
    }

    /// The cache to make pipelines with, if there is one.
    pub(super) fn raw(&self) -> Option<&PipelineCache> {
        self.0.as_ref().map(|kept| &kept.raw)
    }

    /// Whether an earlier start left pipelines in it.
    pub(super) fn is_warm(&self) -> bool {
        self.0.as_ref().is_some_and(|kept| !kept.was.is_empty())
    }

    /// Writes the file, if pipelines were compiled since.
    pub(super) fn save(&mut self) {
        let Some(kept) = &mut self.0 else { return };
        let Some(data) = kept.raw.get_data().filter(|data| *data != kept.was) else { return };
        match write(&kept.file, &data) {
            Ok(()) => kept.was = data,
            Err(error) => tracing::warn!(file = %kept.file.display(), %error, "compiled pipelines are not kept"),
        }
    }
}

fn hash(data: &[u8]) -> [u8; HASH_BYTES] {
    blake3::derive_key(CONTEXT, data)
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(file)?.len() > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too large"));
    }
    let mut bytes = fs::read(file)?;
    match bytes.split_first_chunk::<HASH_BYTES>() {
        Some((told, data)) if *told == hash(data) => Ok(bytes.split_off(HASH_BYTES)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "its hash is not that of its content")),
    }
}

/// Writes beside the file and renames: of several processes at once, one's is kept whole.
fn write(file: &Path, data: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let beside = file.with_extension(format!("{}.part", std::process::id()));
    let mut part = fs::File::create(&beside)?;
    let written = part.write_all(&hash(data)).and_then(|()| part.write_all(data)).and_then(|()| part.sync_all());
    let kept = written.and_then(|()| fs::rename(&beside, file));
    if kept.is_err() {
        // Leave no partial file behind.
        let _ = fs::remove_file(&beside);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_was_altered_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/cache");
        write(&file, b"compiled").unwrap();
        assert_eq!(read(&file).unwrap(), b"compiled");
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, &bytes).unwrap();
        assert!(read(&file).is_err());
        fs::write(&file, b"short").unwrap();
        assert!(read(&file).is_err());
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }
}
