"""The GPU's clocks and power beside a measurement, by nvidia-smi."""

import contextlib
import signal
import statistics
import subprocess

from .report import Report
from .tools import Tools

# Newer drivers name the reasons `event`, older ones `throttle`.
REASONS = ["clocks_event_reasons.active", "clocks_throttle_reasons.active"]
# Bits of the reasons, as NVML's header has them.
REASON_NAMES = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown",
    0x40: "hardware thermal",
    0x80: "hardware power brake",
    0x100: "display clocks",
}
# Of the highest power seen: samples above this share were taken under load.
LOADED = 0.7


@contextlib.contextmanager
def recorded(tools: Tools, report: Report, name: str):
    """Samples ten times a second while the body runs, into a file; then says what they show."""
    path = report.files / f"{name}-clocks.csv"
    reasons = next((field for field in REASONS if is_known(tools, field)), None)
    if reasons is None:
        report.text(f"{name}: clocks and power are not recorded: nvidia-smi does not answer")
        yield
        return
    query = f"--query-gpu=clocks.sm,power.draw,{reasons},temperature.gpu,index"
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits", "--loop-ms=100"]
    with open(path, "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        report.headline(f"{name}: {summary(path.read_text())}")


def is_known(tools: Tools, field: str) -> bool:
    """Whether this machine's nvidia-smi has a field."""
    try:
        return tools.run(["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"], limit_s=20).returncode == 0
    except Exception:  # noqa: BLE001
        return False


def summary(text: str) -> str:
    """Clocks and power of the samples under load, and every reason that held clocks back there."""
    samples = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        try:
            samples.append((float(cells[0]), float(cells[1]), int(cells[2], 16)))
        except (ValueError, IndexError):
            continue
    if not samples:
        return "no samples of clocks and power"
    most = max(power for _, power, _ in samples)
    loaded = [sample for sample in samples if sample[1] >= LOADED * most]
    clocks, powers = [sample[0] for sample in loaded], [sample[1] for sample in loaded]
    shares = []
    for bit, name in REASON_NAMES.items():
        share = sum(bool(reasons & bit) for _, _, reasons in loaded) / len(loaded)
        if share > 0:
            shares.append(f"{name} {100 * share:.0f} %")
    clock = f"SM clock {statistics.median(clocks):.0f} MHz ({min(clocks):.0f} to {max(clocks):.0f})"
    power = f"{statistics.median(powers):.0f} W (at most {most:.0f})"
    held_back = f"held back by: {', '.join(shares) or 'nothing'}"
    return f"{clock}, {power}, {held_back}; {len(loaded)} of {len(samples)} samples under load"
