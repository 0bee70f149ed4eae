"""Installs, runs, upgrades and removes the packages on two machines; see scripts/check-packages."""

import json
import pathlib
import re
import sys

from . import installing, pages, rpm, sandbox
from .machine import Failed, Machine, cable, require, say

VALIDATOR, MINER = "validator", "miner"
# What the services have besides their settings: little memory, so that a challenge takes a second. EnvironmentFile.
DEFAULTS = {
    # Only the challenges that the page asks for: their number is compared.
    VALIDATOR: "ASSAY_VALIDATOR_N=1024\nASSAY_VALIDATOR_CHALLENGE_ON_CONNECT=false\n"
    "ASSAY_VALIDATOR_CHALLENGE_INTERVAL_S=0\nASSAY_VALIDATOR_CPU_MEMORY=64MiB\n",
    MINER: "ASSAY_MINER_BACKEND=cpu\nASSAY_MINER_CPU_MEMORY=64MiB\nASSAY_MINER_CPU_DEVICES=2\n",
}
# What a purge leaves, by docs/install.md; and what the tools of Debian write for themselves.
KEPT = {
    VALIDATOR: {
        "/var/lib/assay-validator",
        "/var/lib/assay-validator/validator.key",
        "/var/lib/assay-validator/receipt.key",
        "/var/lib/assay-validator/verdict-log",
    },
    MINER: {"/var/lib/assay-miner", "/var/lib/assay-miner/miner.key"},
}
OF_DEBIAN = re.compile(
    r"/(etc/(passwd|group|shadow|gshadow|subuid|subgid)-?|var/log/(apt|dpkg|journal|alternatives|faillog|lastlog)\b.*"
    r"|var/lib/(dpkg|apt|systemd|logrotate)/.*|var/cache/(apt|debconf|ldconfig|man)\b.*|var/backups/.*|root/.*"
    r"|etc/(machine-id|\.pwd\.lock|.*\.lock)|var/lib/private|var/log/private|var/cache/private|etc/default/assay-.*)$"
)


class Check:
    """Both machines, and what the commands of the page printed."""

    def __init__(self, machines, packages):
        self.machines = machines
        self.packages = packages
        self.before = {}
        # The validator's key with # before it, as its address has it.
        self.key = None

    def prepare(self):
        """What a host has before: the package's file, a name service, and little memory for challenges."""
        for name, machine in self.machines.items():
            machine.run("echo '10.77.0.1 validator.example' >> /etc/hosts")
            self.before[name] = machine.files()
            (package,) = self.packages.glob(f"assay-{name}_*.deb")
            machine.copy(package, f"/{package.name}")
            machine.put(f"/etc/default/assay-{name}", DEFAULTS[name])

    def follow(self, heading, host, commands):
        """Runs the commands of a section of the page."""
        machine = self.machines[host]
        for command in commands:
            if "#KEY" in command:
                command = command.replace("#KEY", self.key)
            say(f"{host}# {command}")
            # 3 is a pass whose probe showed no memory, as on a busy machine.
            allowed = (0, 3) if command.startswith("assay-validator challenge") else (0,)
            printed = machine.run(command, allowed=allowed)
            self.after(host, command, printed)

    def after(self, host, command, printed):
        """What must hold once a command of the page has run."""
        machine = self.machines[host]
        if command.startswith("apt-get install"):
            self.installed(host)
        elif command == f"assay-{host} config check":
            require(f"/etc/assay/{host}.toml" in printed, f"the settings are read from /etc/assay: {printed}")
        elif command.startswith("systemctl enable"):
            self.serves(host)
        elif command == "assay-validator address":
            target = re.fullmatch(r"assay://validator\.example:7400(#[0-9a-f]{64})", printed.strip())
            require(target, f"an address with a key: {printed}")
            self.key = target[1]
        elif command.startswith("assay-miner check"):
            require(printed.startswith("OK: 2 devices, ") and "last verdict pass" in printed, f"the check: {printed}")
        elif command == "assay-miner key":
            machine.wait_for("assay-miner status", lambda text: ", connected since " in text, "a connection")
        elif command.startswith("assay-validator challenge"):
            require(printed.startswith("PASS"), f"an honest host passes: {printed}")
            say("  " + printed.splitlines()[0])
            self.attested()
        elif command.startswith("apt-get remove"):
            require(machine.try_run("test -e /etc/assay/miner.toml").returncode == 0, "remove leaves the settings")
            require(machine.try_run("pgrep -f ^/usr/bin/assay-").returncode == 1, "nothing runs after the removal")
        elif command.startswith("apt-get purge"):
            self.purged(host)

    def installed(self, host):
        """Neither enabled nor started; the sandbox is no worse than documented; the pages are there."""
        machine, unit = self.machines[host], f"assay-{host}.service"
        require(machine.try_run(f"systemctl is-enabled {unit}").stdout.strip() == "disabled", f"{unit} is not enabled")
        require(machine.try_run(f"systemctl is-active {unit}").stdout.strip() == "inactive", f"{unit} is not started")
        sandbox.check(machine, host)
        # Before the service runs, root asks who it will be: the key is made for the service's user.
        machine.run({VALIDATOR: "assay-validator address", MINER: "assay-miner key"}[host])
        conffiles = machine.run(f"dpkg-query --show --showformat='${{Conffiles}}' assay-{host}")
        require(f"/etc/assay/{host}.toml" in conffiles, f"the settings are a conffile: {conffiles}")

    def serves(self, host):
        """The service runs as its user, in its sandbox, and has told systemd so."""
        machine, unit = self.machines[host], f"assay-{host}.service"
        show = lambda key: machine.run(f"systemctl show --value --property={key} {unit}").strip()
        require(show("ActiveState") == "active" and show("SubState") == "running", f"{unit} runs: {machine.journal()}")
        pid = show("MainPID")
        status = machine.run(f"cat /proc/{pid}/status; cat /proc/{pid}/limits")
        uid = machine.run(f"id -u assay-{host}").strip()
        require(f"\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n" in status, f"it runs as its own user: {status}")
        for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
            require(line in status, f"{line} of {unit}: {status}")
        require(re.search(r"Max core file size +0 +0 ", status), f"no core dumps: {status}")
        key = machine.run(f"stat --format='%a %U' /var/lib/assay-{host}/{host}.key").strip()
        require(key == f"600 assay-{host}", f"the key is its user's alone: {key}")
        require(show("StatusText"), "systemd was told what it does")

    def attested(self):
        """The verdict is on disk, and both sides show it."""
        validator, miner = self.machines[VALIDATOR], self.machines[MINER]
        verdicts = json.loads(validator.run("assay-validator verdicts --json"))
        require("pass" in [verdict["outcome"] for verdict in verdicts], f"the verdict is in the records: {verdicts}")
        passed = lambda text: "1 pass, 0 fail" in text
        for host in (VALIDATOR, MINER):
            show = f"systemctl show --value --property=StatusText assay-{host}"
            self.machines[host].wait_for(show, passed, "the verdict in systemd's status")
        miner.wait_for("assay-miner status", lambda text: "last verdict  pass" in text, "the verdict in the status")
        self.reloads()
        self.is_watched()
        self.is_upgraded()

    def reloads(self):
        """A reload keeps the process and the session; settings that are refused change nothing."""
        for host, machine in self.machines.items():
            show = f"systemctl show --property=MainPID,ActiveState,NRestarts assay-{host}"
            before = machine.run(show)
            machine.run(f"systemctl reload assay-{host}")
            machine.wait_for(show, lambda text, before=before: text == before, "the service after its reload")
            log = machine.run(f"journalctl --quiet --output=cat --unit=assay-{host}")
            require("reloaded" in log or "read again" in log, f"{host} reloads: {log}")
        say("both reload")

    def is_watched(self):
        """A miner whose runtime hangs is killed by systemd and started again."""
        machine = self.machines[MINER]
        folder = "/run/systemd/system/assay-miner.service.d"
        machine.put(f"{folder}/watchdog.conf", "[Service]\nWatchdogSec=2s\n")
        machine.run("systemctl daemon-reload && systemctl restart assay-miner")
        pid = machine.run("systemctl show --value --property=MainPID assay-miner").strip()
        machine.run(f"kill -STOP {pid}")
        restarted = lambda text: text.split() not in ([], [pid], ["0"])
        machine.wait_for("systemctl show --value --property=MainPID assay-miner", restarted, "another process")
        machine.wait_for("journalctl --quiet --unit=assay-miner", lambda text: "Watchdog timeout" in text, "the reason")
        machine.wait_for("systemctl is-active assay-miner", lambda text: text.strip() == "active", "the service again")
        machine.run(f"rm -r {folder} && systemctl daemon-reload && systemctl restart assay-miner")
        say("a miner that hangs is started again")

    def is_upgraded(self):
        """Installed once more, the package keeps settings and key, and starts its service anew."""
        machine = self.machines[MINER]
        state = "sha256sum /etc/assay/miner.toml /var/lib/assay-miner/miner.key; systemctl is-enabled assay-miner"
        show = "systemctl show --value --property=MainPID assay-miner"
        before, pid = machine.run(state), machine.run(show)
        machine.run("apt-get install --yes --reinstall /assay-miner_*.deb")
        require(machine.run(state) == before, "an upgrade keeps settings, key and enablement")
        machine.wait_for(show, lambda text: text not in (pid, "0\n"), "the new process")
        machine.wait_for("assay-miner status", lambda text: ", connected since " in text, "its connection")
        say("an upgrade keeps settings and key")

    def purged(self, host):
        """Nothing is left but what the page says."""
        machine = self.machines[host]
        left = {path for path in machine.files() - self.before[host] if not OF_DEBIAN.match(path)}
        left -= {f"/{package.name}" for package in self.packages.iterdir()}
        of_log = {path for path in left if path.startswith("/var/lib/assay-validator/verdict-log/")}
        left -= of_log
        require(left == KEPT[host], f"a purge leaves the keys and the log alone, not {sorted(left ^ KEPT[host])}")
        checkpoints = [path for path in of_log if path.endswith("/checkpoint")]
        require(len(checkpoints) == (host == VALIDATOR), f"a purge leaves the log's checkpoint: {sorted(of_log)}")
        missing = {path for path in self.before[host] - machine.files() if not OF_DEBIAN.match(path)}
        require(not missing, f"a purge takes nothing of others: {sorted(missing)}")
        say("the purge left the key" + (" and its log" if of_log else "") + " alone")


def boot(names, root, cgroups, work):
    """A machine for each name, joined by a cable: closed, they are gone."""
    machines = {name: Machine(name, root, cgroups, work) for name in names}
    for machine in machines.values():
        machine.boot()
    cable(*machines.values())
    return machines


def main():
    root, cgroups, work = (pathlib.Path(argument) for argument in sys.argv[1:4])
    packages = work / "packages"
    pages.check(packages, work)
    machines = {}
    try:
        machines = boot((VALIDATOR, MINER), root, cgroups, work)
        check = Check(machines, packages)
        check.prepare()
        for section in installing.sections():
            check.follow(*section)
        of_rpm = boot(("rpm-validator", "rpm-miner"), root, cgroups, work)
        machines |= of_rpm
        rpm.check(*of_rpm.values(), packages, DEFAULTS)
    except Failed as failed:
        print(f"error: {failed}")
        for name, machine in machines.items():
            if machine.pid:
                print(f"-- {name}:\n{machine.journal()}")
        return 1
    finally:
        for machine in machines.values():
            machine.close()
    print("4 packages: installed, attested, upgraded, removed")
    return 0


sys.exit(main())
