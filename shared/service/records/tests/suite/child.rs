//! A process of its own that writes, and is killed while it does.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::{env, io};

use assay_records::Records;

use crate::examples::{challenge, conclusion};
use crate::store::TestStore;

/// Where the child's records are.
const LOCATION: &str = "ASSAY_TEST_RECORDS";
/// The prefix of the child's lines: the harness of the tests prints others.
const MARK: &str = "child: ";

/// This binary again, as a process that takes commands on its standard input.
pub struct Writer {
    pub process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Writer {
    pub fn start(store: &TestStore) -> Self {
        let url = match store {
            TestStore::Sqlite(folder) => folder.path().join("validator.db").display().to_string(),
            TestStore::Postgres(database) => database.url(),
        };
        // A write past a limit of the file's size is an error then, and no signal.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(env::current_exe().unwrap());
        command.args(["child::process", "--exact", "--ignored", "--nocapture"]).env(LOCATION, url);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut writer = Self { input: process.stdin.take().unwrap(), output, process };
        assert_eq!(writer.next().unwrap(), "ready");
        writer
    }

    pub fn tell(&mut self, order: &str) {
        writeln!(self.input, "{order}").unwrap();
    }

    /// Its next line; `None` once it has ended.
    pub fn next(&mut self) -> Option<String> {
        loop {
            let line = self.output.next()?.unwrap();
            if let Some((_, said)) = line.split_once(MARK) {
                return Some(said.to_owned());
            }
        }
    }

    pub fn ask(&mut self, order: &str) -> String {
        self.tell(order);
        self.next().unwrap()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn say(text: &str) {
    let mut out = io::stdout().lock();
    // The reader is gone once the test has ended.
    let _ = writeln!(out, "{MARK}{text}");
    let _ = out.flush();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a process that other tests start"]
async fn process() {
    let records = Records::open(&env::var(LOCATION).unwrap().parse().unwrap()).await.unwrap();
    say("ready");
    for order in io::stdin().lines() {
        let (order, records) = (order.unwrap(), records.clone());
        match order.split_once(' ') {
            Some(("write", number)) => {
                let number: u32 = number.parse().unwrap();
                tokio::spawn(async move {
                    match records.conclude(&conclusion(number, 1, &[], u64::from(number))).await {
                        Ok(()) => say(&format!("wrote {number}")),
                        Err(error) => say(&format!("failed: {error}; trouble: {:?}", records.trouble())),
                    }
                });
            }
            Some(("export", folder)) => {
                records.export(folder.as_ref()).await.unwrap();
                say(&std::fs::read_to_string("/proc/self/status").unwrap_or_default().replace('\n', " "));
            }
            Some(("copy", url)) => {
                records.copy_into(&url.parse().unwrap()).await.unwrap();
                say(&std::fs::read_to_string("/proc/self/status").unwrap_or_default().replace('\n', " "));
            }
            _ => {
                records.troubles().wait_for(Option::is_none).await.unwrap();
                say("well");
            }
        }
    }
}

pub async fn no_acknowledged_verdict_is_lost_when_the_writer_is_killed(store: &TestStore) {
    let mut written = Vec::new();
    // Killed in the middle of its writes, three times over.
    for round in 0..3 {
        let mut writer = Writer::start(store);
        for number in 0..200 {
            writer.tell(&format!("write {}", round * 1000 + number));
        }
        let said = (0..20).map(|_| writer.next().unwrap()).collect::<Vec<_>>();
        writer.process.kill().unwrap();
        // Lines that it wrote before it died count too.
        let rest = std::iter::from_fn(|| writer.next());
        written.extend(said.into_iter().chain(rest));
    }
    let records = store.open().await;
    for said in &written {
        let number: u32 = said.strip_prefix("wrote ").unwrap_or_else(|| panic!("{said}")).parse().unwrap();
        let found = records.verdict(&challenge(number)).await.unwrap().unwrap_or_else(|| panic!("{number} is lost"));
        assert!(found.commitment.is_some() && found.receipts.len() == 1, "{number} is there in part");
    }
    assert!(written.len() >= 60 && written.len() < 600, "killed while it wrote: {}", written.len());
    for table in ["commitments", "evidence", "receipts", "device_results"] {
        assert_eq!(store.rows_of(table).await, store.rows_of("verdicts").await, "{table}");
    }
    if let TestStore::Sqlite(_) = store {
        let check = store.sql("PRAGMA integrity_check").await;
        assert_eq!(sqlx::Row::get::<String, _>(&check[0], 0), "ok");
    }
}
