//! A real PostgreSQL server for tests: its own data folder, a UNIX socket in it, and no port. One serves a test binary
//! ([`Postgres::shared`]), with a database for each test. The tests of `records` and `keeper` compile this file too.
//!
//! The server ends with the process that started it, however that ends: a shell between them waits for the end of a
//! pipe. PostgreSQL refuses to run for root, so root starts it as another user.

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs};

use assay_records::Location;
use tempfile::TempDir;

/// How long a server may take to start or stop.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is asked meanwhile.
const NAP: Duration = Duration::from_millis(50);
/// The server's user, and everybody's name in its databases.
const SUPERUSER: &str = "assay";
/// Users that root may start a server as, by name: Debian's package makes the first.
const SERVER_USERS: [&str; 2] = ["postgres", "nobody"];
/// Where Debian puts the programs, and other systems.
const FOLDERS: [&str; 3] = ["/usr/lib/postgresql", "/usr/local/opt/postgresql/bin", "/opt/homebrew/opt/postgresql/bin"];

/// The script that runs a server for as long as its standard input is open, then stops it and removes its data. No test
/// can pull the plug, so data that the server has given to the system is as good as on disk (-F).
const KEEPER: &str = r#"
"$1/postgres" -D "$2" -k "$3" -h '' -F -N 300 -B 16MB -c autovacuum=off >"$2/log" 2>&1 &
server=$!
read -r line
case $line in crash) kill -QUIT "$server" ;; *) kill -INT "$server" ;; esac
wait "$server"
[ -n "$line" ] || rm -rf "$2" "$3"
"#;

/// A PostgreSQL server of one test.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    folder: TempDir,
    user: Option<(u32, u32)>,
    keeper: Option<Child>,
    databases: AtomicU32,
}

#[derive(Debug, Clone)]
pub struct Database<'a> {
    server: &'a Postgres,
    pub name: String,
}

impl Postgres {
    /// The one server of this process, started by the first who asks.
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<Postgres> = OnceLock::new();
        SERVER.get_or_init(Self::start)
    }

    /// Makes a server and starts it.
    ///
    /// # Panics
    /// When PostgreSQL is not installed, or does not start.
    pub fn start() -> Self {
        let programs = programs();
        let folder = tempfile::Builder::new().prefix("assay-postgres-").tempdir().expect("a temporary folder");
        let user = server_user();
        if let Some((uid, gid)) = user {
            chown(folder.path(), Some(uid), Some(gid)).expect("root gives folders away");
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a folder of ours");
        let mut server = Self { programs, folder, user, keeper: None, databases: AtomicU32::new(0) };
        let data = server.data();
        let mut make = server.program("initdb");
        make.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username", SUPERUSER, "-D"]);
        run(make.arg(&data));
        server.resume();
        server
    }

    /// Starts a server that was stopped, and waits until it answers.
    ///
    /// # Panics
    /// Panics when it does not start again.
    pub fn resume(&mut self) {
        let mut keeper = Command::new("/bin/sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(&self.programs).arg(self.data()).arg(self.folder.path());
        self.as_user(&mut keeper);
        self.keeper = Some(keeper.stdin(Stdio::piped()).spawn().expect("a shell"));
        let until = Instant::now() + PATIENCE;
        while !self.tool("pg_isready").stdout(Stdio::null()).status().expect("it runs").success() {
            let log = || fs::read_to_string(self.data().join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "PostgreSQL does not start: {}", log());
            std::thread::sleep(NAP);
        }
    }

    /// Stops the server; its data stay.
    pub fn stop(&mut self) {
        self.end("stop\n");
    }

    /// Ends the server without letting it write anything more, as a crash does.
    pub fn crash(&mut self) {
        self.end("crash\n");
    }

    fn end(&mut self, how: &str) {
        let Some(mut keeper) = self.keeper.take() else { return };
        keeper.stdin.take().expect("it is piped").write_all(how.as_bytes()).expect("the keeper reads");
        assert!(keeper.wait().expect("it is ours").success());
    }

    pub fn database(&self) -> Database<'_> {
        let name = format!("records_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        run(self.tool("createdb").arg(&name));
        Database { server: self, name }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A program of PostgreSQL's, as the server's user.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        self.as_user(&mut command);
        command
    }

    fn as_user(&self, command: &mut Command) {
        command.current_dir(self.folder.path()).env_remove("PGDATABASE").stdin(Stdio::null());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        // Ctrl-C in a terminal is not for the server: it ends with its keeper.
        command.process_group(0);
    }

    /// A program that connects to the server.
    fn tool(&self, name: &str) -> Command {
        let mut command = self.program(name);
        command.arg("--host").arg(self.folder.path()).args(["--username", SUPERUSER]);
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

impl Database<'_> {
    pub fn url(&self) -> String {
        format!("postgres://{SUPERUSER}@localhost/{}?host={}", self.name, self.server.folder.path().display())
    }

    /// The same for [`assay_records::Records::open`].
    pub fn location(&self) -> Location {
        Location::Postgres(self.url())
    }

    /// Runs statements as the superuser, and gives their rows, columns parted by `|`.
    ///
    /// # Panics
    /// Panics when a statement fails.
    pub fn sql(&self, statements: &str) -> String {
        let mut psql = self.server.tool("psql");
        // A test may have made the database read-only.
        psql.env("PGOPTIONS", "-c default_transaction_read_only=off");
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--dbname"]);
        run(psql.arg(&self.name).args(["--command", statements]))
    }
}

/// Runs a program to its end and gives its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success(), "{command:?}: {said} {}", String::from_utf8_lossy(&output.stderr));
    said
}

/// The folder of PostgreSQL's programs: the newest one there is.
fn programs() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let debian =
        fs::read_dir(FOLDERS[0]).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    let mut debian: Vec<_> = debian.collect();
    debian.sort();
    let others = FOLDERS[1..].iter().map(PathBuf::from).chain(env::split_paths(&path));
    let mut folders = debian.into_iter().rev().chain(others);
    let found = folders.find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists());
    found.expect("PostgreSQL's server is not installed: scripts/test installs Debian's package `postgresql`")
}

/// The user and group that the server runs as, where we are root.
fn server_user() -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").expect("a list of users");
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let probe = tempfile::tempfile().expect("a temporary file");
    let is_root = std::os::unix::fs::MetadataExt::uid(&probe.metadata().expect("it is open")) == 0;
    is_root.then(|| SERVER_USERS.into_iter().find_map(ids).expect("a user that is not root"))
}
