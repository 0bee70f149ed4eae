"""The services' units: valid, and no more exposed than the page says."""

import re

from . import installing
from .machine import Failed


def documented(host):
    """The exposure of a service by docs/install.md, in tenths."""
    row = re.search(rf"^\| `assay-{host}` \| (\d+)\.(\d) \|$", installing.PAGE.read_text(), re.MULTILINE)
    if not row:
        raise Failed(f"{installing.PAGE} has no figure for assay-{host}")
    return int(row[1]) * 10 + int(row[2])


def check(machine, host):
    """Fails where systemd complains of the unit, or finds it more exposed than documented."""
    unit = f"/lib/systemd/system/assay-{host}.service"
    said = machine.try_run(f"systemd-analyze verify --man=no {unit} 2>&1")
    if said.returncode != 0 or said.stdout.strip():
        raise Failed(f"{unit}: {said.stdout}")
    tenths = documented(host)
    analysed = machine.try_run(f"systemd-analyze security --no-pager --offline=true --threshold={tenths} {unit}")
    if analysed.returncode != 0:
        raise Failed(f"{unit} is more exposed than {tenths / 10}: {analysed.stdout[-2000:]}{analysed.stderr}")
    better = machine.try_run(f"systemd-analyze security --no-pager --offline=true --threshold={tenths - 1} {unit}")
    if better.returncode == 0:
        raise Failed(f"{unit} is less exposed than {installing.PAGE} says: write the better figure there")
