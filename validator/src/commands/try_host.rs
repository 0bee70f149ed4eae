//! `assay-validator try`: an audit of a host over ssh, by a validator of this process alone.

mod remote;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use assay_api::{MinerConnection, ServerStatus};
use assay_client::Client;
use assay_client::cli::challenge::ChallengeArgs;
use assay_client::commands::challenge;
use assay_client::place::ApiLocation;
use assay_program::exit::{Exit, Failure};
use assay_program::file;
use assay_program::standard_error;
use assay_transport::own_key;
use assay_work::{Precision, PublicKey};
use clap::Parser;
use rustix::process::Signal;

use self::remote::{MinerFiles, RemoteHost};
use crate::cli::try_host::TryArgs;
use crate::cli::{Cli, Command};
use crate::commands::serve;

/// Time for the validator of this process to start.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Interval of looking for the next event.
const POLL: Duration = Duration::from_millis(50);
/// Time for the miner to open its devices and connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(120);

/// The command line of the validator of this process, without its files and keys.
const SERVE: &str = "assay-validator serve --config=/dev/null --listen=127.0.0.1:0 --http-listen= --mode=audit \
    --replay-locally=false --challenge-on-connect=false --challenge-interval-s=0 --drain-timeout-s=10";
/// Its control socket.
const SOCKET: &str = "validator.sock";

const MEANING: &str = "
A pass shows memory and arithmetic that this host had at the same time, now, within the bounds above. It does not show
who else uses the host, or that the same hardware is there tomorrow: docs/THREATS.md has what can be hidden.";

/// Tries a host: starts a validator in a temporary folder and the miner on the host, and has it audited.
///
/// # Errors
/// The host cannot be reached or used, or the miner's program is missing; each with its remedy.
pub fn execute(args: &TryArgs) -> anyhow::Result<Exit> {
    let program = miner_program(args)?;
    let folder = tempfile::Builder::new().prefix("assay-try.").tempdir();
    let folder = folder.map_err(|error| Failure::because(Exit::Io, "no temporary folder", error))?;
    let key_file = folder.path().join("miner.key");
    let miner = own_key::identity(&key_file)?;
    let stopped = Arc::<AtomicBool>::default();
    let served = serve_miner(folder.path(), args, miner.public_key(), stopped.clone())?;
    let (validator, status) = LocalValidator::start(folder.path(), served)?;
    let address = status.address.parse().map_err(|_| Failure::new(Exit::Internal, "the validator has no address"))?;
    standard_error::print(&format!("logging in to {}", args.host));
    let files = MinerFiles { program: &program, key_file: &key_file };
    let mut host = RemoteHost::start(args, &files, address, status.validator_key, stopped)?;
    standard_error::print("the miner opens its devices");
    let ended = validator.wait_for_miner(&mut host).and_then(|()| validator.judge(args, &mut host));
    if !host.finish() {
        standard_error::print(&format!(
            "{} did not say that its copy of the miner is removed: look for assay-try.* in its /tmp",
            args.host
        ));
    } else if ended.is_ok() && !args.json {
        standard_error::print(&format!("{MEANING}\nNothing is left on {}.", args.host));
    }
    ended
}

/// The miner's program: the one given, or the one beside this.
fn miner_program(args: &TryArgs) -> Result<PathBuf, Failure> {
    let beside = || std::env::current_exe().ok().map(|own| own.with_file_name("assay-miner"));
    let path = args.miner_program.clone().or_else(beside).unwrap_or_default();
    if path.is_file() {
        return Ok(path);
    }
    let message = format!("{} is missing: give the miner's program with --miner-program", path.display());
    Err(Failure::new(Exit::Config, message))
}

/// Starts a validator for this miner alone, in a thread. It ends on a signal, or when it cannot start, which `stopped`
/// says.
fn serve_miner(folder: &Path, args: &TryArgs, miner: PublicKey, stopped: Arc<AtomicBool>) -> Result<Served, Failure> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut line = SERVE.split(' ').map(str::to_owned).collect::<Vec<_>>();
    line.push(format!("--key-file={}", file("validator.key")));
    line.push(format!("--control-socket={}", file(SOCKET)));
    line.push(format!("--log-file={}", file("validator.log")));
    line.push(format!("--allowed-miners={miner}"));
    line.extend(args.policy_fields.as_ref().map(|fields| format!("--policy-fields={fields}")));
    let cli = Cli::try_parse_from(line).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let Command::Serve(serve) = cli.command else { return Err(Failure::new(Exit::Internal, "no validator")) };
    Ok(thread::spawn(move || {
        if let Err(error) = serve::execute(&serve.settings) {
            standard_error::print(&format!("the validator ended: {error:#}"));
        }
        stopped.store(true, Ordering::Relaxed);
    }))
}

type Served = JoinHandle<()>;

/// The validator of this process, by its control socket. Dropped, it has ended, and writes no more.
struct LocalValidator {
    socket: PathBuf,
    client: Client,
    runtime: tokio::runtime::Runtime,
    /// Always there until it is dropped.
    served: Option<Served>,
}

impl LocalValidator {
    /// Waits until it serves, and takes signals.
    fn start(folder: &Path, served: Served) -> anyhow::Result<(Self, ServerStatus)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let socket = folder.join(SOCKET);
        let client = Client::of(&ApiLocation::Socket(socket.clone()));
        let until = Instant::now() + START_LIMIT;
        loop {
            match runtime.block_on(client.get::<ServerStatus>("/status")) {
                Ok(status) => return Ok((Self { socket, client, runtime, served: Some(served) }, status)),
                Err(error) if Instant::now() >= until || served.is_finished() => {
                    return Err(Failure::new(Exit::Internal, format!("no validator in this process: {error}")).into());
                }
                Err(_) => thread::sleep(POLL),
            }
        }
    }

    /// Waits until the miner has opened its devices and is connected.
    fn wait_for_miner(&self, host: &mut RemoteHost) -> anyhow::Result<()> {
        let until = Instant::now() + CONNECT_LIMIT;
        loop {
            let connected = self.runtime.block_on(self.client.list::<MinerConnection>("/connected", &(), 1));
            if connected.is_ok_and(|miners| !miners.is_empty()) {
                return Ok(());
            }
            host.check_stopped()?;
            if let Some(failure) = host.ended() {
                return Err(failure.into());
            }
            if Instant::now() >= until {
                return Err(host.failed("runs the miner, which opens no devices in time: try --miner-option").into());
            }
            thread::sleep(POLL);
        }
    }

    /// The exit code of challenges of all kinds, again and again for the time that is asked for; a verdict that is no pass
    /// is the last.
    fn judge(&self, args: &TryArgs, host: &mut RemoteHost) -> anyhow::Result<Exit> {
        let until = Instant::now() + Duration::from_secs(args.seconds.into());
        let kinds = args.kinds.iter().copied().map(Some).collect::<Vec<_>>();
        let kinds = if kinds.is_empty() { vec![None] } else { kinds };
        let mut worst = Exit::Done;
        for (turn, kind) in kinds.iter().cycle().enumerate() {
            if turn >= kinds.len() && Instant::now() >= until {
                break;
            }
            match self.judge_once(args, *kind, host)? {
                Exit::Done => {}
                Exit::NoMemory => worst = Exit::NoMemory,
                exit => return Ok(exit),
            }
        }
        Ok(worst)
    }

    /// The exit code of a challenge, whose verdict it prints; or the end of the host before.
    fn judge_once(&self, args: &TryArgs, kind: Option<Precision>, host: &mut RemoteHost) -> anyhow::Result<Exit> {
        let (socket, challenge) = (self.socket.clone(), challenge_args(args, kind)?);
        let (sender, done) = channel();
        thread::spawn(move || sender.send(challenge::execute(&ApiLocation::Socket(socket), &challenge)));
        loop {
            match done.try_recv() {
                Ok(ended) => return ended.and_then(|exit| self.keep_keys(args).map(|()| exit)),
                Err(TryRecvError::Disconnected) => anyhow::bail!("the challenge ended without a verdict"),
                Err(TryRecvError::Empty) => {}
            }
            if let Some(failure) = host.ended() {
                return Err(failure.into());
            }
            thread::sleep(POLL);
        }
    }

    /// Writes the keys of the receipt beside it: this validator is gone afterwards.
    fn keep_keys(&self, args: &TryArgs) -> anyhow::Result<()> {
        let Some(receipt) = &args.receipt else { return Ok(()) };
        let keys: serde_json::Value = self.runtime.block_on(self.client.receipt_keys()).map_err(Failure::from)?;
        let path = receipt.with_added_extension("keys.json");
        Ok(file::write_text(&path, &format!("{keys:#}"))?)
    }
}

impl Drop for LocalValidator {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
        let _ = self.served.take().map(Served::join);
    }
}

/// The arguments of `challenge`.
fn challenge_args(args: &TryArgs, kind: Option<Precision>) -> anyhow::Result<ChallengeArgs> {
    let mut line = ["assay-validator", "challenge", "--miner=only", "--wait=30"].map(str::to_owned).to_vec();
    let mut add = |name: &str, value: Option<String>| line.extend(value.map(|value| format!("--{name}={value}")));
    add("kind", kind.map(|kind| kind.name().to_owned()));
    add("n", args.n.map(|n| n.to_string()));
    add("iterations", args.iterations.map(|count| count.to_string()));
    add("fill-percent", args.fill_percent.map(|percent| percent.to_string()));
    add("receipt", args.receipt.as_ref().map(|path| path.display().to_string()));
    line.extend(args.json.then(|| "--json".to_owned()));
    let cli = Cli::try_parse_from(line).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    match cli.command {
        Command::Challenge(challenge) => Ok(challenge),
        _ => anyhow::bail!("no challenge"),
    }
}
