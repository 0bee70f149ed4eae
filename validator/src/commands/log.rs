//! `assay-validator log`: commands on logs of verdicts.

use std::time::Duration;

use anyhow::Context;
use assay_log::{Checkpoint, Follower, LogError, VerifiedLog, Witness, log_key, verify};
use assay_program::clock::unix_seconds;
use assay_program::exit::{Exit, Failure, print};
use assay_program::lock::StateLock;
use assay_program::shutdown::Shutdown;
use assay_protocol::identity::Identity;
use tokio::net::TcpListener;

use crate::cli::log::{LogArgs, LogCommand, WatchLogArgs, WitnessArgs};

/// Key of a witness in its folder.
const WITNESS_KEY: &str = "witness.key";

/// Two attempts of the validator to have a checkpoint cosigned.
const COSIGNED_WITHIN: Duration = Duration::from_secs(70);

pub fn execute(command: LogCommand) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(async {
        match command {
            LogCommand::Verify(args) => whole(args).await,
            LogCommand::Watch(args) => watch(args).await,
            LogCommand::Witness(args) => witness(&args).await,
        }
    })
}

async fn whole(args: LogArgs) -> anyhow::Result<Exit> {
    let key = log_key(args.validator);
    let VerifiedLog { checkpoint, cosigned, uncommitted, problems } =
        verify(&args.log, &key, &args.witness).await.map_err(failure)?;
    if !problems.is_empty() {
        return Err(Failure::new(Exit::Fail, format!("the log does not hold: {}", problems.join("\n  "))).into());
    }
    if let Some(checkpoint) = checkpoint {
        print(&format!("holds: {} entries, root {}\nkey {key}", checkpoint.size, checkpoint.root))?;
    }
    cosigned.iter().try_for_each(|name| print(&format!("cosigned by {name}")))?;
    if uncommitted > 0 {
        print(&format!("{uncommitted} files are beyond the checkpoint: no part of the log"))?;
    }
    Ok(Exit::Done)
}

async fn watch(args: WatchLogArgs) -> anyhow::Result<Exit> {
    let LogArgs { log, validator, witness } = args.log;
    let (log_key, patience) = (log_key(validator), COSIGNED_WITHIN);
    let follower = Follower { source: log, log: log_key, witnesses: witness, file: args.state, patience };
    let every = Duration::from(args.every).max(Duration::from_secs(1));
    loop {
        let begins = follower.kept().map_err(failure)?.is_none();
        match follower.check().await {
            Ok(Checkpoint { size, root, .. }) if begins => {
                print(&format!("begins, with nothing kept to compare: {size} entries, root {root}"))?;
            }
            Ok(Checkpoint { size, root, .. }) => print(&format!("goes on: {size} entries, root {root}"))?,
            Err(LogError::Http(why)) if !args.once => print(&format!("not read: {why}"))?,
            Err(error) => return Err(failure(error).into()),
        }
        if args.once {
            return Ok(Exit::Done);
        }
        tokio::time::sleep(every).await;
    }
}

async fn witness(args: &WitnessArgs) -> anyhow::Result<Exit> {
    let mut shutdown = Shutdown::on_signals(Duration::ZERO).context("no signal handlers")?;
    let key_file = args.state.join(WITNESS_KEY);
    let secret = Identity::load_or_create(&key_file)?;
    // Two processes with one folder would cosign a fork. Held until the end.
    let lock = StateLock::acquire_for("state", &key_file, &secret.public_key().to_string());
    let _lock = lock.map_err(Failure::from)?;
    let witness = Witness::new(&args.state, secret, args.validator.iter().copied().map(log_key).collect());
    let cannot = |error| Failure::because(Exit::Io, format!("cannot listen on {}", args.listen), error);
    let listener = TcpListener::bind(&args.listen).await.map_err(cannot)?;
    print(&format!("http://{}#{}", listener.local_addr()?, witness.key()))?;
    tokio::select! {
        () = witness.serve(listener, unix_seconds) => {}
        () = shutdown.draining() => {}
    }
    Ok(Exit::Done)
}

fn failure(error: LogError) -> Failure {
    let exit = match error {
        LogError::Malformed(_) | LogError::Inconsistent(_) => Exit::Fail,
        LogError::File { .. } | LogError::Http(_) | LogError::NotThere(_) => Exit::Io,
    };
    Failure::new(exit, error.to_string())
}
