"""All that a machine without this repository needs, in one folder of plain files; and its programs, unpacked there."""

import argparse
import lzma
import pathlib
import shutil
import sys

PROGRAMS = ["assay-miner", "assay-validator"]
# What the folder may take: a common limit of what travels to a machine in one go.
MOST_BYTES = 64 << 20
# Those of xz: 6 is its default, 0 its fastest.
PRESET, QUICK_PRESET = 6, 0


def pack(scripts: pathlib.Path, vectors: pathlib.Path, default_bin: pathlib.Path, arguments: list) -> int:
    """`gpu-check pack FOLDER`."""
    parser = argparse.ArgumentParser(prog="gpu-check pack", description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER", help="made anew; must not exist or be empty")
    parser.add_argument("--bin", type=pathlib.Path, default=default_bin, help="the programs' folder")
    parser.add_argument("--quick", action="store_true", help="compress fast rather than well")
    options = parser.parse_args(arguments)
    missing = [program for program in PROGRAMS if not (options.bin / program).is_file()]
    if missing:
        print(
            f"error: {options.bin} has no {' and no '.join(missing)}: build them, or name their folder with --bin",
            file=sys.stderr,
        )
        return 1
    folder = options.folder
    if folder.exists() and any(folder.iterdir()):
        print(f"error: {folder} is not empty", file=sys.stderr)
        return 1
    fill(folder, scripts, vectors, options.bin, QUICK_PRESET if options.quick else PRESET)
    return describe(folder)


def fill(
    folder: pathlib.Path, scripts: pathlib.Path, vectors: pathlib.Path, binaries: pathlib.Path, preset: int
) -> None:
    """Copies the script, its modules and the vectors, and compresses the programs."""
    for name in ("programs", "vectors", "gpu_check"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(scripts / "gpu-check", folder / "gpu-check")
    (folder / "gpu-check").chmod(0o755)
    for path in sorted((scripts / "gpu_check").glob("*.py")):
        shutil.copyfile(path, folder / "gpu_check" / path.name)
    for path in sorted(vectors.glob("*.json")):
        shutil.copyfile(path, folder / "vectors" / path.name)
    for program in PROGRAMS:
        packed = folder / f"programs/{program}.xz"
        with open(binaries / program, "rb") as source, lzma.open(packed, "wb", preset=preset) as target:
            shutil.copyfileobj(source, target, 1 << 20)


def describe(folder: pathlib.Path) -> int:
    """Says what the folder takes, and how to use it; an error when it is too large to travel."""
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    for program in PROGRAMS:
        print(f"{sizes[folder / 'programs' / (program + '.xz')] / 1e6:6.1f} MB  programs/{program}.xz")
    total = sum(sizes.values())
    print(f"{total / 1e6:6.1f} MB  in all, {len(sizes)} files")
    if total > MOST_BYTES:
        print(
            f"error: more than {MOST_BYTES >> 20} MiB: pack programs of a release, which are stripped", file=sys.stderr
        )
        return 1
    print(f"carry {folder}, and run there, for each of the calls 1, 2 and 3:")
    print(f"  python3 {folder.name}/gpu-check --call 1 --budget 540 --out REPORTS")
    return 0


def unpack(packed: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Unpacks the programs of a packed folder; where they are then."""
    folder.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        with lzma.open(packed / f"{program}.xz", "rb") as source, open(folder / program, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        (folder / program).chmod(0o755)
    return folder
