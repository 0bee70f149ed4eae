"""`scripts/kernels build` and `check`; see there."""

import difflib
import os
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import machine_code
import occupancy
import ptx
import roofline
from ptx import Failure
from sources import OLDEST_DRIVER, OLDEST_DRIVER_TARGETS, SOURCES

DOCUMENT = "docs/KERNELS.md"
BEGIN = "<!-- written by scripts/kernels build: {} -->\n"
END = "<!-- end -->\n"
SHOWN_LINES = 60


@dataclass(frozen=True)
class Toolkit:
    """Where the pinned tools are."""

    nvcc: str
    ptxas: str
    disassembler: str
    include: str
    # The oldest driver's assembler, where there is one for this machine.
    oldest_ptxas: str
    version: str

    @classmethod
    def at(cls, folder):
        home = f"{folder}/nvidia/cu13"
        oldest = f"{folder}/nvidia/cuda_nvcc/bin/ptxas"
        version = re.search(r"V([\d.]+)", ptx.run(f"{home}/bin/nvcc", "--version"))[1]
        return cls(f"{home}/bin/nvcc", f"{home}/bin/ptxas", f"{home}/bin/nvdisasm", f"{home}/include",
                   oldest if os.path.exists(oldest) else "", version)


def all_sources_known(root):
    """Fails on a kernel that no entry of sources.py compiles, and on an entry without a file."""
    there = {name[:-3] for name in os.listdir(f"{root}/kernels/cuda") if name.endswith(".cu")}
    known = {source.name for source in SOURCES}
    if there != known:
        raise Failure(f"kernels/cuda and scripts/kernel_tools/sources.py differ in {', '.join(sorted(there ^ known))}")


def assemble_all(toolkit, pool, files, launches, scratch):
    """Assembles every file for every target that can load it; the rows of the table, kernel by kernel."""

    def one(source, target):
        found, cubin = machine_code.assemble(toolkit.ptxas, source, files[source.name], target, scratch)
        machine_code.require_instructions(toolkit.disassembler, source, cubin, target)
        if toolkit.oldest_ptxas and target in OLDEST_DRIVER_TARGETS:
            try:
                machine_code.assemble(toolkit.oldest_ptxas, source, files[source.name], target, scratch)
            except Failure as failure:
                raise Failure(f"as driver {OLDEST_DRIVER} compiles it: {failure}") from failure
        for kernel in found:
            if kernel.threads != launches[kernel.kernel].threads:
                raise Failure(f"{kernel.kernel}: launched with {launches[kernel.kernel].threads} threads, compiled for {kernel.threads}")
        return [(kernel, launches[kernel.kernel].dynamic_shared) for kernel in found]

    jobs = [pool.submit(one, source, target) for source in SOURCES for target in source.targets]
    rows = [row for job in jobs for row in job.result()]
    order = {name: place for place, name in enumerate(launches)}
    return sorted(rows, key=lambda row: order[row[0].kernel])


def with_tables(root, rows):
    """The document with its generated parts replaced."""
    with open(f"{root}/{DOCUMENT}", encoding="utf-8") as file:
        text = file.read()
    parts = {"resources": occupancy.table(rows), "intensity": roofline.intensity_table(),
             "products": roofline.product_table(), "others": roofline.other_table()}
    for name, table in parts.items():
        mark = BEGIN.format(name)
        if text.count(mark) != 1 or END not in text[text.index(mark):]:
            raise Failure(f"{DOCUMENT} lacks the marks between which the table of {name} goes")
        head, rest = text.split(mark)
        text = f"{head}{mark}\n{table}\n{rest[rest.index(END):]}"
    return text


def compare(root, path, fresh):
    """Fails with a diff where a committed file is not what was just made."""
    try:
        with open(f"{root}/{path}", encoding="utf-8") as file:
            committed = file.read()
    except FileNotFoundError:
        raise Failure(f"{path} is missing: run scripts/kernels build") from None
    if committed == fresh:
        return
    diff = list(difflib.unified_diff(committed.splitlines(), fresh.splitlines(), f"{path} as committed",
                                     f"{path} as compiled", lineterm=""))
    raise Failure("\n".join(diff[:SHOWN_LINES]) + f"\n{path} differs ({len(diff)} lines of diff): "
                  "run scripts/kernels build and commit what it writes")


def main(action, folder):
    root = os.path.realpath(os.getcwd())
    all_sources_known(root)
    toolkit = Toolkit.at(os.path.realpath(folder))
    scratch = tempfile.mkdtemp()
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        try:
            compiled = dict(zip((source.name for source in SOURCES),
                                pool.map(lambda source: ptx.compile_source(toolkit, root, source, scratch), SOURCES)))
            files = {name: f"{root}/kernels/ptx/{name}.ptx" for name in compiled}
            os.makedirs(f"{root}/kernels/ptx", exist_ok=True)
            for name, (text, _) in compiled.items():
                if action == "check":
                    compare(root, f"kernels/ptx/{name}.ptx", text)
                else:
                    with open(files[name], "w", encoding="ascii") as file:
                        file.write(text)
            launches = {kernel: launch for _, found in compiled.values() for kernel, launch in found.items()}
            rows = assemble_all(toolkit, pool, files, launches, scratch)
            document = with_tables(root, rows)
            if action == "check":
                compare(root, DOCUMENT, document)
            else:
                with open(f"{root}/{DOCUMENT}", "w", encoding="utf-8") as file:
                    file.write(document)
        finally:
            pool.shutdown(cancel_futures=True)
            shutil.rmtree(scratch)
    old = "" if toolkit.oldest_ptxas else f"; not as driver {OLDEST_DRIVER} compiles them: no such assembler for this machine"
    print(f"{len(compiled)} PTX files, {len(rows)} kernels on their targets, no spill{old}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Failure as failure:
        sys.exit(f"error: {failure}")
