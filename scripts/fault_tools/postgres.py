"""A PostgreSQL server of one run: its own folder, a UNIX socket in it, and no port."""

import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

from .scene import Fault, until

PROGRAMS = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))


class Postgres:
    def __init__(self) -> None:
        if not PROGRAMS:
            raise Fault("PostgreSQL's server is not installed: scripts/test installs Debian's package postgresql")
        # Not below the run's folder, which is its user's alone.
        folder = pathlib.Path(tempfile.mkdtemp(prefix="assay-postgres-"))
        folder.chmod(0o755)
        self.folder, self.data, self.process = folder, folder / "data", None
        # It refuses to run for root.
        self.user = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        self.name = "postgres" if self.user else pwd.getpwuid(os.geteuid()).pw_name
        if self.user:
            shutil.chown(folder, "postgres", "postgres")
        self.run("initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", self.name, "-D", self.data)
        self.start()
        self.run("createdb", "-h", folder, "-U", self.name, "assay")
        self.url = f"postgres://{self.name}@localhost/assay?host={folder}"

    def run(self, program: str, *arguments) -> str:
        done = subprocess.run([PROGRAMS[-1] / program, *arguments], cwd=self.folder, capture_output=True, text=True,
                              check=False, **self.user)
        if done.returncode:
            raise Fault(f"{program}: {done.stdout}{done.stderr}")
        return done.stdout

    def is_up(self) -> bool:
        """Whether it answers. One that ended is started again: its last children may still hold its memory."""
        if self.process is None or self.process.poll() is not None:
            with (self.folder / "log").open("a") as log:
                # A kill of the process loses nothing that the system has: no flushes (-F).
                command = [PROGRAMS[-1] / "postgres", "-D", self.data, "-k", self.folder, "-h", "", "-F", "-N", "100",
                           "-B", "16MB"]
                self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self.user)
        ready = subprocess.run([PROGRAMS[-1] / "pg_isready", "-h", self.folder], capture_output=True, check=False)
        return ready.returncode == 0

    def start(self) -> None:
        until("PostgreSQL answers", self.is_up)

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def rows(self, sql: str) -> list[tuple]:
        lines = self.run("psql", "-h", self.folder, "-U", self.name, "-XqAt", "-F", "|", "-c", sql, "assay").splitlines()
        return [tuple(line.split("|")) for line in lines]
