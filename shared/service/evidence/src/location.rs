//! Where evidence is kept.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A folder, or an S3 bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvidenceLocation {
    /// A folder of this machine, or of a file server.
    Folder(PathBuf),
    /// Objects of a bucket. Region, endpoint and credentials come from the environment: `AWS_REGION`, `AWS_ENDPOINT`,
    /// `AWS_ACCESS_KEY_ID` and the others of the AWS tools.
    Bucket {
        bucket: String,
        /// The prefix of the objects' names; empty, or parts with `/` between them.
        prefix: String,
    },
}

/// A text names no place for evidence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no place for evidence: write a folder, or s3://bucket/prefix")]
pub struct NotALocation(String);

impl FromStr for EvidenceLocation {
    type Err = NotALocation;

    fn from_str(text: &str) -> Result<Self, NotALocation> {
        let wrong = || NotALocation(text.chars().take(200).collect());
        let Some(rest) = text.strip_prefix("s3://") else {
            // `s3:/bucket` too: it is hardly meant as a folder.
            let is_url = text.contains("://") || text.starts_with("s3:");
            return if text.is_empty() || is_url { Err(wrong()) } else { Ok(Self::Folder(text.into())) };
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./=".contains(&b));
        let is_path = prefix.is_empty() || prefix.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if bucket.is_empty() || !is_plain(bucket) || !is_plain(prefix) || !is_path {
            return Err(wrong());
        }
        Ok(Self::Bucket { bucket: bucket.into(), prefix: prefix.into() })
    }
}

impl fmt::Display for EvidenceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Bucket { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_buckets_are_told_apart() {
        let bucket =
            |bucket: &str, prefix: &str| EvidenceLocation::Bucket { bucket: bucket.into(), prefix: prefix.into() };
        for (text, location) in [
            ("evidence", EvidenceLocation::Folder("evidence".into())),
            ("/srv/a b", EvidenceLocation::Folder("/srv/a b".into())),
            ("s3://fleet", bucket("fleet", "")),
            ("s3://fleet/", bucket("fleet", "")),
            ("s3://fleet/a/b/", bucket("fleet", "a/b")),
        ] {
            assert_eq!(text.parse(), Ok(location), "{text}");
        }
        for text in [
            "",
            "s3:/x",
            "s3:x",
            "s3://",
            "s3:///a",
            "s3://b/../a",
            "s3://b//a",
            "s3://b/a?x",
            "gs://b",
            "s3://us er@b/a",
        ] {
            assert!(text.parse::<EvidenceLocation>().is_err(), "{text}");
        }
        assert_eq!(bucket("fleet", "a/b").to_string(), "s3://fleet/a/b");
    }
}
