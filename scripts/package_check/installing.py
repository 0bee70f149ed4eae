"""The commands of docs/install.md, by the host that they are for."""

import pathlib

PAGE = pathlib.Path("docs/install.md")
HOSTS = {"On the validator's host": "validator", "On the miner's host": "miner"}


def sections():
    """Each section with commands: its heading, its host, and its commands in order."""
    found = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            heading = line[3:]
            host = next((host for start, host in HOSTS.items() if heading.startswith(start)), None)
            found.append((heading, host, []))
        elif line.startswith("    ") and found:
            found[-1][2].append(line.strip())
    for heading, host, commands in found:
        if commands and not host:
            raise SystemExit(f"{PAGE}: {heading}: commands of no host")
    return [section for section in found if section[2]]
