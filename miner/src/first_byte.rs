//! The first byte that a server answers plaintext with: it distinguishes servers that speak another protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::io::AsyncRead;
use tokio_util::io::InspectReader;

/// A byte that came; above it the bit that says so.
const CAME: u16 = 0x100;

/// The first byte that came on a connection.
#[derive(Debug, Clone, Default)]
pub struct FirstByte(Arc<AtomicU16>);

impl FirstByte {
    /// Notes the first byte of a stream.
    pub fn watch<S: AsyncRead>(&self, stream: S) -> InspectReader<S, impl FnMut(&[u8]) + Send + use<S>> {
        let first = self.clone();
        InspectReader::new(stream, move |read: &[u8]| read.first().into_iter().for_each(|byte| first.note(*byte)))
    }

    /// The byte, once one came.
    fn get(&self) -> Option<u8> {
        let noted = self.0.load(Ordering::Relaxed);
        (noted & CAME != 0).then_some((noted & 0xff) as u8)
    }

    fn note(&self, byte: u8) {
        if self.get().is_none() {
            self.0.store(CAME | u16::from(byte), Ordering::Relaxed);
        }
    }

    /// Why plaintext to a server may have failed; `is_remote`: it is on another machine.
    pub fn advice(&self, is_remote: bool) -> Option<&'static str> {
        match self.get() {
            // A TLS alert.
            Some(21) => Some(
                "the server speaks TLS, and plaintext was sent: dial the address that `assay-validator address` prints",
            ),
            Some(b'H') => Some("the server speaks HTTP/1: it is no validator"),
            None if is_remote => Some(
                "the server closed a plaintext connection without an answer: a validator takes plaintext from its own \
                 machine only; dial the address that `assay-validator address` prints there",
            ),
            Some(_) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn advice(answer: &[u8], is_remote: bool) -> Option<&'static str> {
        let first = FirstByte::default();
        let mut heard = Vec::new();
        first.watch(answer).read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, answer);
        first.advice(is_remote)
    }

    #[tokio::test]
    async fn what_else_a_server_speaks_is_told() {
        for is_remote in [false, true] {
            assert!(advice(&[21, 3, 3, 0, 2, 2, 40], is_remote).await.unwrap().contains("speaks TLS"));
            assert!(advice(b"HTTP/1.1 400 Bad Request", is_remote).await.unwrap().contains("no validator"));
            // The SETTINGS of HTTP/2.
            assert_eq!(advice(&[0, 0, 18, 4, 0], is_remote).await, None);
        }
        assert!(advice(b"", true).await.unwrap().contains("from its own machine only"));
        assert_eq!(advice(b"", false).await, None, "this machine's validator has ended");
    }
}
