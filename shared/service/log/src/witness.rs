//! A witness (C2SP `tlog-witness`): it cosigns a checkpoint that goes on from the last one that it cosigned.

use std::path::{Path, PathBuf};

use assay_protocol::identity::Identity;
use hyper::Method;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use crate::checkpoint::{Checkpoint, SignedCheckpoint, decimal};
use crate::error::LogError;
use crate::file;
use crate::hash::Hash;
use crate::http::{self, Answer};
use crate::note::{KeyKind, MAX_NOTE_BYTES, Note, NoteKey};
use crate::proof::{MAX_PROOF_HASHES, is_consistent};
use crate::submit::{ADD_CHECKPOINT, checkpoint_path};

/// Before the witness's key in its name.
const NAME: &str = "assay-witness/";
/// Bytes of the largest request: a note and a proof.
const MAX_REQUEST_BYTES: usize = MAX_NOTE_BYTES + (MAX_PROOF_HASHES + 2) * 64;
const TEXT: &str = "text/plain; charset=utf-8";
/// The type of an answer with the size of the last cosigned checkpoint.
const SIZE: &str = "text/x.tlog.size";

/// A witness of some logs, with a file for the last checkpoint of each.
#[derive(Debug)]
pub struct Witness {
    folder: PathBuf,
    secret: Identity,
    key: NoteKey,
    logs: Vec<NoteKey>,
    /// Held from the look at the last checkpoint until the new one is on disk.
    writing: Mutex<()>,
}

impl Witness {
    /// A witness with a key for this alone.
    pub fn new(folder: &Path, secret: Identity, logs: Vec<NoteKey>) -> Self {
        let name = format!("{NAME}{}", secret.public_key());
        let key = NoteKey::new(name, KeyKind::Cosignature, secret.public_key());
        let key = key.unwrap_or_else(|_| unreachable!("a name of hex digits"));
        Self { folder: folder.to_owned(), secret, key, logs, writing: Mutex::new(()) }
    }

    /// The key that checks its cosignatures.
    pub const fn key(&self) -> &NoteKey {
        &self.key
    }

    /// Serves logs and monitors for ever; `now` gives the seconds since 1970.
    pub async fn serve(self, listener: TcpListener, now: fn() -> u64) {
        let answer = move |method: &Method, path: &str, body: &[u8]| match (method, path.trim_start_matches('/')) {
            (&Method::POST, ADD_CHECKPOINT) => self.add_checkpoint(body, now()),
            (&Method::GET, path) => self.checkpoint(path),
            _ => refused(405, "POST add-checkpoint, or GET HASH/checkpoint"),
        };
        http::serve(listener, MAX_REQUEST_BYTES, answer).await;
    }

    /// Cosigns the checkpoint of a request, once it is on disk.
    pub fn add_checkpoint(&self, body: &[u8], now_s: u64) -> Answer {
        self.cosigned(body, now_s).unwrap_or_else(|answer| answer)
    }

    fn cosigned(&self, body: &[u8], now_s: u64) -> Result<Answer, Answer> {
        let malformed = |error: LogError| refused(400, error.to_string());
        let AddCheckpoint { old, proof, note } = AddCheckpoint::parse(body).map_err(malformed)?;
        let parsed = Note::parse(note).map_err(malformed)?;
        let checkpoint = Checkpoint::parse(parsed.text).map_err(malformed)?;
        let log = self.logs.iter().find(|log| log.name() == checkpoint.origin);
        let log = log.ok_or_else(|| refused(404, "the origin is not known"))?;
        let signature = parsed.signature(log).map_err(|error| refused(403, error.to_string()))?;
        let signature = signature.ok_or_else(|| refused(403, "the log did not sign the checkpoint"))?;
        if old > checkpoint.size {
            return Err(refused(400, "the old size is larger than the checkpoint's"));
        }
        let _writing = self.writing.lock();
        let (file, failed) = (self.file(log.name()), |error: LogError| refused(500, error.to_string()));
        let last = self.last(&file, log).map_err(failed)?;
        let (last_size, last_root) = last.map_or((0, Hash::empty()), |last| (last.size, last.root));
        if last_size != old {
            return Err(Answer { status: 409, content_type: SIZE, body: format!("{last_size}\n").into() });
        }
        let is_new = is_consistent((old, &last_root), (checkpoint.size, &checkpoint.root), &proof);
        if !is_new || (checkpoint.size == 0 && checkpoint.root != Hash::empty()) {
            return Err(refused(422, "the checkpoint does not go on from the last one"));
        }
        let line = self.key.sign(&self.secret, parsed.text, now_s);
        file::replace(&file, format!("{}\n{signature}{line}", parsed.text).as_bytes()).map_err(failed)?;
        Ok(Answer { status: 200, content_type: TEXT, body: line.into() })
    }

    /// The last checkpoint of the log whose origin has this hash: `HASH/checkpoint`.
    pub fn checkpoint(&self, path: &str) -> Answer {
        let known = self.logs.iter().map(NoteKey::name).find(|name| path == checkpoint_path(name));
        let read = known.map(|name| file::read(&self.file(name), MAX_NOTE_BYTES as u64));
        match read {
            Some(Ok(Some(body))) => Answer { status: 200, content_type: TEXT, body },
            Some(Err(error)) => refused(500, error.to_string()),
            None | Some(Ok(None)) => refused(404, "no checkpoint of such a log was cosigned"),
        }
    }

    fn file(&self, origin: &str) -> PathBuf {
        self.folder.join(checkpoint_path(origin))
    }

    /// The last checkpoint that was cosigned. A file that holds another thing is an error: to begin anew would be to
    /// forget.
    fn last(&self, file: &Path, log: &NoteKey) -> Result<Option<Checkpoint>, LogError> {
        let Some(note) = file::read(file, MAX_NOTE_BYTES as u64)? else { return Ok(None) };
        let note = String::from_utf8(note).map_err(|_| LogError::malformed("the last checkpoint is not UTF-8"))?;
        let own = std::slice::from_ref(&self.key);
        let signed = SignedCheckpoint::open(&note, log, own)?;
        if signed.cosigned.is_empty() {
            return Err(LogError::inconsistent("the last checkpoint was not cosigned here"));
        }
        Ok(Some(signed.checkpoint))
    }
}

fn refused(status: u16, why: impl Into<String>) -> Answer {
    Answer { status, content_type: TEXT, body: (why.into() + "\n").into() }
}

/// The body of a request.
struct AddCheckpoint<'a> {
    old: u64,
    proof: Vec<Hash>,
    note: &'a str,
}

impl<'a> AddCheckpoint<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, LogError> {
        let wrong = || LogError::malformed("expected `old SIZE`, hashes, an empty line and a checkpoint");
        let text = str::from_utf8(body).map_err(|_| wrong())?;
        let (head, note) = text.split_once("\n\n").ok_or_else(wrong)?;
        let mut lines = head.split('\n');
        let old = lines.next().and_then(|line| decimal(line.strip_prefix("old ")?)).ok_or_else(wrong)?;
        let proof: Vec<Hash> = lines.take(MAX_PROOF_HASHES + 1).map(str::parse).collect::<Result<_, _>>()?;
        if proof.len() > MAX_PROOF_HASHES { Err(wrong()) } else { Ok(Self { old, proof, note }) }
    }
}
