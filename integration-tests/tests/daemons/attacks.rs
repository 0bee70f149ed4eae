//! Attacks over real sockets, in short: the validator's memory stays bounded, and an honest miner beside passes.
//! `scripts/attack` carries them out in full and measures more.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use assay_integration_tests::attack::watch::{attack, policy};
use assay_integration_tests::attack::{Attack, Scale};
use assay_integration_tests::dialled::Target;
use assay_integration_tests::miner::TestMiner;
use assay_protocol::identity::Identity;
use assay_transport::certificate::own;
use assay_transport::client::secure;
use assay_transport::server::ServerTls;
use assay_transport::trust::Trust;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// By how much an attack may make the validator's memory grow.
const MAX_GROWN_BYTES: u64 = 48 << 20;

/// Carries attacks out one after the other, each from an address of its own, without TLS and with it.
async fn holds_against(attacks: &[Attack]) {
    let (validator, miner) = TestMiner::with_validator(&policy(), 1, &[]).await;
    let ways = attacks.iter().flat_map(|attack| [(*attack, false), (*attack, true)]);
    for ((of, is_tls), host) in ways.filter(|(attack, is_tls)| attack.fits(*is_tls)).zip(2..) {
        let target = Target { address: validator.address, is_tls, from: [127, 0, 0, host] };
        let measured =
            attack(&validator, miner.key, of, target, Scale::SHORT).await.expect("the attack is carried out");
        println!("{of:?}, TLS {is_tls}: {measured:?}");
        assert!(measured.grown_bytes < MAX_GROWN_BYTES, "{of:?}, TLS {is_tls}: {measured:?}");
        assert!(measured.passed > 0 && measured.not_passed == 0, "{of:?}, TLS {is_tls}: {measured:?}");
        assert_eq!(measured.newcomers[0], measured.newcomers[1], "{of:?}, TLS {is_tls}: {measured:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_never_become_a_call() {
    use Attack::{Crowd, EndlessHandshake, Garbage, Handshakes, Reconnects, Silence};
    holds_against(&[Silence, Crowd, Reconnects, Handshakes, Garbage, EndlessHandshake]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_its_time() {
    use Attack::{EndlessHeaders, SlowBodies, SlowHeaders, SlowWindows};
    holds_against(&[SlowHeaders, EndlessHeaders, SlowBodies, SlowWindows]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_frames() {
    use Attack::{Pings, RapidReset, Settings, TinyData, WindowUpdates};
    holds_against(&[RapidReset, Pings, Settings, WindowUpdates, TinyData]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn miners_that_are_connected() {
    use Attack::{EndlessOpenings, HugeLists, NeverRead, PaddedMessages};
    holds_against(&[NeverRead, HugeLists, PaddedMessages, EndlessOpenings]).await;
}

/// The bytes that a miner reads of a server that it does not trust yet.
struct Counted(TcpStream, Arc<AtomicUsize>);

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.0).poll_read(cx, buf))?;
        self.1.fetch_add(buf.filled().len() - before, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A server with a chain of certificates of many MiB: a miner reads a part of it and gives up.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_certificates_without_end() {
    let identity = Identity::from_seed(&[5; 32]);
    let mut endless = own(&identity, &[]).expect("a certificate");
    let first = endless.cert[0].clone();
    endless.cert = vec![first; 20_000];
    let (tls, listener) =
        (ServerTls::new(endless, None).expect("TLS"), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(tls.accept(stream));
        }
    });
    for trust in [Trust::Key(identity.public_key()), Trust::FirstUse] {
        let read = Arc::new(AtomicUsize::new(0));
        let stream = Counted(TcpStream::connect(address).await.unwrap(), read.clone());
        let refused = secure(stream, "localhost", &trust).await.err().expect("no such chain is taken");
        let bytes = read.load(Ordering::Relaxed);
        println!("{refused}: after {bytes} bytes");
        assert!(bytes < 256 << 10, "{bytes} bytes were read: {refused}");
    }
}
