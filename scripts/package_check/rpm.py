"""The rpms, installed by rpm itself on machines that never had another package of ours."""

from .machine import require, say

SETTINGS = {
    "validator": 'listen = "[::]:7400"\nadvertise = "10.77.0.1:7400"\n',
    "miner": 'validator = "{}"\n',
}


def install(machine, host, packages):
    """The package is there, its service neither enabled nor started; gives the path of the package."""
    (package,) = packages.glob(f"assay-{host}-*.rpm")
    machine.copy(package, f"/{package.name}")
    # What rpm asks for is Debian's here, which rpm's own database does not have.
    machine.run(f"rpm --install --nodeps /{package.name}")
    enabled = machine.try_run(f"systemctl is-enabled assay-{host}").stdout.strip()
    active = machine.try_run(f"systemctl is-active assay-{host}").stdout.strip()
    require((enabled, active) == ("disabled", "inactive"), f"the {host} is {enabled} and {active}")
    said = machine.run(f"rpm --verify --nodeps assay-{host}; systemd-analyze verify --man=no assay-{host}.service 2>&1")
    require(not said.strip(), f"the files are as packed, and the unit is valid: {said}")
    return f"/{package.name}"


def start(machine, host, settings):
    """The service runs as its own user, with the machine's settings."""
    machine.run(f"sed -i '/^listen/d' /etc/assay/{host}.toml && cat >> /etc/assay/{host}.toml", settings)
    machine.run(f"assay-{host} config check && systemctl enable --now assay-{host}")
    user = machine.run(f"ps -o user:32= -p $(systemctl show --value --property=MainPID assay-{host})").strip()
    require(user == f"assay-{host}", f"the {host} runs as {user}")


def check(validator, miner, packages, defaults):
    """Installs both, attests, upgrades one, and erases both."""
    for host, machine in (("validator", validator), ("miner", miner)):
        machine.put(f"/etc/default/assay-{host}", defaults[host])
    install(validator, "validator", packages)
    package = install(miner, "miner", packages)
    start(validator, "validator", SETTINGS["validator"])
    start(miner, "miner", SETTINGS["miner"].format(validator.run("assay-validator address").strip()))
    miner.wait_for("assay-miner status", lambda text: ", connected since " in text, "a connection")
    # 3 is a pass whose probe showed no memory, as on a busy machine.
    said = validator.run("assay-validator challenge --wait 30", allowed=(0, 3))
    require(said.startswith("PASS"), f"an honest host passes: {said}")
    say("rpm: " + said.splitlines()[0])
    state = "sha256sum /etc/assay/miner.toml /var/lib/assay-miner/miner.key; systemctl is-enabled assay-miner"
    show = "systemctl show --value --property=MainPID assay-miner"
    before, process = miner.run(state), miner.run(show)
    miner.run(f"rpm --upgrade --force --nodeps {package}")
    require(miner.run(state) == before, "an upgrade keeps settings, key and enablement")
    miner.wait_for(show, lambda text: text not in (process, "0\n"), "the new process")
    for host, machine in (("validator", validator), ("miner", miner)):
        machine.run(f"rpm --erase assay-{host}")
        require(machine.try_run("pgrep -f ^/usr/bin/assay-").returncode == 1, f"nothing of the {host} runs")
        left = machine.run(f"ls /usr/bin/assay-* /etc/assay /var/lib/assay-{host}/{host}.key 2>/dev/null || true").split()
        kept = [f"/var/lib/assay-{host}/{host}.key", "/etc/assay:", f"{host}.toml.rpmsave"]
        require(left == kept, f"the key and changed settings alone are left: {left}")
    say("rpm: upgraded and erased; keys and settings are left")
