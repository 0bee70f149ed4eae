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
import planted
import ptx
import roofline
from ptx import Failure
from sources import DRIVERS, SOURCES

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
    # The assembler of each Driver, where there is one for this machine.
    older_ptxas: dict
    version: str

    @classmethod
    def at(cls, folder):
        home = f"{folder}/nvidia/cu13"
        older = {driver: f"{folder}/assemblers/{driver.cuda}/ptxas" for driver in DRIVERS}
        version = re.search(r"V([\d.]+)", ptx.run(f"{home}/bin/nvcc", "--version"))[1]
        return cls(f"{home}/bin/nvcc", f"{home}/bin/ptxas", f"{home}/bin/nvdisasm", f"{home}/include",
                   {driver: path for driver, path in older.items() if os.path.exists(path)}, version)

    def assemblers(self, source, target):
        """The assemblers that know a target and read a source's PTX, each with the driver that it stands for: the newest
        with none, first."""
        yield None, self.ptxas
        for driver, path in self.older_ptxas.items():
            if target in driver.targets and ptx.reads(driver.ptx, source.ptx):
                yield driver, path


def all_sources_known(root):
    """Fails on a kernel that no entry of sources.py compiles, and on an entry without a file."""
    there = {name[:-3] for name in os.listdir(f"{root}/kernels/cuda") if name.endswith(".cu")}
    known = {source.name for source in SOURCES}
    if there != known:
        raise Failure(f"kernels/cuda and scripts/kernel_tools/sources.py differ in {', '.join(sorted(there ^ known))}")


def assemble_all(toolkit, pool, files, launches, scratch):
    """Assembles every file for every target that can load it, with every assembler that knows the target; the rows of
    the table, kernel by kernel, from the newest one."""

    def checked(source, target, driver, assembler):
        try:
            assembled = machine_code.assemble(assembler, source.name, target, files[source.name], scratch)
            machine_code.check_messages(assembled)
            machine_code.check_spills(assembled)
            # An instruction that is there at all is there with every assembler; how many there are may differ.
            if driver is None or source.counts:
                machine_code.check_instructions(assembled, source, toolkit.disassembler)
        except Failure as failure:
            raise Failure(f"as driver {driver} compiles it: {failure}" if driver else str(failure)) from failure
        return machine_code.resources(assembled)

    def one(source, target):
        found, *_ = [checked(source, target, *which) for which in toolkit.assemblers(source, target)]
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
                faults = planted.check_all(toolkit, pool, root, scratch)
            else:
                with open(f"{root}/{DOCUMENT}", "w", encoding="utf-8") as file:
                    file.write(document)
        finally:
            pool.shutdown(cancel_futures=True)
            shutil.rmtree(scratch)
    print(f"{len(compiled)} PTX files, {len(rows)} kernels on their targets, {1 + len(toolkit.older_ptxas)} assemblers, no spill")
    missing = [str(driver) for driver in DRIVERS if driver not in toolkit.older_ptxas]
    if missing:
        print(f"not checked as {', '.join(missing)} compile them: no such assemblers for this machine")
    if action == "check":
        print(f"{faults} planted faults rejected")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Failure as failure:
        sys.exit(f"error: {failure}")
