"""A machine: systemd as the first process of namespaces of its own, in an overlay of a root folder."""

import os
import pathlib
import signal
import subprocess
import time

BOOT = pathlib.Path(__file__).parent / "boot.sh"
# How long anything may take that has to come.
PATIENCE_S = 60
COMMAND_S = 120
NAP_S = 0.1


class Failed(Exception):
    """A check does not hold."""


def require(holds, what):
    """Fails with these words where something does not hold."""
    if not holds:
        raise Failed(what)


def say(text):
    print(f"  {text}", flush=True)


class Machine:
    """A machine that runs. Closed, it is gone."""

    def __init__(self, name, root, cgroups, work):
        self.name = name
        folder = work / name
        folder.mkdir()
        self.cgroup = pathlib.Path(cgroups) / f"assay-check-{os.getpid()}-{name}"
        self.cgroup.mkdir()
        namespaces = ["--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup"]
        command = ["unshare", *namespaces, "--fork", "--kill-child", str(BOOT), str(root), str(folder)]
        self.log = open(folder / "boot.log", "wb")
        self.unshare = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=self._enter_cgroup
        )
        self.pid = None
        self.folder = folder

    def _enter_cgroup(self):
        (self.cgroup / "cgroup.procs").write_text(str(os.getpid()))
        os.setsid()

    def boot(self):
        """Waits until systemd is up."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            if self.unshare.poll() is not None:
                raise Failed(f"{self.name} does not boot: {(self.folder / 'boot.log').read_text()}")
            self.pid = self._first_process()
            if self.pid and self.try_run("systemctl is-system-running").stdout.strip() in ("running", "degraded"):
                return
            time.sleep(NAP_S)
        raise Failed(f"systemd does not come up in {self.name}: {(self.folder / 'boot.log').read_text()}")

    def _first_process(self):
        children = pathlib.Path(f"/proc/{self.unshare.pid}/task/{self.unshare.pid}/children").read_text().split()
        if not children:
            return None
        try:
            is_up = pathlib.Path(f"/proc/{children[0]}/comm").read_text().strip() == "systemd"
        except OSError:
            return None
        return int(children[0]) if is_up else None

    def try_run(self, line, text=None):
        """Runs a line of shell as root of the machine."""
        inside = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive"]
        enter = ["nsenter", "--target", str(self.pid), "--all", "--wd", *inside, "bash", "-euo", "pipefail", "-c", line]
        return subprocess.run(enter, input=text or "", capture_output=True, text=True, timeout=COMMAND_S)

    def run(self, line, text=None, allowed=(0,)):
        """The same, and requires that it succeeds. Gives what it printed."""
        ended = self.try_run(line, text)
        if ended.returncode not in allowed:
            raise Failed(f"{self.name}: `{line}` ended with {ended.returncode}: {ended.stdout}{ended.stderr}")
        return ended.stdout

    def wait_for(self, line, is_there, what):
        """Runs a line until what it prints is as it is to be."""
        until = time.monotonic() + PATIENCE_S
        while True:
            ended = self.try_run(line)
            if is_there(ended.stdout):
                return ended.stdout
            if time.monotonic() > until:
                raise Failed(f"{self.name}: {what} never comes: {ended.stdout}{ended.stderr}\n{self.journal()}")
            time.sleep(NAP_S)

    def journal(self):
        """The last lines of the services."""
        return self.try_run("journalctl --no-pager --quiet --output=cat --lines=40 --unit='assay-*'").stdout

    def put(self, path, data):
        """Writes a file in the machine."""
        self.run(f"mkdir -p $(dirname {path}) && cat > {path}", data)

    def copy(self, source, path):
        """Copies a file into the machine."""
        with open(source, "rb") as data:
            enter = ["nsenter", "--target", str(self.pid), "--all", "--wd", "sh", "-c", f"cat > {path}"]
            subprocess.run(enter, stdin=data, check=True, timeout=COMMAND_S)

    def files(self):
        """Every file of the machine, but for what every machine with systemd changes as it runs."""
        own = r"-path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /mnt"
        return set(self.run(f"find / \\( {own} \\) -prune -o -print").splitlines())

    def close(self):
        """Ends every process of the machine."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        self.unshare.kill()
        self.unshare.wait()
        self.log.close()
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            try:
                # Deepest first: a group goes once the groups in it are gone.
                for folder, _, _ in os.walk(self.cgroup, topdown=False):
                    os.rmdir(folder)
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(NAP_S)


def cable(one, other):
    """Joins two machines: the first has 10.77.0.1, the second 10.77.0.2."""
    ends = ["name", "cable0", "netns", str(one.pid), "type", "veth", "peer", "name", "cable0", "netns", str(other.pid)]
    subprocess.run(["ip", "link", "add", *ends], check=True)
    for number, machine in enumerate((one, other), start=1):
        machine.run(f"ip address add 10.77.0.{number}/24 dev cable0 && ip link set cable0 up")
