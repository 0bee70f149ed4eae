//! A proxy between a miner and a validator, whose connections a test can cut on the miner's side alone, or slow down.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, copy_bidirectional};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// The delay of a miner's bytes on a slow connection: half of it is far longer than a miner takes to connect again.
const SLOWNESS: Duration = Duration::from_secs(4);

/// Bytes that a slow link takes at once, and that wait in front of it.
const LINK_BYTES: u32 = 8 << 10;

/// A link: the rate from the miner to the validator, and the delay of each byte in either direction.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// The rate of the miner's bytes.
    pub bytes_per_s: u64,
    /// The time on the way.
    pub delay: Duration,
}

/// Forwards connections to a validator. Dropped, it takes no more.
#[derive(Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    cut: watch::Sender<u32>,
}

impl Proxy {
    /// Listens on a port that the system chooses.
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

    /// As [`Proxy::start`], over a slow link.
    pub async fn start_on_a_link(validator: SocketAddr, link: Link) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        // Little waits in the system's own buffers.
        socket.set_recv_buffer_size(LINK_BYTES).expect("a small buffer");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let listener = socket.listen(16).expect("it listens");
        let address = listener.local_addr().expect("it has an address");
        let (cut, cuts) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((miner, _)) = listener.accept().await {
                tokio::spawn(forward_on_a_link(miner, validator, link, cuts.clone()));
            }
        });
        Self { address, cut }
    }

    /// As [`Proxy::start`], but for the first connection: the miner's bytes are long on their way, and the connection
    /// ends for the miner before its proof has come to the validator, where it still comes.
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
        // A cut counts before a connection that ends after it: the validator is not to see that end.
        biased;
        _ = cuts.changed() => {
            drop(miner);
            // Until the test is over.
            std::future::pending::<()>().await;
        }
        _ = copy_bidirectional(&mut miner, &mut there) => {}
    }
}

/// Ends for both sides when either ends it, and for the miner alone when it is cut.
async fn forward_on_a_link(miner: TcpStream, validator: SocketAddr, link: Link, mut cuts: watch::Receiver<u32>) {
    let Ok(there) = TcpStream::connect(validator).await else { return };
    cuts.borrow_and_update();
    let ((from_miner, to_miner), (from_validator, to_validator)) = (miner.into_split(), there.into_split());
    let both = async {
        tokio::select! {
            () = delayed(from_miner, &to_validator, link) => {}
            () = delayed(from_validator, &to_miner, Link { bytes_per_s: u64::MAX, ..link }) => {}
        }
    };
    tokio::select! {
        biased;
        _ = cuts.changed() => {
            drop(to_miner);
            std::future::pending::<()>().await;
        }
        () = both => {}
    }
}

/// Passes bytes on at the link's rate, each after its delay.
async fn delayed(mut from: OwnedReadHalf, to: &OwnedWriteHalf, link: Link) {
    let (sender, mut on_the_way) = mpsc::channel::<(Instant, Vec<u8>)>(64);
    let reads = async move {
        let mut buffer = vec![0; LINK_BYTES as usize];
        while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
            sleep(Duration::from_secs_f64(bytes as f64 / link.bytes_per_s as f64)).await;
            if sender.send((Instant::now() + link.delay, buffer[..bytes].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let writes = async {
        while let Some((at, bytes)) = on_the_way.recv().await {
            sleep_until(at).await;
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                if to.writable().await.is_err() {
                    return;
                }
                match to.try_write(rest) {
                    Ok(written) => rest = &rest[written..],
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        }
    };
    tokio::join!(reads, writes);
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
