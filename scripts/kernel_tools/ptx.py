"""Compiles a kernel to PTX that reads the same wherever it is compiled, under the oldest header that it needs."""

import os
import re
import subprocess
from dataclasses import dataclass

import sources

# Versions of the PTX ISA, oldest first. Turing came with 6.3.
VERSIONS = ("6.3", "6.4", "6.5", "7.0", "7.1", "7.2", "7.3", "7.4", "7.5", "7.6", "7.7", "7.8", "8.0", "8.1", "8.2", "8.3", "8.4", "8.5", "8.6", "8.7", "8.8",
            "9.0")
# nvcc makes names of things with internal linkage from a hash of the file's full path.
PATH_HASH = re.compile(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}_")
# A hint on a load of which not all bytes are used, as of a kernel's struct: no bit depends on it, and it needs PTX 8.3.
HINT = re.compile(r'^\s*\.pragma "used_bytes_mask [^"]*";\n', re.MULTILINE)
# 177 is a constant that the file itself does not use: some are there for the host.
FLAGS = ("-std=c++17", "-lineinfo", "--Werror", "all-warnings", "-diag-suppress", "177")


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched."""

    threads: int
    dynamic_shared: int


class Failure(Exception):
    """A check that failed: one message for the user."""


def reads(newest, version):
    """Whether an assembler that reads PTX up to `newest` reads `version`."""
    return VERSIONS.index(version) <= VERSIONS.index(newest)


def run(*command, cwd=None):
    """Runs a tool, and returns what it printed on both streams, or fails with it."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{os.path.basename(command[0])} failed:\n{done.stdout.strip()}")
    return done.stdout


def compile_source(toolkit, root, source, scratch):
    """The PTX of a source as it is committed, and the Launch of each of its kernels."""
    raw = _nvcc(toolkit, root, source, f"kernels/cuda/{source.name}.cu", scratch)
    text = _normalise(raw, root, toolkit, source)
    return _with_lowest_version(toolkit, source, text, scratch), _launches(toolkit, root, source, scratch)


def _nvcc(toolkit, root, source, path, scratch):
    out = f"{scratch}/{os.path.basename(path)}.raw.ptx"
    run(f"{toolkit.nvcc}", "-ptx", f"-arch={source.architecture}", *FLAGS, "-o", out, path, cwd=root)
    with open(out, encoding="ascii") as file:
        return file.read()


def _normalise(raw, root, toolkit, source):
    """Takes out what depends on the machine: paths, hashes of paths, and the compiler's build number."""
    text = HINT.sub("", raw[raw.index(".version"):])
    text = _in_names(text)
    text = re.sub(r'(?<=\.file\t)(\d+) "(/.*)"', lambda m: f'{m[1]} "{_portable(m[2], root, toolkit, source)}"', text)
    text = "\n".join(line.rstrip() for line in text.splitlines()).rstrip() + "\n"
    return f"// kernels/cuda/{source.name}.cu, compiled by scripts/kernels with nvcc {toolkit.version}. Do not edit.\n{text}"


def _portable(path, root, toolkit, source):
    """A file that line information names, as it is called on every machine."""
    path = os.path.realpath(path)
    for folder, name in ((root, ""), (os.path.realpath(toolkit.include), "cuda/")):
        if path.startswith(f"{folder}/"):
            return name + path[len(folder) + 1:]
    raise Failure(f"{source.name}: line information names {path}, which is no file of this repository")


def _in_names(text):
    """Hashes of paths to zeros, in the text and in the byte strings of the debug section that spell names."""
    text = PATH_HASH.sub(r"\g<1>00000000_", text)
    head, marker, tail = text.partition(".section\t.debug_str")
    if not marker:
        return text
    numbers = bytes(int(n) for line in re.findall(r"^\.b8 ([\d,]+)$", tail, re.MULTILINE) for n in line.split(","))
    cleaned = iter(PATH_HASH.sub(r"\g<1>00000000_", numbers.decode("latin-1")).encode("latin-1"))
    tail = re.sub(r"^\.b8 ([\d,]+)$", lambda m: ".b8 " + ",".join(str(next(cleaned)) for _ in m[1].split(",")), tail,
                  flags=re.MULTILINE)
    return head + marker + tail


def _with_lowest_version(toolkit, source, text, scratch):
    """The text under the first version that the assembler takes it with. The assembler refuses an instruction or
    a directive that is newer than the header says."""
    path = f"{scratch}/{source.name}.version.ptx"
    for version in VERSIONS[:VERSIONS.index(source.ptx) + 1]:
        candidate = re.sub(r"^\.version .*", f".version {version}", text, count=1, flags=re.MULTILINE)
        with open(path, "w", encoding="ascii") as file:
            file.write(candidate)
        try:
            run(toolkit.ptxas, "-O0", "-arch", source.targets[0], "-o", os.devnull, path)
            return candidate
        except Failure as failure:
            refusal = failure
    raise Failure(f"{source.name}: needs a newer PTX than {source.ptx}, which sources.py allows; driver "
                  f"{sources.OLDEST_DRIVER} reads {sources.NEWEST_PTX}: {refusal}")


def _launches(toolkit, root, source, scratch):
    """The Launch of each kernel of a source: what the end of the file says (ASSAY_KERNEL, ASSAY_PRODUCT), as nvcc
    computes it."""
    path = f"{scratch}/{source.name}.constants.cu"
    with open(path, "w", encoding="ascii") as file:
        file.write(f'''#include "{root}/kernels/cuda/device.cuh"
#undef ASSAY_KERNEL
#undef ASSAY_PRODUCT
#define ASSAY_KERNEL(kernel, threads, shared) extern "C" __constant__ const unsigned kernel##_launch[2] = {{threads, shared}}
#define ASSAY_PRODUCT(kernel, threads, shared, rows, columns) ASSAY_KERNEL(kernel, threads, shared)
#include "{root}/kernels/cuda/{source.name}.cu"
''')
    text = _nvcc(toolkit, root, source, path, scratch)
    found = {}
    for kernel, values in re.findall(r"\.const \.align 4 \.b8 (\w+)_launch\[8\] = \{([\d, ]*)\}", text):
        values = bytes(int(value) for value in values.split(",")).ljust(8, b"\0")
        found[kernel] = Launch(*(int.from_bytes(part, "little") for part in (values[:4], values[4:])))
    for kernel in re.findall(r"\.entry (\w+)\(", text):
        if kernel not in found:
            raise Failure(f"{kernel}: the end of its file lacks ASSAY_KERNEL or ASSAY_PRODUCT")
    return found
