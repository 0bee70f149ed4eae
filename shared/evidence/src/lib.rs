//! Evidence of challenges: compressed, addressed by content, in a folder or a bucket.

#![forbid(unsafe_code)]
