"""After a failure: enough in files to find its cause without the GPU."""

import json
import struct
import zlib
from collections import Counter

from .report import Report
from .tools import KINDS, NoResult, Tools

# The size at which a wrong slot is looked for first, and the largest that is read byte by byte.
N, MOST_N = 256, 2048
# The first slot that is a product.
PRODUCT = 2
# Rows and columns of a tile of every family.
TILE = 128
# Periods that name a fragment, a swizzle or a warp.
ROW_PERIODS, COLUMN_PERIODS = (8, 16, 64, 128), (8, 32, 128)
# The wrong bytes that are written out.
SHOWN = 20
# One program here.
LIMIT_S = 60
# What errors of a device or a program that hangs say: looking further would hang again.
HANGS = ("hung", "no end within")
# A challenge where no case is at hand.
ANY = {
    "version": 1,
    "challenge_id": "01" * 16,
    "nonce": "02" * 32,
    "validator_key": "03" * 32,
    "miner_key": "04" * 32,
    "n": N,
    "iterations": 1,
    "shares": [{"device_id": "05" * 16, "offset": 0, "count": 6}],
}


def no_result(tools: Tools, report: Report, family, challenges: list, probes: list, error: str) -> None:
    """A case without a result: once more with the log at debug; the bits, unless it hangs."""
    if challenges:
        log_of(tools, report, family, challenges, probes)
    if not any(sign in error for sign in HANGS):
        wrong_bytes(tools, report, family, challenges[0] if challenges else {"precision": KINDS[family.kind], **ANY})


def wrong_bytes(tools: Tools, report: Report, family, challenge: dict) -> None:
    """Wrong bits: slots of the same pass by the GPU and by the processor, a leaf first, and the sums of a product."""
    if family.title in tools.located:
        return
    tools.located.add(family.title)
    small = small_challenge(challenge)
    tried = [(small, 0), (small, PRODUCT), (small, small["shares"][0]["count"] - 1)]
    if N < challenge["n"] <= MOST_N:
        tried.append(({**challenge, "shares": challenge["shares"][:1]}, PRODUCT))
    for case, slot in tried:
        where = f"slot {slot} of n = {case['n']}"
        try:
            found = slot_of(tools, case, slot, family.flags, family.gpu)
            expected = slot_of(tools, case, slot, ["--backend", "cpu"], None)
        except (OSError, NoResult) as error:
            report.text(f"{where}: {error}")
            continue
        tell(report, f"{family.title}, {where}", compare(found, expected, case["n"], "bytes"))
        if (case, slot) == (small, PRODUCT):
            raw_sums(tools, report, family, small)
        if found != expected:
            report.text(json.dumps(case))
            report.keep(f"slot-{slot}-n{case['n']}-{family.kind}-{family.name}-gpu.bin.z", zlib.compress(found))
            break
    log_of(tools, report, family, [small], [])


def raw_sums(tools: Tools, report: Report, family, case: dict) -> None:
    """The sums of a product as the kernel forms them, all tiles of a persistent one in one block, and as its operands give
    them."""
    path = tools.folder / "sums.bin"
    path.unlink(missing_ok=True)
    try:
        slot_of(tools, case, PRODUCT, [*family.flags, "--sums-out", str(path)], family.gpu)
        data = path.read_bytes()
    except (OSError, NoResult) as error:
        report.text(f"sums of slot {PRODUCT}: {error}")
        return
    sums = struct.unpack(f"<{2 * N * N}d", data)
    tell(report, f"{family.title}, sums of slot {PRODUCT}", compare(sums[: N * N], sums[N * N :], N, "sums"))
    report.keep(f"sums-{family.kind}-{family.name}.bin.z", zlib.compress(data))


def tell(report: Report, what: str, told: str) -> None:
    """What a comparison found: its first line for the summary, all of it for the report."""
    report.headline(f"{what}: {told.splitlines()[0]}")
    report.text(told)


def small_challenge(challenge: dict) -> dict:
    """A pass of the same kind over six slots of n = 256."""
    share = {**challenge["shares"][0], "offset": 0, "count": 6}
    return {**challenge, "n": N, "iterations": 1, "shares": [share]}


def slot_of(tools: Tools, challenge: dict, slot: int, flags: list, gpu) -> bytes:
    """The bytes of a slot after the last iteration."""
    path = tools.folder / "slot.bin"
    path.unlink(missing_ok=True)
    tools.work([challenge], [], [*flags, "--slot", str(slot), "--slot-out", str(path)], gpu)
    return path.read_bytes()


def compare(found, expected, n: int, things: str) -> str:
    """How many elements of a matrix are wrong, in which rows, columns and tiles, and the first of them."""
    if len(found) != len(expected):
        return f"{len(found)} {things} in place of {len(expected)}"
    wrong = [at for at, (a, b) in enumerate(zip(found, expected)) if a != b] if found != expected else []
    if not wrong:
        return f"all {n * n} {things} are right"
    places = [(at // n, at % n) for at in wrong]
    lines = [f"{len(wrong)} of {n * n} {things} are wrong"]
    for what, axis, periods in (("row", 0, ROW_PERIODS), ("column", 1, COLUMN_PERIODS)):
        for period in periods:
            lines.append(f"{what} mod {period}: {counts(place[axis] % period for place in places)}")
    lines.append(
        f"tile of {TILE} x {TILE}, row and column: {counts((row // TILE, column // TILE) for row, column in places)}"
    )
    if things == "bytes":
        lines.append(f"bits that differ: {counts(found[at] ^ expected[at] for at in wrong)}")
    for at, (row, column) in zip(wrong[:SHOWN], places):
        lines.append(f"row {row}, column {column}: {found[at]}, expected {expected[at]}")
    return "\n".join(lines)


def counts(values) -> str:
    """How often each value occurs, in order of the values."""
    return ", ".join(f"{value}: {count}" for value, count in sorted(Counter(values).items()))


def log_of(tools: Tools, report: Report, family, challenges: list, probes: list) -> None:
    """The program's log at debug, its workers' with it."""
    command = [tools.miner, "work", "--json", *tools.key(), *family.flags, "--log", "debug"]
    for index, challenge in enumerate(challenges):
        command += ["--challenge", tools.file(f"located-{index}", challenge)]
    command += tools.probe_flags(probes)
    try:
        done = tools.run(command, family.gpu, LIMIT_S)
        text = f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    except NoResult as error:
        text = str(error)
    report.text(f"log at debug: {report.keep(f'debug-{family.kind}-{family.name}.log', text)}")
