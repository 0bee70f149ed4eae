//! Another program's GEMM, measured in turn with ours.
//!
//! It reads lines `n threads` and answers each with one measurement of an s8·s8→s32 product, in Gop/s.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub struct PeerProgram {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl PeerProgram {
    /// Starts the program that `ASSAY_PEER` names, if it names one.
    pub fn start() -> Option<Self> {
        let program = std::env::var_os("ASSAY_PEER")?;
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let questions = child.stdin.take()?;
        let answers = BufReader::new(child.stdout.take()?);
        Some(Self { child, questions, answers })
    }

    pub fn gops(&mut self, n: u32, threads: usize) -> Option<f64> {
        writeln!(self.questions, "{n} {threads}").ok()?;
        self.questions.flush().ok()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).ok()?;
        answer.trim().parse().ok()
    }
}

impl Drop for PeerProgram {
    fn drop(&mut self) {
        // The child may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
