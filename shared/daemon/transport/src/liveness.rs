//! Dead links, detected by TCP on both sides: within seconds, independent of the queues.
//!
//! HTTP/2 keepalives and pings of a session wait behind openings on a slow link. TCP does not: its probes and its
//! acknowledgements are the kernel's. A link that is gone for some seconds, or slow, breaks nothing.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// For how long nothing that was sent may be acknowledged.
pub const UNACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(15);
/// Silence after which a probe goes out, and then between probes. Mappings of NAT last longer.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Probes without an answer after which the connection is gone.
pub const PROBES: u32 = 3;

/// Has the system notice when the other side of a connection is gone.
///
/// # Errors
/// The system's error: the connection works all the same.
pub fn watch(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(PROBE_INTERVAL).with_interval(PROBE_INTERVAL).with_retries(PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_LIMIT))?;
    Ok(())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_sides_notice_a_link_that_is_gone() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (dialled, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), async { listener.accept().await });
        for stream in [dialled.unwrap(), accepted.unwrap().0] {
            watch(&stream).unwrap();
            let socket = SockRef::from(&stream);
            assert!(socket.keepalive().unwrap());
            assert_eq!(socket.tcp_keepalive_time().unwrap(), PROBE_INTERVAL);
            assert_eq!(socket.tcp_keepalive_interval().unwrap(), PROBE_INTERVAL);
            assert_eq!(socket.tcp_keepalive_retries().unwrap(), PROBES);
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED_LIMIT));
        }
    }
}
