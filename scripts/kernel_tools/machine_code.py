"""Assembles PTX for a target: what the driver does on a host, done here to see what comes out."""

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


ENTRY = re.compile(
    r"Compiling entry function '(?P<kernel>\w+)' for '(?P<target>\w+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)", re.DOTALL)


def assemble(assembler, source, path, target, scratch):
    """Assembles a PTX file, fails on any warning, spill or stack frame, and returns a Resources for each kernel and
    the machine code's path."""
    cubin = f"{scratch}/{source.name}.{os.path.basename(os.path.dirname(assembler))}.{target}.{os.getpid()}.cubin"
    said = run(assembler, "-v", "-lineinfo", "-arch", target, "-o", cubin, path)
    if re.search(r"warning", said, re.IGNORECASE):
        raise Failure(f"{source.name} for {target}: the assembler warns:\n{said.strip()}")
    with open(path, encoding="ascii") as file:
        text = file.read()
    found = [_resources(match, text) for match in ENTRY.finditer(said)]
    if len(found) != len(re.findall(r"^\.visible \.entry", text, re.MULTILINE)):
        raise Failure(f"{source.name} for {target}: cannot read what the assembler says:\n{said.strip()}")
    for kernel in found:
        if kernel.stack or kernel.spills:
            raise Failure(f"{kernel.kernel} for {target}: {kernel.spills} bytes of spills and {kernel.stack} bytes of "
                          "stack: a hot kernel keeps everything in registers")
    return found, cubin


def _resources(match, text):
    entry = text[text.index(f".entry {match['kernel']}("):]
    bound = re.search(r"\.maxntid (\d+)", entry[:entry.index("{")])
    if not bound:
        raise Failure(f"{match['kernel']} has no __launch_bounds__")
    shared = re.search(r"(\d+) bytes smem", match["rest"])
    return Resources(match["kernel"], match["target"], int(match["registers"]), int(shared[1]) if shared else 0,
                     int(bound[1]), int(match["stack"]), int(match["stores"]) + int(match["loads"]))


def require_instructions(disassembler, source, cubin, target):
    """Fails unless the machine code holds every instruction that makes the family what it is."""
    if not source.instructions:
        return
    text = run(disassembler, "--no-dataflow", "-c", cubin)
    for instruction in source.instructions:
        if not re.search(rf"\s{re.escape(instruction)}\b", text):
            raise Failure(f"{source.name} for {target}: no {instruction} in the machine code")
