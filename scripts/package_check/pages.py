"""What the packages hold: manual pages without warnings, and completions."""

import pathlib
import subprocess

from .machine import Failed

PROGRAMS = ("assay-miner", "assay-validator")
COMPLETIONS = (
    "bash-completion/completions/{}",
    "zsh/vendor-completions/_{}",
    "fish/vendor_completions.d/{}.fish",
)
# Styles that a page generated from a command line cannot follow: no date, and lines as long as their text.
STYLES = ("missing date", "input text line longer than 80 bytes", "lower case character in document title")


def check(packages, work):
    """Unpacks both packages and looks at their pages and completions."""
    for program in PROGRAMS:
        (package,) = packages.glob(f"{program}_*.deb")
        folder = work / "unpacked" / program
        folder.mkdir(parents=True)
        subprocess.run(["dpkg-deb", "--extract", str(package), str(folder)], check=True)
        manuals = sorted((folder / "usr/share/man/man1").glob("*.1.gz"))
        if len(manuals) < 5:
            raise SystemExit(f"error: {package} has {len(manuals)} manual pages")
        for manual in manuals:
            check_manual(manual)
        for completion in COMPLETIONS:
            path = folder / "usr/share" / completion.format(program)
            if program not in path.read_text():
                raise SystemExit(f"error: {path} completes nothing")
        print(f"  {package.name}: {len(manuals)} manual pages, {package.stat().st_size >> 10} KiB")


def check_manual(path: pathlib.Path):
    """mandoc has nothing to say of a page but what it is by nature."""
    text = subprocess.run(["gzip", "-dc", str(path)], check=True, capture_output=True).stdout
    lint = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=text, capture_output=True)
    said = [line for line in lint.stdout.decode().splitlines() if not any(style in line for style in STYLES)]
    if said:
        raise SystemExit(f"error: {path.name}: {said[:5]}")

