"""Plants faults into copies of the kernels' sources: the checks of machine_code.py must reject each.

A check that stops working says nothing, as one did that looked for warnings only: serialised wgmma are no warning.
scripts/check-kernels does the same for faults that show in a kernel's bits; these show in the machine code alone.
"""

import os
import re
import shutil
from dataclasses import dataclass

import machine_code
import ptx
from ptx import Failure
from sources import SOURCES


@dataclass(frozen=True)
class Fault:
    """An edit of a source, and the checks that must reject what comes of it."""

    name: str
    source: str
    target: str
    # Must be in the source exactly once.
    old: str
    new: str
    # The name of each check, and a part of the reason that it must give.
    rejected_by: dict
    # The file that is edited, where that is not the source's own.
    file: str = ""


FAULTS = (
    Fault("an accumulator changed while its wgmma are pending: they are serialised",
          "product_wgmma_sm90a", "sm_90a",
          "        ptx::wgmma_wait<1>();", "        sums[0] += 1;\n        ptx::wgmma_wait<1>();",
          {"messages": "Potential Performance Loss", "instructions": "WARPGROUP.DEPBAR in the machine code, expected 2"},
          file="product_wgmma.cuh"),
    Fault("one more wait in every round, of which the assembler says nothing",
          "product_wgmma_sm90a", "sm_90a",
          "        ptx::wgmma_wait<1>();", "        ptx::wgmma_wait<1>();\n        ptx::wgmma_wait<0>();",
          {"instructions": "WARPGROUP.DEPBAR in the machine code, expected 2"}, file="product_wgmma.cuh"),
    Fault("one more commit in every round: a barrier that is told too early",
          "product_tcgen05_bf16_sm100f", "sm_103a",
          "                stage.advance();\n            }\n            ptx::tensor_commit",
          "                ptx::tensor_commit(ring.summed(buffer.at));\n                stage.advance();\n            }\n            ptx::tensor_commit",
          {"instructions": "UTCBAR in the machine code, expected 2"}, file="product_tcgen05.cuh"),
    Fault("too few registers", "product_dp4a", "sm_80",
          "__launch_bounds__(product_dp4a::threads, 2)", "__launch_bounds__(product_dp4a::threads, 4)",
          {"spills": "bytes of spills"}),
    Fault("plain products for dp4a", "product_dp4a", "sm_80",
          "ptx::dot4(rows[i], columns[j], sums[i][j])", "sums[i][j] + static_cast<int32_t>(rows[i] * columns[j])",
          {"instructions": "no IDP.4A"}),
)


def check_all(toolkit, pool, root, scratch):
    """Plants every fault; fails unless each is rejected. Returns their number."""
    jobs = [pool.submit(_check, toolkit, root, f"{scratch}/planted{number}", fault) for number, fault in enumerate(FAULTS)]
    for job in jobs:
        job.result()
    return len(FAULTS)


def _check(toolkit, root, folder, fault):
    """With every assembler that knows the target: what warns with one may not with another."""
    source = next(source for source in SOURCES if source.name == fault.source)
    path = _plant(toolkit, root, folder, fault, source)
    for driver, assembler in toolkit.assemblers(source, fault.target):
        assembled = machine_code.assemble(assembler, source.name, fault.target, path, folder)
        checks = {
            "messages": lambda: machine_code.check_messages(assembled),
            "spills": lambda: machine_code.check_spills(assembled),
            "instructions": lambda: machine_code.check_instructions(assembled, source, toolkit.disassembler),
        }
        for check, reason in fault.rejected_by.items():
            found = _failure_of(checks[check])
            if reason not in found:
                raise Failure(f"planted fault not found by the check of {check}: {fault.name} (assembler: "
                              f"{driver or toolkit.version}; the check said: {found or 'nothing'})")


def _failure_of(check):
    try:
        check()
    except Failure as failure:
        return str(failure)
    return ""


def _plant(toolkit, root, folder, fault, source):
    """The PTX of the changed source, for the oldest driver that reads it too."""
    shutil.copytree(f"{root}/kernels/cuda", f"{folder}/cuda")
    name = fault.file or f"{source.name}.cu"
    changed = f"{folder}/cuda/{name}"
    with open(changed, encoding="utf-8") as file:
        text = file.read()
    if text.count(fault.old) != 1:
        raise Failure(f"fault not planted: {fault.name}: the text is not in {name} exactly once")
    with open(changed, "w", encoding="utf-8") as file:
        file.write(text.replace(fault.old, fault.new))
    out = f"{folder}/{source.name}.ptx"
    ptx.run(toolkit.nvcc, "-ptx", f"-arch={source.architecture}", *ptx.FLAGS, "-o", out,
            os.path.relpath(f"{folder}/cuda/{source.name}.cu", root), cwd=root)
    with open(out, encoding="ascii") as file:
        text = ptx.HINT.sub("", file.read())
    with open(out, "w", encoding="ascii") as file:
        file.write(re.sub(r"^\.version .*", f".version {source.ptx}", text, count=1, flags=re.MULTILINE))
    return out
