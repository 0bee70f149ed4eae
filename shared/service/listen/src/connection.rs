//! A miner's connection: TLS or plaintext, by its first byte, within the bounds of its peer.
//!
//! A TLS handshake blocks no other work: it proceeds in the connection's own task, each time that HTTP/2 would read or
//! write. So a handshake that never ends has the bounds of every connection without a session.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use assay_protocol::channel::Channel;
use assay_transport::server::{Accept, ServerTls, TlsStream, channel_of};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use tonic::transport::server::Connected;

use crate::intake::{Intake, Pause};
use crate::peer::Peer;
use crate::traffic::{HandshakeResult, Traffic};

/// The first byte of a TLS connection: a handshake record. HTTP/2 begins with a letter.
pub const TLS_HANDSHAKE: u8 = 22;
/// Interval of logging refused plaintext connections.
const REFUSED_INTERVAL: Duration = Duration::from_secs(60);

/// Rules for accepting connections.
pub struct Admittance {
    pub tls: ServerTls,
    pub plaintext: PlaintextRule,
    traffic: Traffic,
    refused: Mutex<PlaintextRefusals>,
}

/// Plaintext peers accepted beside this machine's own miners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlaintextRule {
    /// Whether the operator allows plaintext from every machine.
    pub from_anywhere: bool,
    /// Whether a proxy of the operator terminates TLS, and forwards plaintext.
    pub from_proxy: bool,
}

/// Count of refused plaintext connections, with the time of the last log line.
#[derive(Debug, Default)]
struct PlaintextRefusals {
    connections: u64,
    said: Option<Instant>,
}

impl PlaintextRule {
    /// Channel of a plaintext connection from an address; `None`: refused.
    pub fn channel(self, from: IpAddr) -> Option<Channel> {
        if self.from_proxy {
            return Some(Channel::Proxied);
        }
        (self.from_anywhere || from.to_canonical().is_loopback()).then_some(Channel::Plaintext)
    }
}

impl Admittance {
    pub fn new(tls: ServerTls, plaintext: PlaintextRule, traffic: Traffic) -> Self {
        Self { tls, plaintext, traffic, refused: Mutex::default() }
    }

    /// Counts a refused plaintext connection, and logs the count at intervals.
    fn refuse(&self, peer: &Peer) -> io::Error {
        self.traffic.handshake(HandshakeResult::PlaintextRefused);
        let due = self.refused.lock().due(Instant::now());
        if let Some(connections) = due {
            tracing::warn!(
                address = %peer.address,
                connections,
                "a plaintext connection from another machine is refused: have the miner dial the address that \
                 `assay-validator address` prints; where a proxy of yours ends TLS, set tls_proxy here and on its miners"
            );
        }
        io::Error::new(io::ErrorKind::PermissionDenied, "plaintext from another machine")
    }
}

impl PlaintextRefusals {
    /// Counts a connection; returns the count since the last log line when another is due.
    fn due(&mut self, now: Instant) -> Option<u64> {
        self.connections += 1;
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < REFUSED_INTERVAL) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.connections))
    }
}

/// State of a connection's transport.
enum Transport {
    /// No byte was received yet.
    Silent(TcpStream),
    /// A TLS handshake is under way.
    Handshake(Box<Accept<TcpStream>>),
    Tls(Box<TlsStream<TcpStream>>),
    Plaintext(TcpStream),
    /// It failed before its first message.
    Failed,
}

/// A connection. Reading and writing fail when its peer exceeds its bounds, since a peer that does not read keeps the
/// server from reading too.
pub struct Connection {
    transport: Transport,
    admittance: std::sync::Arc<Admittance>,
    peer: Peer,
    intake: Intake,
    timer: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

/// A stream that carries HTTP/2.
trait Http2Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Http2Stream for S {}

impl Connection {
    /// Wraps a connection that was just accepted.
    pub fn new(
        stream: TcpStream,
        admittance: std::sync::Arc<Admittance>,
        peer: Peer,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        // The peer sets the timer before it waits for it.
        let timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        let intake = Intake::new(std::time::Instant::now());
        Self { transport: Transport::Silent(stream), admittance, peer, intake, timer, _permit: permit }
    }

    fn note_written(&self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        if let Ok(bytes) = &written {
            self.admittance.traffic.sent_bytes.inc_by(*bytes as u64);
        }
        Poll::Ready(written)
    }

    /// Waits while the peer exceeds its rate.
    fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.peer.pause(&mut self.intake) {
            Pause::None => Poll::Ready(()),
            Pause::For(pause) => {
                self.timer.as_mut().reset(Instant::now() + pause);
                self.timer.as_mut().poll(cx)
            }
            // The end of the connection wakes the task, and so does a session.
            Pause::UntilSession => Poll::Pending,
        }
    }

    /// Returns the stream once the connection is within its bounds and its handshake is done.
    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut (dyn Http2Stream + Send)>>> {
        if let Poll::Ready(error) = self.peer.poll_closed(self.timer.as_mut(), cx) {
            return Poll::Ready(Err(error));
        }
        if !matches!(self.transport, Transport::Tls(_) | Transport::Plaintext(_)) {
            ready!(self.poll_handshake(cx))?;
        }
        Poll::Ready(match &mut self.transport {
            Transport::Tls(stream) => Ok(Pin::new(&mut **stream)),
            Transport::Plaintext(stream) => Ok(Pin::new(stream)),
            Transport::Silent(_) | Transport::Handshake(_) | Transport::Failed => {
                Err(io::Error::new(io::ErrorKind::NotConnected, "the connection failed before"))
            }
        })
    }

    /// Detects the protocol; with TLS, completes the handshake.
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Transport::Silent(stream) = &self.transport {
            let first = ready!(poll_first_byte(stream, cx))?;
            let Transport::Silent(stream) = std::mem::replace(&mut self.transport, Transport::Failed) else {
                return Poll::Ready(Ok(()));
            };
            if first != TLS_HANDSHAKE {
                let channel = self.admittance.plaintext.channel(self.peer.address.ip());
                let Some(channel) = channel else { return Poll::Ready(Err(self.admittance.refuse(&self.peer))) };
                self.peer.set_channel(channel);
                self.admittance.traffic.handshake(HandshakeResult::Plaintext);
                self.transport = Transport::Plaintext(stream);
                return Poll::Ready(Ok(()));
            }
            self.transport = Transport::Handshake(Box::new(self.admittance.tls.accept(stream)));
        }
        let Transport::Handshake(handshake) = &mut self.transport else { return Poll::Ready(Ok(())) };
        let done = ready!(Pin::new(&mut **handshake).poll(cx));
        self.transport = Transport::Failed;
        self.admittance.traffic.handshake(if done.is_ok() { HandshakeResult::Tls } else { HandshakeResult::TlsFailed });
        let stream = done.inspect_err(|error| {
            tracing::debug!(address = %self.peer.address, %error, "a TLS handshake failed");
        })?;
        let channel = channel_of(stream.get_ref().1).map_err(io::Error::other)?;
        self.peer.set_channel(channel);
        self.transport = Transport::Tls(Box::new(stream));
        Poll::Ready(Ok(()))
    }
}

/// Peeks at the first byte, which stays to be read.
fn poll_first_byte(stream: &TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<u8>> {
    let mut byte = [0];
    let count = ready!(stream.poll_peek(cx, &mut ReadBuf::new(&mut byte)))?;
    Poll::Ready(if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(byte[0]) })
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.peer.left();
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (this, before) = (&mut *self, buf.filled().len());
        ready!(this.poll_stream(cx))?;
        ready!(this.poll_pause(cx));
        ready!(ready!(this.poll_stream(cx))?.poll_read(cx, buf))?;
        let read = &buf.filled()[before..];
        this.admittance.traffic.received_bytes.inc_by(read.len() as u64);
        Poll::Ready(this.peer.count(&mut this.intake, read))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(ready!(self.poll_stream(cx))?.poll_write(cx, buf));
        self.note_written(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_stream(cx))?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Silent(stream) | Transport::Plaintext(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
            Transport::Handshake(handshake) => match handshake.get_mut() {
                Some(stream) => Pin::new(stream).poll_shutdown(cx),
                None => Poll::Ready(Ok(())),
            },
            Transport::Failed => Poll::Ready(Ok(())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(ready!(self.poll_stream(cx))?.poll_write_vectored(cx, bufs));
        self.note_written(written)
    }

    /// TCP and TLS both support vectored writes.
    fn is_write_vectored(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plaintext_is_for_this_machine_unless_the_operator_says_otherwise() {
        let channel = |rule: PlaintextRule, from: &str| rule.channel(from.parse().unwrap());
        let (strict, open) = (PlaintextRule::default(), PlaintextRule { from_anywhere: true, from_proxy: false });
        for from in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(channel(strict, from), Some(Channel::Plaintext), "{from}");
        }
        for from in ["10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", "fe80::1"] {
            assert_eq!(channel(strict, from), None, "{from}");
            assert_eq!(channel(open, from), Some(Channel::Plaintext), "{from}");
        }
        // Where a proxy terminates TLS, plaintext is its forwarded traffic, from any address.
        for from_anywhere in [false, true] {
            let rule = PlaintextRule { from_anywhere, from_proxy: true };
            assert_eq!(["127.0.0.1", "10.0.0.1"].map(|from| channel(rule, from)), [Some(Channel::Proxied); 2]);
        }
    }

    #[test]
    fn refused_connections_are_counted_and_told_once_a_minute() {
        let (mut refused, start) = (PlaintextRefusals::default(), Instant::now());
        let told: Vec<_> = (0..130_u32).filter_map(|s| refused.due(start + Duration::from_secs(1) * s)).collect();
        assert_eq!(told, [1, 60, 60]);
    }
}
