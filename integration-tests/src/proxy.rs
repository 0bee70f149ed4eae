//! A proxy between a miner and a validator, whose connections a test can cut on the miner's side alone.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// How long what a miner says on a slow connection is on its way.
const SLOWNESS: Duration = Duration::from_secs(1);

/// Forwards connections to a validator. Dropped, it takes no more.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    cut: watch::Sender<u32>,
}

impl Proxy {
    /// Listens on a port that the system chooses.
    ///
    /// # Panics
    /// When it cannot.
    pub async fn start(validator: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let (cut, cuts) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((miner, _)) = listener.accept().await {
                tokio::spawn(forward(miner, validator, cuts.clone()));
            }
        });
        Self { address, cut }
    }

    /// As [`Proxy::start`], but for the first connection: what the miner says is long on its way, and the connection ends
    /// for the miner before its proof has come to the validator, where it still comes.
    ///
    /// # Panics
    /// When it cannot listen.
    pub async fn start_slow(validator: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let (cut, cuts) = watch::channel(0);
        tokio::spawn(async move {
            if let Ok((miner, _)) = listener.accept().await {
                tokio::spawn(forward_slowly(miner, validator));
            }
            while let Ok((miner, _)) = listener.accept().await {
                tokio::spawn(forward(miner, validator, cuts.clone()));
            }
        });
        Self { address, cut }
    }

    /// Ends every connection for the miner, and none for the validator, which is left with one that says nothing.
    pub fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}

async fn forward(mut miner: TcpStream, validator: SocketAddr, mut cuts: watch::Receiver<u32>) {
    let Ok(mut there) = TcpStream::connect(validator).await else { return };
    cuts.borrow_and_update();
    tokio::select! {
        _ = copy_bidirectional(&mut miner, &mut there) => {}
        _ = cuts.changed() => {
            drop(miner);
            // Until the test is over.
            std::future::pending::<()>().await;
        }
    }
}

/// Each message of the miner comes one [`SLOWNESS`] after it was sent, so that the answer to its first one finds it
/// halfway to the end of its connection.
async fn forward_slowly(miner: TcpStream, validator: SocketAddr) {
    let Ok(there) = TcpStream::connect(validator).await else { return };
    let (mut from_miner, mut to_miner) = miner.into_split();
    let (mut from_validator, mut to_validator) = there.into_split();
    let (late, mut due) = mpsc::unbounded_channel();
    let slow = tokio::spawn(async move {
        while let Some((at, bytes)) = due.recv().await {
            sleep_until(at).await;
            let bytes: Vec<u8> = bytes;
            if to_validator.write_all(&bytes).await.is_err() {
                return;
            }
        }
        // The validator is left with a connection that says nothing.
        std::future::pending::<()>().await;
    });
    let both = async {
        let there = async {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(bytes @ 1..) = from_miner.read(&mut buffer).await {
                let _ = late.send((Instant::now() + SLOWNESS, buffer[..bytes].to_vec()));
            }
        };
        tokio::join!(there, copy(&mut from_validator, &mut to_miner))
    };
    let _ = timeout(SLOWNESS * 3 / 2, both).await;
    drop((from_miner, to_miner, late));
    let _ = slow.await;
    sleep(SLOWNESS).await;
}
