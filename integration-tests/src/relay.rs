//! A relay between a miner and a validator that ends TLS on the miner's side, and passes the bytes of both on: a proxy
//! of the operators, or a man in the middle.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use assay_protocol::identity::Identity;
use assay_transport::certificate::{IssuedCertificate, own};
use assay_transport::client::secure;
use assay_transport::server::ServerTls;
use assay_transport::trust::Trust;
use assay_work::PublicKey;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};

use crate::authority::CertificateFiles;

/// How a relay reaches the validator.
#[derive(Debug, Clone, Copy)]
pub enum Upstream {
    /// By TLS, as a miner that knows the key does.
    Tls(PublicKey),
    /// In plaintext, as a proxy does that ends TLS.
    Plaintext,
}

/// Ends TLS. Dropped, its listener stays for as long as the test's runtime.
#[derive(Debug)]
pub struct Relay {
    pub address: SocketAddr,
    seen: Seen,
}

/// The miners' bytes, as they came out of TLS.
type Seen = Arc<Mutex<Vec<u8>>>;

impl Relay {
    /// Listens on a port that the system chooses, with a key of its own, and the certificate of an authority where it
    /// has one.
    pub async fn start(validator: SocketAddr, upstream: Upstream, files: Option<&CertificateFiles>) -> Self {
        let issued = files.map(|files| IssuedCertificate::load(&files.certificate, &files.key).expect("a certificate"));
        let identity = Identity::from_seed(&[99; 32]);
        let tls = ServerTls::new(own(&identity, &[]).expect("a certificate"), issued).expect("TLS 1.3");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let seen = Seen::default();
        let all = seen.clone();
        tokio::spawn(async move {
            while let Ok((miner, _)) = listener.accept().await {
                // A connection that fails is the test's to see, on either side.
                tokio::spawn(pass_on(miner, tls.clone(), validator, upstream, all.clone()));
            }
        });
        Self { address, seen }
    }

    /// Whether miners said these bytes.
    #[must_use]
    pub fn saw(&self, bytes: &[u8]) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.windows(bytes.len()).any(|part| part == bytes)
    }
}

async fn pass_on(
    miner: TcpStream,
    tls: ServerTls,
    validator: SocketAddr,
    upstream: Upstream,
    seen: Seen,
) -> Option<()> {
    let miner = tls.accept(miner).await.ok()?;
    let stream = TcpStream::connect(validator).await.ok()?;
    match upstream {
        Upstream::Tls(key) => {
            let secured = secure(stream, "127.0.0.1", &Trust::Key(key)).await.ok()?;
            join(miner, secured.stream, seen).await
        }
        Upstream::Plaintext => join(miner, stream, seen).await,
    }
}

async fn join<A, B>(miner: A, validator: B, seen: Seen) -> Option<()>
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let ((mut miner, mut to_miner), (mut validator, mut to_validator)) = (split(miner), split(validator));
    let up = async {
        let mut block = [0; 4096];
        loop {
            let count = miner.read(&mut block).await.ok().filter(|count| *count > 0)?;
            seen.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&block[..count]);
            to_validator.write_all(&block[..count]).await.ok()?;
        }
    };
    let down = async { copy(&mut validator, &mut to_miner).await.ok().map(|_| ()) };
    // Where one side ends, so does the other.
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
    }
}
