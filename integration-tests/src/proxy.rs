//! A proxy between a miner and a validator, whose connections a test can cut on the miner's side alone.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

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
