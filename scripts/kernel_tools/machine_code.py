"""Assembles PTX for a target, as the driver does on a host, and checks the result.

Each check raises Failure. `scripts/kernels check` runs all of them on every file, and planted.py shows that they reject
what they are for.
"""

import os
import re
from dataclasses import dataclass

from ptx import Failure, run


@dataclass(frozen=True)
class Resources:
    """What one kernel takes on one target."""

    kernel: str
    target: str
    registers: int
    static_shared: int
    threads: int
    stack: int
    spills: int


@dataclass(frozen=True)
class Assembled:
    """One PTX file, assembled for one target."""

    name: str
    target: str
    ptx: str
    messages: str
    cubin: str


ENTRY = re.compile(
    r"Compiling entry function '(?P<kernel>\w+)' for '(?P<target>\w+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)", re.DOTALL)
# Serialised wgmma are reported as information, not as a warning: "ptxas info : (C7515) Potential Performance Loss:
# wgmma.mma_async instructions are serialized due to ...". C7514 and C7517 come with it.
REJECTED_MESSAGE = re.compile(r"warning|\bC75\d\d\b|Potential Performance Loss", re.IGNORECASE)


def assemble(assembler, name, target, path, scratch):
    """Assembles the PTX file at `path` without checking anything but the assembler's exit code."""
    folder = os.path.basename(os.path.dirname(assembler))
    cubin = f"{scratch}/{os.path.basename(path)}.{folder}.{target}.cubin"
    messages = run(assembler, "-v", "-lineinfo", "-arch", target, "-o", cubin, path)
    with open(path, encoding="ascii") as file:
        return Assembled(name, target, file.read(), messages, cubin)


def check_messages(assembled):
    """Fails where the assembler warns, or reports that it serialised wgmma."""
    if REJECTED_MESSAGE.search(assembled.messages):
        raise Failure(f"{assembled.name} for {assembled.target}: the assembler's messages:\n{assembled.messages.strip()}")


def resources(assembled):
    """A Resources for each kernel of the file."""
    found = [_resources(match, assembled.ptx) for match in ENTRY.finditer(assembled.messages)]
    if len(found) != len(re.findall(r"^\.visible \.entry", assembled.ptx, re.MULTILINE)):
        raise Failure(f"{assembled.name} for {assembled.target}: cannot parse the assembler's messages:\n"
                      f"{assembled.messages.strip()}")
    return found


def check_spills(assembled):
    """Fails on a spill or a stack frame: a hot kernel keeps everything in registers."""
    for kernel in resources(assembled):
        if kernel.stack or kernel.spills:
            raise Failure(f"{kernel.kernel} for {kernel.target}: {kernel.spills} bytes of spills and {kernel.stack} bytes "
                          "of stack, expected none")


def check_instructions(assembled, source, disassembler):
    """Fails unless the machine code has every instruction that makes the family what it is, and those that are counted
    as often as expected."""
    if not source.instructions and not source.counts:
        return
    text = run(disassembler, "--no-dataflow", "-c", assembled.cubin)
    for instruction in source.instructions:
        if not _count(text, instruction):
            raise Failure(f"{assembled.name} for {assembled.target}: no {instruction} in the machine code")
    for instruction, expected in source.counts:
        found = _count(text, instruction)
        if found != expected:
            raise Failure(f"{assembled.name} for {assembled.target}: {found} {instruction} in the machine code, "
                          f"expected {expected}")


def _count(text, instruction):
    return len(re.findall(rf"\s{re.escape(instruction)}\b", text))


def _resources(match, text):
    entry = text[text.index(f".entry {match['kernel']}("):]
    bound = re.search(r"\.maxntid (\d+)", entry[:entry.index("{")])
    if not bound:
        raise Failure(f"{match['kernel']} has no __launch_bounds__")
    shared = re.search(r"(\d+) bytes smem", match["rest"])
    return Resources(match["kernel"], match["target"], int(match["registers"]), int(shared[1]) if shared else 0,
                     int(bound[1]), int(match["stack"]), int(match["stores"]) + int(match["loads"]))
