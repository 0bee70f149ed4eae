"""Runs the images that scripts/check-containers built, as a container engine would."""

import json
import os
import pathlib
import subprocess
import sys
import time

USER = 10001
PATIENCE_S = 60
NAP_S = 0.2
# Inside a mount namespace of its own: the root is read-only, but for the folders that the images name.
ENTER = """
set -eu
root=$1 state=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for node in null zero urandom; do : >"$root/dev/$node"; mount --bind /dev/$node "$root/dev/$node"; done
mount --bind "$state" "$root/var/lib/assay"
[ ! -d "$root/run/assay" ] || mount --bind "$state.run" "$root/run/assay"
mount -o remount,bind,ro "$root"
exec chroot "$root" setpriv --reuid=10001 --regid=10001 --clear-groups --bounding-set=-all --no-new-privs "$@"
"""


class Image:
    """An image, unpacked, with its configuration."""

    def __init__(self, work, name):
        config = json.loads((work / f"{name}.json").read_text())["Docker"]["config"]
        self.name, self.config = name, config
        self.root = (work / f"{name}.root").read_text().strip()
        self.state = work / f"{name}.state"
        # Volumes, and the folder in memory for the socket.
        for folder in (self.state, work / f"{name}.state.run"):
            folder.mkdir(mode=0o700)
            os.chown(folder, USER, USER)
        if config["User"] != f"{USER}:{USER}":
            sys.exit(f"error: the {name} runs as {config['User']}")

    def command(self, network, words, variables=()):
        """A command in the container, in the network of a process."""
        environment = [*self.config["Env"], *variables]
        inside = ["unshare", "--mount", "sh", "-c", ENTER, "sh", self.root, str(self.state)]
        return ["nsenter", f"--net=/proc/{network}/ns/net", "env", "-i", *environment, *inside, *words]

    def start(self, network, *variables):
        words = [*self.config["Entrypoint"], *self.config["Cmd"]]
        return subprocess.Popen(self.command(network, words, variables), stderr=subprocess.PIPE, text=True)

    def run(self, network, words):
        return subprocess.run(self.command(network, words), capture_output=True, text=True, timeout=PATIENCE_S)


def wait_for(image, network, words, what, daemon):
    until = time.monotonic() + PATIENCE_S
    while True:
        ended = image.run(network, words)
        if ended.returncode == 0:
            return ended.stdout.strip()
        if time.monotonic() > until or daemon.poll() is not None:
            daemon.kill()
            sys.exit(f"error: {what} never succeeds: {ended.stdout}{ended.stderr}{daemon.stderr.read()}")
        time.sleep(NAP_S)


def health(image):
    kind, *words = image.config["Healthcheck"]["Test"]
    if kind != "CMD":
        sys.exit(f"error: the health check of the {image.name} needs a shell")
    return words


def main():
    work = pathlib.Path(sys.argv[1])
    validator, miner = Image(work, "validator"), Image(work, "miner")
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up; exec sleep 300"])
    daemons = []
    try:
        time.sleep(NAP_S)
        network = holder.pid
        daemons.append(validator.start(network, "ASSAY_VALIDATOR_CHALLENGE_ON_CONNECT=false"))
        wait_for(validator, network, health(validator), "the validator's health check", daemons[0])
        settings = ["ASSAY_MINER_VALIDATOR=127.0.0.1:7400", "ASSAY_MINER_BACKEND=cpu", "ASSAY_MINER_CPU_MEMORY=32MiB"]
        daemons.append(miner.start(network, *settings))
        wait_for(miner, network, health(miner), "the miner's health check", daemons[1])
        connected = ["assay-miner", "check", "--validator-connected"]
        print(f"  {wait_for(miner, network, connected, 'the session', daemons[1])}")
        for image in (validator, miner):
            wrote = image.run(network, ["sh", "-c", "touch /usr/bin/x 2>&1; touch /var/lib/assay/x && id -u"])
            if "Read-only file system" not in wrote.stdout or not wrote.stdout.endswith(f"{USER}\n"):
                sys.exit(f"error: the {image.name} is not confined: {wrote.stdout}{wrote.stderr}")
        for daemon in reversed(daemons):
            daemon.terminate()
            if daemon.wait(PATIENCE_S) != 0:
                sys.exit(f"error: a daemon ended with {daemon.returncode}: {daemon.stderr.read()}")
    finally:
        for daemon in (*daemons, holder):
            daemon.kill()
            daemon.wait()
    print("2 images: built, run, healthy, drained")


main()
