//! Bounds of stored evidence, and of its reading.

/// Bytes of one object before compression: eight times an audit of 8 GPUs, and the most that a reader decompresses.
pub const MAX_CONTENT_BYTES: u64 = 512 << 20;
/// log2 of the bytes that a compressor looks back over, and that a reader must keep: 1 MiB.
pub(crate) const WINDOW_LOG: u32 = 20;
/// Bytes that may wait for a bucket: some hundred failures of 8-GPU hosts.
pub const MAX_OUTBOX_BYTES: u64 = 16 << 30;
