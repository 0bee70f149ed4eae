//! A page of metrics, as Prometheus reads it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::daemon::PATIENCE;

/// How often a page is read that is waited for.
const NAP: Duration = Duration::from_millis(20);

#[derive(Debug, Clone)]
pub struct Scrape {
    pub text: String,
    /// Each series as it is written, with its value.
    pub series: BTreeMap<String, f64>,
}

impl Scrape {
    /// Of a validator, over its control socket.
    #[must_use]
    pub fn of_validator(socket: &Path) -> Self {
        Self::read(UnixStream::connect(socket).expect("the validator serves its socket"))
    }

    /// Of a miner, over HTTP.
    #[must_use]
    pub fn of_miner(address: SocketAddr) -> Self {
        Self::read(TcpStream::connect(address).expect("the miner serves its metrics"))
    }

    fn read(mut stream: impl Read + Write) -> Self {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer in UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
        let lower = head.to_ascii_lowercase();
        assert!(lower.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
        let text = if lower.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
        let of_line = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let series = text.lines().filter(|line| !line.starts_with('#')).filter_map(of_line).collect();
        Self { text, series }
    }

    #[must_use]
    pub fn value(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("no {series} in\n{}", self.text))
    }

    /// Scrapes until a page is as is waited for.
    ///
    /// # Panics
    /// Panics when that takes longer than a test's patience.
    #[must_use]
    pub fn until(scrape: impl Fn() -> Self, is_so: impl Fn(&Self) -> bool) -> Self {
        let until = Instant::now() + PATIENCE;
        loop {
            let page = scrape();
            if is_so(&page) {
                return page;
            }
            assert!(Instant::now() < until, "the metrics are never as waited for:\n{}", page.text);
            std::thread::sleep(NAP);
        }
    }

    /// Requires that Prometheus' own tool finds nothing.
    ///
    /// # Panics
    /// When it does, or is not there.
    pub fn check(&self) {
        let promtool = std::env::var_os("ASSAY_PROMTOOL")
            .expect("ASSAY_PROMTOOL is not set: run scripts/test, or set it to promtool of the package prometheus");
        let mut command = Command::new(promtool);
        command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("promtool runs");
        child.stdin.take().expect("a pipe").write_all(self.text.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success() && said.is_empty(), "{}\n{}", String::from_utf8_lossy(&said), self.text);
    }
}

/// A body in chunks, in one piece.
fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("the size of a chunk");
        whole.push_str(&rest[..size]);
        body = rest[size..].strip_prefix("\r\n").unwrap_or_default();
        if size == 0 {
            break;
        }
    }
    whole
}
