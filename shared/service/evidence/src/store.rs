//! The folder or bucket, and the outbox of a bucket.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig};
use tokio::task::{JoinSet, spawn_blocking};
use tokio_stream::StreamExt;

use crate::bounds::{MAX_CONTENT_BYTES, MAX_OUTBOX_BYTES};
use crate::error::EvidenceError;
use crate::location::EvidenceLocation;
use crate::read::EvidenceReader;
use crate::refusals::Refusals;
use crate::room::Room;
use crate::spool::{SPOOL_PREFIX, Spool, SpooledObject};
use assay_work::Digest;

/// Bytes of an object as stored: the content, and zstd's overhead for bytes that it cannot compress.
const MAX_STORED_BYTES: u64 = MAX_CONTENT_BYTES + (MAX_CONTENT_BYTES >> 8) + 1024;
/// How the names of objects end.
const SUFFIX: &str = ".zst";
/// Temporary files of this age are abandoned: no challenge takes so long.
const ABANDONED: Duration = Duration::from_secs(2 * 86_400);
/// Bytes of a part of an upload, and of an object that is uploaded at once.
const PART_BYTES: usize = 8 << 20;
/// Parts of an upload that are under way at once.
const MAX_PARTS: usize = 4;
/// How long a bucket may take for one request.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);
/// How long a request that failed is tried again.
const RETRY_LIMIT: Duration = Duration::from_secs(20);

/// Where evidence is kept. A clone is the same store.
#[derive(Debug, Clone)]
pub struct EvidenceStore {
    location: EvidenceLocation,
    objects: Arc<dyn ObjectStore>,
    /// The folder of the temporary files, and of the objects that wait for a bucket.
    folder: PathBuf,
    pub(crate) room: Arc<Room>,
    refusals: Arc<Refusals>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredObject {
    pub digest: Digest,
    /// Bytes before compression.
    pub bytes: u64,
    /// Bytes of the object.
    pub stored_bytes: u64,
}

/// An object of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectEntry {
    pub digest: Digest,
    /// Its bytes, compressed.
    pub bytes: u64,
    /// The time of its writing.
    pub modified: SystemTime,
}

/// The objects that wait for a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    pub objects: usize,
    /// Their bytes.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UploadTotals {
    /// Count of uploaded objects.
    pub objects: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl EvidenceStore {
    /// Opens a store. The folder is made where it does not exist; `outbox` is the folder of objects that wait for a
    /// bucket, and is not used for a folder. The bucket is not asked for anything yet.
    ///
    /// # Errors
    /// [`EvidenceError::File`] when the folder cannot be written to, [`EvidenceError::Store`] for wrong settings of a
    /// bucket.
    pub fn open(location: &EvidenceLocation, outbox: &Path) -> Result<Self, EvidenceError> {
        let variables =
            std::env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
        Self::open_with(location, outbox, variables)
    }

    /// [`EvidenceStore::open`] with other variables than the environment's. Other names than those of the AWS tools are
    /// passed over.
    pub fn open_with(
        location: &EvidenceLocation,
        outbox: &Path,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, EvidenceError> {
        let folder = match location {
            EvidenceLocation::Folder(folder) => folder.clone(),
            EvidenceLocation::Bucket { .. } => outbox.to_owned(),
        };
        make_private(&folder).map_err(EvidenceError::file(&folder))?;
        // Says at the start, and not at the first failure of a miner, that the folder cannot be written to.
        drop(tempfile::Builder::new().prefix(SPOOL_PREFIX).tempfile_in(&folder).map_err(EvidenceError::file(&folder))?);
        remove_abandoned(&folder).map_err(EvidenceError::file(&folder))?;
        let objects: Arc<dyn ObjectStore> = match location {
            EvidenceLocation::Folder(folder) => Arc::new(LocalFileSystem::new_with_prefix(folder)?),
            EvidenceLocation::Bucket { bucket, .. } => {
                let retry = RetryConfig { max_retries: 5, retry_timeout: RETRY_LIMIT, ..RetryConfig::default() };
                let mut builder = AmazonS3Builder::new()
                    .with_client_options(ClientOptions::new().with_timeout(REQUEST_LIMIT))
                    .with_retry(retry);
                for (name, value) in variables.filter(|(name, _)| name.starts_with("AWS_")) {
                    if let Ok(key) = name.to_ascii_lowercase().parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                // Last: the bucket is the location's, and overrides the environment's.
                Arc::new(builder.with_bucket_name(bucket).build()?)
            }
        };
        Ok(Self { location: location.clone(), objects, folder, room: Arc::default(), refusals: Arc::default() })
    }

    pub const fn location(&self) -> &EvidenceLocation {
        &self.location
    }

    /// Sets the limit of size that holds as evidence is kept; `None`: none.
    pub fn limit(&self, max_bytes: Option<u64>) {
        self.room.limit(max_bytes);
    }

    /// Waits until there was no room for something.
    pub async fn pressed(&self) {
        self.room.pressed.notified().await;
    }

    /// How often there was no room.
    pub fn refused(&self) -> u64 {
        self.room.refused()
    }

    /// Notes evidence that could not be written.
    pub fn note_lost(&self) {
        self.room.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Count of objects that could not be written.
    pub fn lost(&self) -> u64 {
        self.room.lost.load(Ordering::Relaxed)
    }

    /// Begins an object: a temporary file. Blocks on the disk.
    pub fn spool(&self) -> Result<Spool, EvidenceError> {
        Spool::create(&self.folder, self.room.clone())
    }

    /// Keeps an object: it survives a crash from here on. Keeping the same bytes again changes nothing. It is a
    /// stranger's where its miner never passed.
    ///
    /// # Errors
    /// [`EvidenceError::NoRoom`] where the limits leave none, [`EvidenceError::File`] for the disk,
    /// [`EvidenceError::OutboxFull`] when a bucket has not taken anything for long.
    pub async fn keep(&self, spooled: SpooledObject, is_stranger: bool) -> Result<StoredObject, EvidenceError> {
        let store = self.clone();
        spawn_blocking(move || store.keep_blocking(spooled, is_stranger)).await.map_err(lost_thread(&self.folder))?
    }

    /// [`EvidenceStore::keep`] on a thread that may block.
    pub fn keep_blocking(&self, spooled: SpooledObject, is_stranger: bool) -> Result<StoredObject, EvidenceError> {
        let SpooledObject { digest, bytes, stored_bytes, file } = spooled;
        self.room.take(stored_bytes, is_stranger)?;
        if self.has_outbox() && self.backlog()?.bytes + stored_bytes > MAX_OUTBOX_BYTES {
            return Err(EvidenceError::OutboxFull);
        }
        let path = self.folder.join(file_name(&digest));
        file.persist(&path).map_err(|error| EvidenceError::File { path: path.clone(), source: error.error })?;
        // The name is on disk with the folder. A file system without that has nothing to say.
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(EvidenceError::file(&self.folder))?;
        Ok(StoredObject { digest, bytes, stored_bytes })
    }

    /// Uploads the objects that wait for the bucket, the oldest first; nothing for a folder. An object that is unreadable
    /// here, or whose bytes do not hash to its name, holds up no other. One that the bucket did not take comes last the next
    /// time; where the bucket takes others again and again, it is not offered until the next start, and stays readable here.
    ///
    /// # Errors
    /// [`EvidenceError`] for the first object that was not taken: it goes on waiting, as do those after one that the
    /// bucket does not take.
    pub async fn deliver(&self) -> Result<UploadTotals, EvidenceError> {
        let mut delivered = UploadTotals::default();
        let store = self.clone();
        let mut waiting = spawn_blocking(move || store.waiting()).await.map_err(lost_thread(&self.folder))??;
        self.refusals.sort(&mut waiting);
        let mut first_error = None;
        for (digest, bytes) in waiting {
            let path = self.folder.join(file_name(&digest));
            let uploaded = self.upload(&digest, bytes).await;
            match uploaded.and_then(|()| fs::remove_file(&path).map_err(EvidenceError::file(&path))) {
                Ok(()) => {
                    delivered.objects += 1;
                    delivered.bytes += bytes;
                    self.refusals.taken();
                }
                Err(error @ EvidenceError::Store(_)) => {
                    if self.refusals.refused(digest) {
                        let file = path.display();
                        tracing::error!(%file, %error, "the bucket takes other evidence and not this: it stays here");
                    }
                    return Err(error);
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        first_error.map_or(Ok(delivered), Err)
    }

    /// Opens an object: reads it whole into a temporary file and holds it against its name first.
    ///
    /// # Errors
    /// [`EvidenceError::Missing`], [`EvidenceError::Tampered`], [`EvidenceError::Oversized`], or the store's error.
    pub async fn read(&self, digest: &Digest) -> Result<EvidenceReader, EvidenceError> {
        EvidenceReader::new(self.stored(digest).await?).map_err(EvidenceError::file(&self.folder))
    }

    /// An object as it is stored, compressed, in a temporary file that only this process changes: its bytes were
    /// checked against its name.
    pub async fn stored(&self, digest: &Digest) -> Result<File, EvidenceError> {
        let (folder, expected) = (self.folder.clone(), *digest);
        let waits = self.folder.join(file_name(digest));
        if self.has_outbox() && waits.exists() {
            let copy = move || copy_of(&folder, expected, File::open(&waits).map_err(EvidenceError::file(&waits))?);
            spawn_blocking(copy).await.map_err(lost_thread(&self.folder))?
        } else {
            self.fetch(digest).await
        }
    }

    /// Every object of the folder or bucket. Those that wait for the bucket are not among them.
    pub async fn list(&self) -> Result<Vec<ObjectEntry>, EvidenceError> {
        let prefix = self.prefix();
        let mut listed = self.objects.list(prefix.as_ref());
        let mut objects = Vec::new();
        while let Some(meta) = listed.next().await {
            let meta = meta?;
            let Some(digest) = meta.location.filename().and_then(digest_of) else { continue };
            objects.push(ObjectEntry { digest, bytes: meta.size, modified: meta.last_modified.into() });
        }
        Ok(objects)
    }

    /// Removes an object; one that is not there is removed already.
    pub async fn remove(&self, digest: &Digest) -> Result<(), EvidenceError> {
        match self.objects.delete(&self.object_path(digest)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it is a bucket. Its objects wait in the outbox.
    const fn has_outbox(&self) -> bool {
        matches!(self.location, EvidenceLocation::Bucket { .. })
    }

    fn prefix(&self) -> Option<ObjectPath> {
        match &self.location {
            EvidenceLocation::Bucket { prefix, .. } if !prefix.is_empty() => Some(ObjectPath::from(prefix.as_str())),
            _ => None,
        }
    }

    fn object_path(&self, digest: &Digest) -> ObjectPath {
        self.prefix().unwrap_or_default().join(file_name(digest))
    }

    /// How much waits for the bucket; nothing does where the store is a folder. Reads the outbox.
    ///
    /// # Errors
    /// [`EvidenceError::File`]: the outbox cannot be read.
    pub fn backlog(&self) -> Result<Backlog, EvidenceError> {
        let waiting = self.waiting()?;
        Ok(Backlog { objects: waiting.len(), bytes: waiting.iter().map(|(_, bytes)| bytes).sum() })
    }

    /// The objects that wait for the bucket, the oldest first, with their bytes; nothing for a folder. Reads the outbox.
    pub(crate) fn waiting(&self) -> Result<Vec<(Digest, u64)>, EvidenceError> {
        if !self.has_outbox() {
            return Ok(Vec::new());
        }
        let list = || {
            let mut waiting = Vec::new();
            for entry in fs::read_dir(&self.folder)? {
                let entry = entry?;
                if let Some(digest) = entry.file_name().to_str().and_then(digest_of) {
                    let metadata = entry.metadata()?;
                    waiting.push((metadata.modified()?, digest, metadata.len()));
                }
            }
            waiting.sort_unstable();
            Ok(waiting.into_iter().map(|(_, digest, bytes)| (digest, bytes)).collect())
        };
        list().map_err(EvidenceError::file(&self.folder))
    }

    async fn upload(&self, digest: &Digest, bytes: u64) -> Result<(), EvidenceError> {
        let path = self.folder.join(file_name(digest));
        // A copy that was checked against its name, and that no other process can change.
        let mut file = self.stored(digest).await?;
        let to = self.object_path(digest);
        if bytes <= PART_BYTES as u64 {
            let (_, part) = read_part(file).await.map_err(EvidenceError::file(&path))?;
            self.objects.put(&to, PutPayload::from_bytes(part)).await?;
            return Ok(());
        }
        let (mut upload, mut parts) = (self.objects.put_multipart(&to).await?, JoinSet::new());
        let uploaded = async {
            loop {
                let (rest, part) = read_part(file).await.map_err(EvidenceError::file(&path))?;
                let most = if part.is_empty() { 0 } else { MAX_PARTS - 1 };
                while parts.len() > most
                    && let Some(ended) = parts.join_next().await
                {
                    ended.map_err(lost_thread(&self.folder))??;
                }
                if part.is_empty() {
                    return upload.complete().await.map(drop).map_err(EvidenceError::from);
                }
                parts.spawn(upload.put_part(part.into()));
                file = rest;
            }
        }
        .await;
        if uploaded.is_err() {
            parts.shutdown().await;
            // Without this the bucket keeps the parts.
            let _ = upload.abort().await;
        }
        uploaded
    }

    /// An object's bytes in a temporary file, once they have hashed to its name.
    async fn fetch(&self, digest: &Digest) -> Result<File, EvidenceError> {
        let got = match self.objects.get(&self.object_path(digest)).await {
            Ok(got) if got.meta.size > MAX_STORED_BYTES => return Err(EvidenceError::Oversized(*digest)),
            Ok(got) => got,
            Err(object_store::Error::NotFound { .. }) => return Err(EvidenceError::Missing(*digest)),
            Err(error) => return Err(error.into()),
        };
        let mut copy = Copy::begin(&self.folder)?;
        let mut parts = got.into_stream();
        while let Some(part) = parts.next().await {
            let part = part?;
            let add = move || copy.add(&part).map(|()| copy);
            copy = spawn_blocking(add)
                .await
                .map_err(lost_thread(&self.folder))?
                .map_err(EvidenceError::file(&self.folder))?;
            if copy.bytes > MAX_STORED_BYTES {
                return Err(EvidenceError::Oversized(*digest));
            }
        }
        copy.finish(*digest)?.map_err(EvidenceError::file(&self.folder))
    }
}

/// A copy of an object that is hashed as it is made. The file has no name, so no other process changes it.
struct Copy {
    file: File,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Copy {
    fn begin(folder: &Path) -> Result<Self, EvidenceError> {
        let file = tempfile::tempfile_in(folder).map_err(EvidenceError::file(folder))?;
        Ok(Self { file, hasher: blake3::Hasher::new(), bytes: 0 })
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// The file, from its beginning.
    fn finish(mut self, expected: Digest) -> Result<io::Result<File>, EvidenceError> {
        let found = Digest(*self.hasher.finalize().as_bytes());
        if found != expected {
            return Err(EvidenceError::Tampered { expected, found });
        }
        Ok(self.file.rewind().map(|()| self.file))
    }
}

/// A copy of a file of this machine, held against its name.
fn copy_of(folder: &Path, expected: Digest, mut from: File) -> Result<File, EvidenceError> {
    let mut copy = Copy::begin(folder)?;
    let mut part = vec![0; 1 << 16];
    loop {
        match from.read(&mut part).map_err(EvidenceError::file(folder))? {
            0 => break,
            read => copy.add(&part[..read]).map_err(EvidenceError::file(folder))?,
        }
        if copy.bytes > MAX_STORED_BYTES {
            return Err(EvidenceError::Oversized(expected));
        }
    }
    copy.finish(expected)?.map_err(EvidenceError::file(folder))
}

/// Up to [`PART_BYTES`] more of a file.
async fn read_part(mut file: File) -> io::Result<(File, Bytes)> {
    let read = move || {
        let mut part = Vec::new();
        Read::by_ref(&mut file).take(PART_BYTES as u64).read_to_end(&mut part)?;
        Ok((file, Bytes::from(part)))
    };
    spawn_blocking(read).await.map_err(io::Error::other)?
}

fn file_name(digest: &Digest) -> String {
    format!("{digest}{SUFFIX}")
}

fn digest_of(file_name: &str) -> Option<Digest> {
    file_name.strip_suffix(SUFFIX)?.parse().ok()
}

/// Makes a folder that only its owner reads: evidence names hosts and addresses.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Removes the temporary files of programs that were killed.
fn remove_abandoned(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_temporary = entry.file_name().to_str().is_some_and(|name| name.starts_with(SPOOL_PREFIX));
        // One that went meanwhile was another program's.
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        if is_temporary && age().is_some_and(|age| age > ABANDONED) {
            tracing::warn!(file = %entry.path().display(), "removing evidence that was never finished");
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn lost_thread(folder: &Path) -> impl FnOnce(tokio::task::JoinError) -> EvidenceError + use<> {
    let folder = folder.to_owned();
    move |error| EvidenceError::File { path: folder, source: io::Error::other(error) }
}
