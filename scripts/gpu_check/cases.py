"""Vectors and random cases: every family of kernels, against what is known and against the processor."""

import json
import random
import secrets

from . import locate
from .report import Report
from .tools import KINDS, Gpu, Tools

# Vectors of INT8 with their evidence; probes with their answer.
CHALLENGES = ["smallest", "one-device", "two-devices-three-iterations", "uneven-devices", "n1024", "n2048"]
PROBES = ["probe", "probe-n1024", "probe-w64", "sweep"]
# Vectors of the other kinds.
OF_KIND = {
    "f16": ["k2-one-device", "k2-three-devices-two-iterations"],
    "fp8": ["k5-one-device"],
    "fp4": ["k6-one-device"],
    "field": ["k7"],
    "network": ["k8", "k8-n256"],
}
# Those of matrices no larger than 256.
QUICK = ["smallest"]
QUICK_PROBES = ["probe-w64", "sweep"]
# The matrix sizes of random cases: from 4096 on, a block of the persistent kernels has several tiles.
SIZES = [256, 512, 1024, 2048, 4096]
# Families that are used without a test. They start without that of float units, which takes most of a start.
UNTESTED = ["wgmma-sm90a", "mma-sm80", "mma-sm75", "dp4a"]
NO_FLOAT_UNITS = ["--cuda-float-units=false"]
# The most slots of a random share, and the bytes of those of large matrices.
SHARE_SLOTS, SHARE_BYTES = 40, 1 << 26


class Family:
    """A family of kernels on a GPU, in one kind of work."""

    def __init__(self, gpu: Gpu, kind: str, name: str) -> None:
        self.gpu = gpu
        self.kind = kind
        self.name = name
        self.title = f"{kind} by {name}, GPU {gpu.index}"
        self.flags = ["--backend", "cuda", "--kernel", name]
        if name in UNTESTED:
            self.flags += NO_FLOAT_UNITS


def vectors(tools: Tools, report: Report) -> None:
    """The worked examples of the specification: of INT8 by each of its families, of F16 by the chosen one."""
    for gpu in tools.gpus:
        for name in gpu.families["int8"]:
            vectors_of(tools, report, Family(gpu, "int8", name))
    for family in preferred(tools, "f16"):
        vectors_of(tools, report, family)


def preferred(tools: Tools, kind: str) -> list:
    """The family that each GPU chooses for a kind of work, where it computes it."""
    return [Family(gpu, kind, gpu.families[kind][0]) for gpu in tools.gpus if gpu.families.get(kind)]


def vectors_of(tools: Tools, report: Report, family: Family) -> None:
    """The examples of a family's kind: all challenges in one run of the program, and each probe."""
    names = OF_KIND.get(family.kind) or (QUICK if tools.quick else CHALLENGES)
    examples = [read(tools, name) for name in names]
    several(
        tools,
        report,
        names,
        [e["challenge"] for e in examples],
        [],
        [{"evidence": e["evidence"]} for e in examples],
        family,
    )
    if family.kind == "int8":
        for name in QUICK_PROBES if tools.quick else PROBES:
            example = read(tools, name)
            is_sweep = "sweep" in example
            probe = example["sweep" if is_sweep else "probe"]
            expected = {"sweep_answer" if is_sweep else "answer": example["answer"]}
            several(tools, report, [name], [example["challenge"]], [probe], [expected], family)


def random_cases(tools: Tools, report: Report) -> None:
    """Challenges of INT8 and F16 with a probe and a sweep, drawn anew, by the chosen families; the processor says what is right."""
    for kind in ("int8", "f16"):
        families = preferred(tools, kind)
        if families:
            random_of(tools, report, families)


def kinds(tools: Tools, report: Report) -> None:
    """Every kind of work by every family that computes it: vectors and random cases."""
    found = tools.run([tools.miner, "devices", "--backend", "cuda", "--wide", *tools.key()])
    report.text(found.stdout.rstrip() or found.stderr.rstrip())
    for kind in KINDS:
        families = [Family(gpu, kind, name) for gpu in tools.gpus for name in gpu.families.get(kind, [])]
        if not families:
            report.headline(f"no GPU here computes {kind}")
            continue
        if kind != "int8":
            for family in families[:2] if tools.quick else families:
                vectors_of(tools, report, family)
        random_of(tools, report, families[:1] if tools.quick else families)


def random_of(tools: Tools, report: Report, families: list) -> None:
    """Challenges of one kind, drawn anew; their seed is in the report."""
    seed = secrets.randbits(32)
    report.text(f"seed {seed}")
    draw = random.Random(seed)
    kind = families[0].kind
    sizes = [256] if tools.quick else SIZES
    challenges = [draw_challenge(draw, n, KINDS[kind], tools.quick) for n in sizes]
    probes = draw_probes(draw, tools.quick)
    expected = tools.work(challenges, probes, ["--backend", "cpu"])
    names = [f"random n = {n}" for n in sizes]
    for family in families:
        several(tools, report, names, challenges, probes, expected, family)


def several(
    tools: Tools, report: Report, names: list, challenges: list, probes: list, expected: list, family: Family
) -> None:
    """Cases of one family in one run of the program. After a run without a result, its other cases fail unseen."""
    key = (family.gpu.index, family.name)
    if key in tools.silent:
        for name in names:
            report.check(f"{name}, {family.title}: not tried", False, tools.silent[key])
        return
    found, error = tools.work_until_error(challenges, probes, family.flags, family.gpu)
    results = [check(report, f"{name}, {family.title}", a, b) for name, a, b in zip(names, expected, found)]
    if not all(results):
        locate.wrong_bytes(tools, report, family, challenges[results.index(False)])
    if error:
        for name in names[len(found) :]:
            report.check(f"{name}, {family.title}: no result", False, error)
        give_up(tools, report, family, challenges[len(found) :], probes, error)


def give_up(tools: Tools, report: Report, family: Family, challenges: list, probes: list, error: str) -> None:
    """A family gave no result: its other cases fail unseen, and what can be found out is kept in files."""
    tools.silent[(family.gpu.index, family.name)] = f"{family.name} gave no result before: {error[:300]}"
    locate.no_result(tools, report, family, challenges[:1], probes, error)


def check(report: Report, name: str, expected: dict, found: dict) -> bool:
    """Compares what is expected of a case, but for signatures."""
    unsigned = {key: without_signature(found.get(key, {})) for key in expected}
    wanted = {key: without_signature(value) for key, value in expected.items()}
    return report.check(name, unsigned == wanted, f"expected {json.dumps(wanted)}\nfound    {json.dumps(unsigned)}")


def without_signature(value: dict) -> dict:
    """The keys that make a signature differ."""
    return {key: part for key, part in value.items() if key != "signature"}


def read(tools: Tools, name: str) -> dict:
    """A vector."""
    return json.loads((tools.vectors / f"{name}.json").read_text())


def hexed(draw: random.Random, length: int) -> str:
    """Bytes as hex digits."""
    return draw.getrandbits(8 * length).to_bytes(length, "big").hex()


def draw_challenge(draw: random.Random, n: int, precision: int, quick: bool) -> dict:
    """A challenge of one to three shares, in one to three iterations; of one share in one when it is to be quick."""
    shares, offset, most = [], 0, 5 if quick else max(4, min(SHARE_SLOTS, SHARE_BYTES // (n * n)))
    for device_id in sorted(hexed(draw, 16) for _ in range(1 if quick else draw.randint(1, 3))):
        count = draw.randint(3, most)
        shares.append({"device_id": device_id, "offset": offset, "count": count})
        offset += count
    lengths = {"challenge_id": 16, "nonce": 32, "validator_key": 32, "miner_key": 32}
    ids = {name: hexed(draw, length) for name, length in lengths.items()}
    iterations = 1 if quick else draw.randint(1, 3)
    return {"version": 1, **ids, "precision": precision, "n": n, "iterations": iterations, "shares": shares}


def draw_probes(draw: random.Random, quick: bool) -> list:
    """A probe over each device by itself, and a sweep."""
    walks, steps = 1 << draw.randint(6, 6 if quick else 14), draw.randint(1, 8 if quick else 64)
    probe = {"seed": hexed(draw, 32), "walks": walks, "steps": steps, "rounds": draw.randint(1, 3)}
    return [probe, {"seed": hexed(draw, 32), "rounds": draw.randint(1, 3)}]
