"""Vectors and random cases: every device, every family, against what is known and against the processor."""
import json
import random
import secrets

from .report import Report
from .tools import Tools

# Challenges with their evidence; probes with their answer.
CHALLENGES = ["smallest", "one-device", "two-devices-three-iterations", "uneven-devices", "n1024", "n2048"]
PROBES = ["probe", "probe-n1024", "probe-w64"]
# The kinds of work beside INT8: by name, the number and the challenges.
KINDS = {
    "f16": (2, ["k2-one-device", "k2-three-devices-two-iterations"]),
    "fp8": (5, ["k5-one-device"]),
    "fp4": (6, ["k6-one-device"]),
}
# Those of matrices no larger than 256.
QUICK = ["smallest", "one-device", "probe-w64"]


def vectors(tools: Tools, report: Report) -> None:
    """The worked examples of the specification."""
    for gpu in tools.gpus():
        for family in gpu.families:
            vectors_with(tools, report, f"{family}, GPU {gpu.index}", ["--backend", "cuda", "--kernel", family], gpu)


def vectors_with(tools: Tools, report: Report, title: str, flags: list, gpu=None) -> None:
    """The worked examples, by what the flags ask for."""
    for name in QUICK if tools.quick else CHALLENGES + PROBES:
        vector = json.loads((tools.vectors / f"{name}.json").read_text())
        probe = vector.get("probe") if name in PROBES else None
        expected = {"answer": vector["answer"]} if probe else {"evidence": vector["evidence"]}
        compare(tools, report, f"{name}, {title}", vector["challenge"], probe, flags, gpu, expected)


def kinds(tools: Tools, report: Report) -> None:
    """What the self-test found of the float units; every kind of work, each by the unit that the device chose for it."""
    found = tools.run([tools.miner, "devices", "--backend", "cuda", "--wide", *tools.key()])
    report.text(found.stdout.rstrip() or found.stderr.rstrip())
    seed = secrets.randbits(32)
    report.text(f"seed {seed}")
    draw = random.Random(seed)
    for gpu in tools.gpus():
        for kind, (precision, names) in KINDS.items():
            if kind in gpu.kinds:
                kind_with(tools, report, gpu, precision, names, draw)
            else:
                report.text(f"GPU {gpu.index} does not compute {kind}")


def kind_with(tools: Tools, report: Report, gpu, precision: int, names: list, draw: random.Random) -> None:
    """One kind on one device: vectors, and challenges drawn anew."""
    flags = ["--backend", "cuda"]
    for name in names:
        vector = json.loads((tools.vectors / f"{name}.json").read_text())
        expected = {"evidence": vector["evidence"]}
        compare(tools, report, f"{name}, GPU {gpu.index}", vector["challenge"], None, flags, gpu, expected)
    for n in [256] if tools.quick else [256, 512, 1024, 2048, 4096]:
        challenge, probe = draw_case(draw, n, precision)
        expected = tools.work(challenge, probe, ["--backend", "cpu"])
        title = f"random n = {n}, kind {precision}, GPU {gpu.index}"
        compare(tools, report, title, challenge, probe, flags, gpu, expected)


def random_cases(tools: Tools, report: Report) -> None:
    """Challenges drawn anew, whose seed is printed; the processor says what is right."""
    seed = secrets.randbits(32)
    report.text(f"seed {seed}")
    draw = random.Random(seed)
    sizes = [256] if tools.quick else [256, 512, 1024, 2048, 4096]
    for n in sizes:
        challenge, probe = draw_case(draw, n)
        expected = tools.work(challenge, probe, ["--backend", "cpu"])
        for gpu in tools.gpus():
            for family in gpu.families:
                flags = ["--backend", "cuda", "--kernel", family]
                compare(tools, report, f"random n = {n}, {family}, GPU {gpu.index}", challenge, probe, flags, gpu, expected)


def random_with(tools: Tools, report: Report, title: str, flags: list) -> None:
    """Challenges drawn anew, by what the flags ask for, on whatever devices that gives."""
    seed = secrets.randbits(32)
    report.text(f"seed {seed}")
    draw = random.Random(seed)
    for n in [256] if tools.quick else [256, 512, 1024, 2048, 4096]:
        challenge, probe = draw_case(draw, n)
        expected = tools.work(challenge, probe, ["--backend", "cpu"])
        compare(tools, report, f"random n = {n}, {title}", challenge, probe, flags, None, expected)


def compare(tools: Tools, report: Report, name, challenge, probe, flags, gpu, expected: dict) -> None:
    """One case on one device."""
    try:
        found = tools.work(challenge, probe, flags, gpu)
    except (OSError, ValueError) as error:
        report.check(name, False, str(error))
        return
    unsigned = {key: {k: v for k, v in found.get(key, {}).items() if k != "signature"} for key in expected}
    wanted = {key: {k: v for k, v in value.items() if k != "signature"} for key, value in expected.items()}
    report.check(name, unsigned == wanted, f"expected {json.dumps(wanted)[:400]}\nfound    {json.dumps(unsigned)[:400]}")


def draw_case(draw: random.Random, n: int, precision: int = 1) -> tuple:
    """A challenge of one to three devices, and a probe."""
    hexed = lambda length: draw.randbytes(length).hex()  # noqa: E731
    ids = sorted(hexed(16) for _ in range(draw.randint(1, 3)))
    shares, offset = [], 0
    for device_id in ids:
        count = draw.randint(3, max(4, min(40, (1 << 26) // (n * n))))
        shares.append({"device_id": device_id, "offset": offset, "count": count})
        offset += count
    challenge = {
        "version": 1, "challenge_id": hexed(16), "nonce": hexed(32), "validator_key": hexed(32), "miner_key": hexed(32),
        "precision": precision, "n": n, "iterations": draw.randint(1, 3), "shares": shares,
    }
    probe = {"seed": hexed(32), "walks": 1 << draw.randint(6, 14), "steps": draw.randint(1, 64), "rounds": draw.randint(1, 3)}
    return challenge, probe
