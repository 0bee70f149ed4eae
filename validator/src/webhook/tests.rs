use std::fs;
use std::sync::Arc;
use std::time::Duration;

use super::command::deliver;
use super::target::Target;

async fn run(command: &str, body: &[u8], limit: Duration) -> Result<(), String> {
    let Ok(Target::Command { program, arguments }) = command.parse() else { panic!("{command}") };
    deliver(&program, &arguments, &Arc::from(body), limit).await
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_command_reads_the_event_and_its_exit_code_counts() {
    assert_eq!(run("sh -c 'test \"$(cat)\" = {}'", b"{}", LONG).await, Ok(()));
    assert_eq!(run("true", b"{}", LONG).await, Ok(()), "it need not read");
    let failed = run("sh -c 'echo no route >&2; exit 7'", b"{}", LONG).await.unwrap_err();
    assert!(failed.contains("exit status: 7") && failed.contains("it said \"no route\""), "{failed}");
    let missing = run("/no/such/program", b"{}", LONG).await.unwrap_err();
    assert!(missing.contains("cannot run \"/no/such/program\""), "{missing}");
}

/// The command and what it started end with the time that it has, and a full pipe holds nothing up.
#[tokio::test]
async fn a_command_that_hangs_is_killed_with_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let command = format!("sh -c 'sleep 1000 & echo $! > {}; wait'", pid.display());
    let error = run(&command, &vec![b'x'; 1 << 20], Duration::from_secs(2)).await.unwrap_err();
    assert!(error.contains("was killed"), "{error}");
    let child: u32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let is_gone = || {
        // A process that waits to be collected has ended.
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z"))
    };
    while !is_gone() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a command writes without end neither fills a pipe nor memory.
#[tokio::test]
async fn a_command_that_says_much_is_cut_short() {
    let failed = run("sh -c 'head -c 300000 /dev/zero | tr \"\\0\" x >&2; exit 1'", b"{}", LONG).await.unwrap_err();
    assert!(failed.len() < 1000, "{}", failed.len());
}
