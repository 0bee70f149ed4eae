//! Something between a miner and a validator that ends TLS on the miner's side, and passes on what both say: a proxy of
//! the operators, or a man in the middle.

use std::net::SocketAddr;

use assay_protocol::identity::Identity;
use assay_transport::certificate::{Issued, own};
use assay_transport::client::secure;
use assay_transport::server::ServerTls;
use assay_transport::testing::CertificateFiles;
use assay_transport::trust::Trust;
use assay_work::PublicKey;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// How a relay reaches the validator.
#[derive(Debug, Clone, Copy)]
pub enum Upstream {
    /// By TLS, as a miner that was told the key does.
    Tls(PublicKey),
    /// In plaintext, as a proxy does that ends TLS.
    Plaintext,
}

/// Ends TLS. Dropped, its listener stays for as long as the test's runtime.
#[derive(Debug)]
pub struct Relay {
    /// Where it listens.
    pub address: SocketAddr,
}

impl Relay {
    /// Listens on a port that the system chooses, with a key of its own, and the certificate of an authority where it has
    /// one.
    ///
    /// # Panics
    /// When it cannot.
    pub async fn start(validator: SocketAddr, upstream: Upstream, files: Option<&CertificateFiles>) -> Self {
        let issued = files.map(|files| Issued::load(&files.certificate, &files.key).expect("a certificate"));
        let identity = Identity::from_seed(&[99; 32]);
        let tls = ServerTls::new(own(&identity, &[]).expect("a certificate"), issued).expect("TLS 1.3");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        tokio::spawn(async move {
            while let Ok((miner, _)) = listener.accept().await {
                // A connection that fails is the test's to see, on either side.
                tokio::spawn(pass_on(miner, tls.clone(), validator, upstream));
            }
        });
        Self { address }
    }
}

async fn pass_on(miner: TcpStream, tls: ServerTls, validator: SocketAddr, upstream: Upstream) -> Option<()> {
    let mut miner = tls.accept(miner).await.ok()?;
    let stream = TcpStream::connect(validator).await.ok()?;
    match upstream {
        Upstream::Tls(key) => {
            let secured = secure(stream, "127.0.0.1", &Trust::Key(key)).await.ok()?;
            join(&mut miner, secured.stream).await
        }
        Upstream::Plaintext => join(&mut miner, stream).await,
    }
}

async fn join<A, B>(miner: &mut A, mut validator: B) -> Option<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    copy_bidirectional(miner, &mut validator).await.ok().map(|_| ())
}
